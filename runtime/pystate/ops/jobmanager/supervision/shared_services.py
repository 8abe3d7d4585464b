"""Services that the runners of all jobs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pystate.common.time import current_time_ms
from pystate.ops.jobmanager.driver_starts import DriverStarts
from pystate.ops.jobmanager.drivers.driver_heartbeat import HeartbeatTerms
from pystate.ops.jobmanager.leadership import Leadership, OnlyJobManager
from pystate.ops.jobmanager.retried_steps import RetriedSteps
from pystate.ops.jobmanager.supervision.job_checkpoints import StatisticsFiles


@dataclass(frozen=True)
class JobManagerSharedServices:
    """The shared services.

    Attributes:
        drivers: Starts drivers.
        leadership: Whether this job manager may act; otherwise nothing is written and no driver started.
        steps: Retries steps that fail for a while.
        clock: Returns milliseconds since 1970.
        heartbeat: Interval and timeout of heartbeats to drivers.
        statistics: Reads the statistics of checkpoints that drivers have left.
    """

    drivers: DriverStarts
    leadership: Leadership = field(default_factory=OnlyJobManager)
    steps: RetriedSteps = field(default_factory=RetriedSteps)
    clock: Callable[[], int] = current_time_ms
    heartbeat: HeartbeatTerms = field(default_factory=HeartbeatTerms)
    statistics: StatisticsFiles = field(default_factory=StatisticsFiles)
