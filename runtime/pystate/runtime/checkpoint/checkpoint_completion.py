"""Completes checkpoints: writes `_metadata`, subsumes older ones, and notifies the job's functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pystate.common.errors import CheckpointFailedError, PystateError, SnapshotError
from pystate.common.time import current_time_ms
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.runtime.checkpoint.checkpoint_failures import CheckpointFailures
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import LiveAttempt
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.checkpoint.request_decider import CheckpointRequestDecider
from pystate.runtime.checkpoint.retention.restore_points import RestorePoints
from pystate.runtime.checkpoint.source_cut import SourceCut
from pystate.runtime.checkpoint.stats.file import StatisticsFile


class CheckpointCompletion:
    """Completes checkpoints that all subtasks have acknowledged and whose cut can be restored.

    Args:
        pending: The pending checkpoints.
        attempt: The current attempt.
        decider: Is told of completions, for the timetable.
        failures: Handles those that can't be completed or aren't needed any more.
        points: Keeps the completed ones.
        statistics: Records each.
        write: Writes the files that make a checkpoint restorable, `_metadata` last.

    Attributes:
        listeners: Called with each checkpoint after which functions may commit; must not block.
    """

    def __init__(
        self,
        pending: PendingCheckpoints,
        attempt: LiveAttempt,
        decider: CheckpointRequestDecider[CheckpointRequest],
        failures: CheckpointFailures,
        points: RestorePoints,
        statistics: StatisticsFile,
        write: Callable[[PendingCheckpoint, SourceCut], CheckpointMetadata],
    ) -> None:
        self._pending = pending
        self._lock = pending.lock
        self._attempt = attempt
        self._decider = decider
        self._failures = failures
        self._points = points
        self._statistics = statistics
        self._write = write
        self.listeners: list[Callable[[CompletedCheckpoint], None]] = []

    def complete(self, checkpoint: PendingCheckpoint) -> None:
        """Complete a checkpoint; does nothing if it has failed, or its attempt is over."""
        with self._lock:
            cut = checkpoint.cut
            if cut is None or not self._attempt.runs or checkpoint.is_aborted:
                return
            checkpoint.finalizing = True  # from now on it outlives its attempt
        completed = self._finalize(checkpoint, cut)
        if completed is None:
            self._points.finalizing_over(checkpoint.checkpoint_id)
            return
        self._points.shared.completed(completed.metadata)
        self._take_over(checkpoint, completed)
        for listener in self.listeners if checkpoint.commits else ():
            listener(completed)
        told = self._attempt.tell(checkpoint, completed=True)
        # a job that is stopped or has read its sources ends after its last checkpoint: its functions must be notified first
        told.add_done_callback(lambda told: self._told(checkpoint, completed, heard=not told.cancelled() and told.result()))

    def _told(self, checkpoint: PendingCheckpoint, completed: CompletedCheckpoint, *, heard: bool) -> None:
        if heard and checkpoint.commits:
            self._statistics.tracker.report_notified(checkpoint.checkpoint_id)
            self._statistics.changed(soon=False)
        checkpoint.request.future.set_result(replace(completed, heard=heard))

    def _finalize(self, checkpoint: PendingCheckpoint, cut: SourceCut) -> CompletedCheckpoint | None:
        """Write the metadata; return None if that failed, or the checkpoint expired while the storage hung."""
        try:
            if checkpoint.request.hold:
                self._points.about_to_hold(checkpoint.checkpoint_id, checkpoint.location)
            metadata = self._write(checkpoint, cut)
        except Exception as error:  # whatever it was: this checkpoint must not be awaited any longer
            failure = (
                error if isinstance(error, PystateError) else SnapshotError(f"The metadata can't be written: {error!r}")
            )
            self._failures.fail(checkpoint, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, failure)
            return None
        with self._lock:
            return None if checkpoint.is_aborted else checkpoint.complete(metadata, current_time_ms())

    def _take_over(self, checkpoint: PendingCheckpoint, completed: CompletedCheckpoint) -> None:
        """Replace everything that the completed checkpoint makes obsolete."""
        tracker = self._statistics.tracker
        with self._lock:
            self._pending.let_go(checkpoint)
            self._pending.confirm(checkpoint)
            self._attempt.stop_after(checkpoint)
            if checkpoint.request.hold:
                self._points.hold(completed)
            subsumed = self._points.add(completed)
            self._failures.reset()
            self._decider.report_completed(checkpoint.checkpoint_type)
            tracker.report_alignment(checkpoint.checkpoint_id, checkpoint.alignment)
            tracker.report_completed(completed)
            overtaken = [] if checkpoint.is_savepoint else self._pending.older_than(checkpoint.checkpoint_id)
            lowest_base = self._pending.lowest_base(besides=overtaken)
        for older in overtaken:
            late = CheckpointFailedError(f"Checkpoint {checkpoint.checkpoint_id} completed first.")
            self._failures.fail(older, CheckpointFailureReason.CHECKPOINT_SUBSUMED, late)
        gone = self._points.discard_subsumed(subsumed, lowest_base)
        tracker.report_discarded(one.checkpoint_id for one in gone)
        self._statistics.changed()
