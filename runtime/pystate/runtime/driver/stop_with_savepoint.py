"""Savepoints on request, and those with which a job ends."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial

from pystate.common.errors import CheckpointFailedError, JobExecutionError
from pystate.common.job_status import JobStatus
from pystate.common.text.bounded_text import first_line
from pystate.core.snapshot.metadata import SavepointFormatType
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.driver.scheduler import Scheduler


class StopWithSavepoint:
    """Takes savepoints of one job, and ends the job after them if requested.

    Args:
        coordinator: The job's checkpoints.
        scheduler: Ends it.
    """

    def __init__(self, coordinator: CheckpointCoordinator, scheduler: Scheduler) -> None:
        self._coordinator = coordinator
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._draining = False

    def trigger(
        self,
        target_directory: str | None,
        end_state: JobStatus | None,
        *,
        message: str | None,
        format: SavepointFormatType,
        drain: bool = False,
    ) -> Future[CompletedCheckpoint]:
        """Take a savepoint; the job ends after it if requested, and continues if it fails.

        Args:
            target_directory: Where; None for the configured directory.
            end_state: How the job ends after it; None if it continues.
            message: The user's message in the savepoint.
            format: How keyed state is written.
            drain: Whether event time is advanced to its end before it. If the savepoint fails after that, so does the
                attempt, and the job continues from its latest checkpoint.

        Raises:
            CheckpointFailedError: There is no directory for it, or the job is to end and is being drained already.
        """
        if end_state is None:
            return self._coordinator.trigger_savepoint(target_directory, hold=False, message=message, format=format)
        with self._lock:
            if self._draining:
                text = "The job is being drained already."
                raise CheckpointFailedError(text, hint="wait for its savepoint; `pystate checkpoints` shows it")
            request = self._coordinator.savepoint_request(target_directory, hold=True, message=message, format=format)
            request.last = self._draining = drain
        outer: Future[CompletedCheckpoint] = Future()
        if drain:
            run = partial(self._drain, request, end_state, outer)
            threading.Thread(target=run, name="drain", daemon=True).start()
        else:
            self._coordinator.submit(request).add_done_callback(lambda done: self._end_after(done, end_state, outer))
        return outer

    def _drain(self, request: CheckpointRequest, end_state: JobStatus, outer: Future[CompletedCheckpoint]) -> None:
        """Advance event time to its end, and end the job after the savepoint there. Runs on its own thread."""
        try:
            fail_attempt = self._scheduler.drain(request)
        except Exception as error:
            self._draining = False
            outer.set_exception(error)
            return

        def savepoint_ended(done: Future[CompletedCheckpoint]) -> None:
            error = done.exception()
            if error is not None:
                self._draining = False
                fail_attempt(JobExecutionError(f"The savepoint of a drained job failed: {first_line(error)}"))
            self._end_after(done, end_state, outer)

        request.future.add_done_callback(savepoint_ended)

    def _end_after(self, done: Future[CompletedCheckpoint], state: JobStatus, outer: Future[CompletedCheckpoint]) -> None:
        error = done.exception()
        if error is not None:
            outer.set_exception(error)
            return
        try:
            self._scheduler.end_after_savepoint(done.result(), state)
        finally:
            outer.set_result(done.result())  # the savepoint is there, however the job ends
