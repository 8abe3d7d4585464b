"""The states of a job, in Flink's names (`org.apache.flink.api.common.JobStatus`)."""

from __future__ import annotations

from enum import Enum


class JobStatus(str, Enum):
    """The state of a job."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"

    @property
    def is_terminal(self) -> bool:
        """Whether the job will never run again under this id."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_globally_terminal_state(self) -> bool:
        """Return whether no driver runs the job any more."""
        return self.is_terminal

    def is_terminal_state(self) -> bool:
        """Return whether no current driver runs the job."""
        return self.is_terminal or self is JobStatus.SUSPENDED
