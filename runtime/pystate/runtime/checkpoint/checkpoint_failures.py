"""Fails checkpoints: deletes their files, answers waiting callers, and may fail the attempt."""

from __future__ import annotations

import contextlib
import sys
from concurrent.futures import InvalidStateError

from pystate.common.errors import (
    CheckpointFailedError,
    DriverReplacedError,
    PystateError,
    SnapshotExistsError,
    SubtaskHangsError,
)
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.failure_manager import CheckpointFailureDecision, CheckpointFailureManager
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.late_acknowledgements import LateAcknowledgements
from pystate.runtime.checkpoint.live_attempt import LiveAttempt
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.checkpoint.retention.restore_points import RestorePoints
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.checkpoint.stats.file import StatisticsFile


class CheckpointFailures:
    """Fails checkpoints.

    Args:
        settings: The options of checkpointing.
        pending: The pending checkpoints.
        attempt: The current attempt.
        points: Keeps files that a failed checkpoint may refer to until it is deleted.
        late: Records what is to be deleted.
        statistics: Records each.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        pending: PendingCheckpoints,
        attempt: LiveAttempt,
        points: RestorePoints,
        late: LateAcknowledgements,
        statistics: StatisticsFile,
    ) -> None:
        self._manager = CheckpointFailureManager(settings.tolerable_failures)
        self._needs_each = settings.engine_triggers
        self._pending = pending
        self._lock = pending.lock
        self._attempt = attempt
        self._points = points
        self._late = late
        self._statistics = statistics

    def reset(self) -> None:
        """Reset the failure count: an attempt begins, or a checkpoint has completed."""
        with self._lock:
            self._manager.reset()

    def fail(
        self,
        checkpoint: PendingCheckpoint,
        reason: CheckpointFailureReason,
        error: PystateError,
        *,
        fails_attempt: bool = False,
    ) -> None:
        """Fail a checkpoint; its files are deleted by a later step, since that may hang.

        Args:
            checkpoint: Which; does nothing if it has ended already.
            reason: Why.
            error: The error to report.
            fails_attempt: Whether the attempt must fail, however many failures are tolerated.
        """
        with self._lock:
            if not checkpoint.abort(reason):
                return
        # existing files there must not be deleted by us
        ours = checkpoint.created and not isinstance(error, SnapshotExistsError)
        if ours:  # before its end: from then on nothing else keeps files that its metadata may refer to
            number, location, told = checkpoint.checkpoint_id, checkpoint.location, checkpoint.confirmed
            self._points.note_failed(number, location, told, held=checkpoint.finalizing)
        with self._lock:
            self._pending.let_go(checkpoint)
            if ours:
                self._late.checkpoint_failed(checkpoint.checkpoint_id, checkpoint.location)
                if not checkpoint.finalizing:  # else it is deleted after the write of its metadata
                    self._late.report(checkpoint.checkpoint_id)
            self._take_note(checkpoint, reason, error)
            intolerable = self._is_intolerable(checkpoint, reason, error)
            end_attempt = self._attempt.on_intolerable
        self._attempt.tell(checkpoint, completed=False)
        self._statistics.changed()
        failure = CheckpointFailedError(error.message, where=error.where or checkpoint.location.uri, hint=error.hint)
        answer(checkpoint.request, failure)
        if fails_attempt or intolerable:
            end_attempt(error if isinstance(error, SubtaskHangsError) else failure)

    def fail_request(self, request: CheckpointRequest, failure: CheckpointFailedError) -> None:
        """Fail a request for which no checkpoint could begin: it is counted as failed, logged, and answered.

        It doesn't count as a tolerable failure: a job that continues without checkpoints while the disk of its job folder is
        full loses less than one that is restarted there.
        """
        reason = CheckpointFailureReason.IO_EXCEPTION
        self._statistics.tracker.report_failed(None, reason, failure.message)
        self._statistics.changed()
        sys.stderr.write(f"WARNING: no checkpoint was triggered. {failure.message}\n")
        answer(request, failure)

    def fail_with_attempt(self, checkpoint: PendingCheckpoint, *, job_ends: bool = False) -> None:
        """Fail a checkpoint whose attempt is over.

        Args:
            checkpoint: Which.
            job_ends: Whether the job has ended; otherwise the next attempt takes checkpoints again.
        """
        shutdown = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        suspend = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND
        self.fail(checkpoint, shutdown if job_ends else suspend, self._attempt.over())

    def discard(self, checkpoint: PendingCheckpoint) -> None:
        """Delete at once files that were written after a checkpoint's failure."""
        self._points.discard_failed({checkpoint.checkpoint_id: checkpoint.location})

    # -- under the lock

    def _take_note(self, checkpoint: PendingCheckpoint, reason: CheckpointFailureReason, error: PystateError) -> None:
        tracker = self._statistics.tracker
        if self._attempt.job_ends and not checkpoint.is_savepoint:
            tracker.withdraw(checkpoint.checkpoint_id)
        else:
            tracker.report_failed(checkpoint, reason, error.message)

    def _is_intolerable(self, checkpoint: PendingCheckpoint, reason: CheckpointFailureReason, error: PystateError) -> bool:
        decision = self._manager.handle_failure(checkpoint.checkpoint_id, reason, is_savepoint=checkpoint.is_savepoint)
        if decision is CheckpointFailureDecision.FAIL_JOB or isinstance(error, DriverReplacedError):
            return True
        # an engine that brings its checkpoints itself can't repeat what follows the one before
        return self._needs_each and not checkpoint.is_savepoint and self._attempt.runs


def answer(request: CheckpointRequest, failure: PystateError) -> None:
    """Complete a request with the reason why there is no checkpoint; does nothing if it was answered already."""
    with contextlib.suppress(InvalidStateError):  # it was given up before, while the storage hung
        request.future.set_exception(failure)
