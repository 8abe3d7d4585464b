"""The client of a job that a program runs in the background."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pystate.common.completable_future import CompletableFuture, completed
from pystate.common.job_execution_result import JobExecutionResult
from pystate.common.job_id import JobID
from pystate.common.job_status import JobStatus


class JobClient(ABC):
    """A job started by `execute_async`."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the job's status."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; done once the request is accepted, as in Flink. `get_job_execution_result` gives its end."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; it continues if that fails.

        Args:
            advance_to_end_of_event_time: Whether event time is advanced to its end before: all windows and timers fire.
            savepoint_directory: The target directory; None for the configured one.

        Returns:
            The location of the savepoint.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint; the job continues.

        Args:
            savepoint_directory: The target directory; None for the configured one.

        Returns:
            Its location.
        """

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the accumulators by name: none, since Python functions have none, as in PyFlink."""
        return completed({})

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the job's result once it has finished; if it failed or was cancelled, the future has the error."""
