"""Savepoints on request, and those behind which a job ends."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from pystate.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.common.bounded_text import first_line
from pystate.common.errors import JobExecutionError
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
        drain: bool = False,
    ) -> Future[CompletedCheckpoint]:
        """Take a savepoint; the job ends behind it where it is to, and goes on if it fails.

        Args:
            target_directory: Where; None for the configured directory.
            end_state: How the job ends behind it; None where it goes on.
            message: What the savepoint says about itself.
            format: How keyed state is written.
            drain: Whether event time comes to its end in front of it. The job then goes on from its latest checkpoint if it
                fails.
        """
        if drain and end_state is not None:
            return self._drained(target_directory, end_state, message, format)
        hold = end_state is not None
        future = self._coordinator.trigger_savepoint(target_directory, hold=hold, message=message, format=format)
        if end_state is None:
            return future
        outer: Future[CompletedCheckpoint] = Future()
        future.add_done_callback(lambda done: self._end_behind(done, end_state, outer))
        return outer

    def _drained(
        self, target_directory: str | None, end_state: JobStatus, message: str | None, format: SavepointFormatType
    ) -> Future[CompletedCheckpoint]:
        outer: Future[CompletedCheckpoint] = Future()

        def run() -> None:
            try:
                self._scheduler.drain()
                taken = self.trigger(target_directory, end_state, message=message, format=format)
            except Exception as error:
                outer.set_exception(error)
                return
            taken.add_done_callback(hand_on)

        def hand_on(done: Future[CompletedCheckpoint]) -> None:
            error = done.exception()
            if error is None:
                outer.set_result(done.result())
                return
            outer.set_exception(error)
            self._scheduler.fail_drained(JobExecutionError(f"The savepoint of a drained job failed: {first_line(error)}"))

        threading.Thread(target=run, name="drain", daemon=True).start()
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
