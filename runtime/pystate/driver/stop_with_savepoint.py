"""Savepoints on request, and those behind which a job ends."""

from __future__ import annotations

from concurrent.futures import Future

from pystate.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.common.job_status import JobStatus
from pystate.driver.scheduler import Scheduler
from pystate.snapshot.metadata import SavepointFormatType


class StopWithSavepoint:
    """Takes savepoints of one job, and ends it behind them where that is asked for.

    Args:
        coordinator: The job's checkpoints.
        scheduler: Ends it.
    """

    def __init__(self, coordinator: CheckpointCoordinator, scheduler: Scheduler) -> None:
        self._coordinator = coordinator
        self._scheduler = scheduler

    def trigger(
        self,
        target_directory: str | None,
        end_state: JobStatus | None,
        *,
        message: str | None,
        format: SavepointFormatType,
    ) -> Future[CompletedCheckpoint]:
        """Take a savepoint; the job ends behind it where it is to, and goes on if it fails.

        Args:
            target_directory: Where; None for the configured directory.
            end_state: How the job ends behind it; None where it goes on.
            message: What the savepoint says about itself.
            format: How keyed state is written.
        """
        hold = end_state is not None
        future = self._coordinator.trigger_savepoint(target_directory, hold=hold, message=message, format=format)
        if end_state is None:
            return future
        outer: Future[CompletedCheckpoint] = Future()
        future.add_done_callback(lambda done: self._end_behind(done, end_state, outer))
        return outer

    def _end_behind(self, done: Future[CompletedCheckpoint], state: JobStatus, outer: Future[CompletedCheckpoint]) -> None:
        error = done.exception()
        if error is not None:
            outer.set_exception(error)
            return
        try:
            self._scheduler.end_behind_savepoint(state)
        finally:
            outer.set_result(done.result())  # the savepoint is there, however the job ends
