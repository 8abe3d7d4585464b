"""The context of a job, shared by all parts of its driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pystate.common.configuration.configuration import Configuration
from pystate.common.files.home import JobDirectory
from pystate.core.queryable.proxy.kv_state_locations import KvStateLocations
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.execution.status import JobStatusStore
from pystate.runtime.job_folder.driver_term import DriverTerm


@dataclass(frozen=True)
class JobContext:
    """One job in this driver.

    Attributes:
        job_id: 32 hex digits.
        name: The displayed name.
        configuration: The options in force.
        directory: The job's files.
        status: The job's status.
        term: This driver's right to run it.
        coordinator: Its checkpoints.
        say: Is called with sentences for users: warnings, restarts.
        kv_states: The locations of its queryable states.
    """

    job_id: str
    name: str
    configuration: Configuration
    directory: JobDirectory
    status: JobStatusStore
    term: DriverTerm
    coordinator: CheckpointCoordinator
    say: Callable[[str], None]
    kv_states: KvStateLocations = field(default_factory=KvStateLocations)

    def waits(self, sentence: str | None) -> None:
        """Report what the job waits for, to the user and in its status; None if it waits no more."""
        if sentence is not None:
            self.say(sentence)
        self.status.waits(sentence)
