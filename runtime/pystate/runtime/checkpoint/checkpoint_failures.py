"""The bad end of a checkpoint: what it has written is deleted, whoever waits is told, and the attempt may end with it."""

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
        pending: The checkpoints under way.
        attempt: The one that runs.
        points: Keeps files that a failed checkpoint may name until it is deleted.
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
        """Forget the failures so far: an attempt begins, or a checkpoint has completed."""
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
        """End a checkpoint badly; what it has written is deleted by a later step, for that may hang.

        Args:
            checkpoint: Which; does nothing if it has ended already.
            reason: Why.
            error: The same for people.
            fails_attempt: Whether the attempt can't go on, however many failures are tolerated.
        """
        with self._lock:
            if not checkpoint.abort(reason):
                return
        # what stands there already is not ours to delete
        ours = checkpoint.created and not isinstance(error, SnapshotExistsError)
        if ours:  # in front of its end: from then on nothing else keeps files that its metadata may name
            number, location, told = checkpoint.checkpoint_id, checkpoint.location, checkpoint.confirmed
            self._points.note_failed(number, location, told, held=checkpoint.finalizing)
        with self._lock:
            self._pending.let_go(checkpoint)
            if ours:
                self._late.checkpoint_failed(checkpoint.checkpoint_id, checkpoint.location)
                if not checkpoint.finalizing:  # else it is deleted behind the write of its metadata
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
        """End a request for which no checkpoint could begin: it is counted as failed, said, and answered.

        It doesn't count against what is tolerated: a job that goes on without checkpoints while the disk of its job folder
        is full loses less than one that is restarted there.
        """
        reason = CheckpointFailureReason.IO_EXCEPTION
        self._statistics.tracker.report_failed(None, reason, failure.message)
        self._statistics.changed()
        sys.stderr.write(f"WARNING: no checkpoint was triggered. {failure.message}\n")
        answer(request, failure)

    def fail_with_attempt(self, checkpoint: PendingCheckpoint, *, job_ends: bool = False) -> None:
        """End a checkpoint whose attempt is over.

        Args:
            checkpoint: Which.
            job_ends: With the job; else the next attempt continues with checkpoints.
        """
        shutdown = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        suspend = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND
        self.fail(checkpoint, shutdown if job_ends else suspend, self._attempt.over())

    def discard(self, checkpoint: PendingCheckpoint) -> None:
        """Delete at once what was made after a checkpoint's failure."""
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
    """Tell whoever has asked for a checkpoint why there is none; does nothing if they were told already."""
    with contextlib.suppress(InvalidStateError):  # it was given up before, while the storage hung
        request.future.set_exception(failure)
