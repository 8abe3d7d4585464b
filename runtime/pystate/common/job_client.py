"""What a program may ask of its own job while that runs in the background."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pystate.common.completable_future import CompletableFuture, completed
from pystate.common.job_execution_result import JobExecutionResult
from pystate.common.job_id import JobID
from pystate.common.job_status import JobStatus


class JobClient(ABC):
    """One job that `execute_async` has started."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the job's id."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return where the job stands."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; done once it knows of it, as in Flink. Its end is that of `get_job_execution_result`."""

    @abstractmethod
    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """End the job behind a savepoint; it continues where that fails.

        Args:
            advance_to_end_of_event_time: Whether event time comes to its end in front of it: all windows and timers fire.
            savepoint_directory: Where the savepoint goes; None for the configured directory.

        Returns:
            Where the savepoint is.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint; the job continues.

        Args:
            savepoint_directory: Where it goes; None for the configured directory.

        Returns:
            Where it is.
        """

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the accumulators by name: none, as functions in Python have none, in PyFlink neither."""
        return completed({})

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the job's result, once it has ended well. Else its error: what it failed of, or that it was cancelled."""
