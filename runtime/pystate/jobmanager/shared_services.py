"""What the runners of all jobs of a job manager share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pystate.common.home import JobDirectory
from pystate.common.time import current_time_ms
from pystate.job_folder.job_record import JobRecord
from pystate.jobmanager.driver_process import DriverProcess
from pystate.jobmanager.leadership import Leadership, OnlyJobManager
from pystate.jobmanager.retried_steps import RetriedSteps


class NextDrivers(Protocol):
    """Starts drivers in the place of those that have died."""

    def start_again(self, directory: JobDirectory, record: JobRecord) -> DriverProcess | None:
        """Start another driver for a job; None where that is the next job manager's to do.

        Raises:
            OSError: The process can't be started at the moment, or would have no room for its files.
            LeadershipLostError: Another job manager leads.
            DriverRefusedError: The operating system refuses it for good.
            PystateError: What it needs is gone.
        """


@dataclass(frozen=True)
class JobManagerSharedServices:
    """What the runners share.

    Attributes:
        drivers: Starts drivers in the place of those that have died.
        leadership: Whether this job manager may act; nothing is written and no driver started where it may not.
        steps: Does again what the operating system refuses for a while.
        clock: Milliseconds since 1970.
    """

    drivers: NextDrivers
    leadership: Leadership = field(default_factory=OnlyJobManager)
    steps: RetriedSteps = field(default_factory=RetriedSteps)
    clock: Callable[[], int] = current_time_ms
