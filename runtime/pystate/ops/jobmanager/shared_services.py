"""What the runners of all jobs of a job manager share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pystate.common.time import current_time_ms
from pystate.ops.jobmanager.driver_starts import DriverStarts
from pystate.ops.jobmanager.drivers.driver_heartbeat import HeartbeatTerms
from pystate.ops.jobmanager.leadership import Leadership, OnlyJobManager
from pystate.ops.jobmanager.retried_steps import RetriedSteps


@dataclass(frozen=True)
class JobManagerSharedServices:
    """What the runners share.

    Attributes:
        drivers: Starts drivers.
        leadership: Whether this job manager may act; nothing is written and no driver started where it may not.
        steps: Does again what the operating system refuses for a while.
        clock: Milliseconds since 1970.
        heartbeat: How often drivers are looked at, and how long one may be silent.
    """

    drivers: DriverStarts
    leadership: Leadership = field(default_factory=OnlyJobManager)
    steps: RetriedSteps = field(default_factory=RetriedSteps)
    clock: Callable[[], int] = current_time_ms
    heartbeat: HeartbeatTerms = field(default_factory=HeartbeatTerms)
