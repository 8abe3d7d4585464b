"""Barrier handling with at-least-once guarantee: barriers are counted, and no channel waits for them."""

from __future__ import annotations

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.real_time.slot.input.barrier_handler import Alignment, Clock, Emit
from pystate.runtime.engines.real_time.slot.input.input_events import CheckpointAborted, TakeCheckpoint
from pystate.runtime.engines.real_time.slot.input.stream_elements import CancelCheckpointMarker, StreamElement

_MOST_TRACKED = 50
"""The maximum number of concurrent checkpoints; Flink's bound."""


class CheckpointBarrierTracker:
    """Takes a checkpoint when its last barrier arrives; elements after the earlier barriers are included, and replayed.

    Args:
        channels: The number of the subtask's channels.
        emit: Called with each event for the subtask's thread.
        clock: Returns milliseconds since 1970.
    """

    def __init__(self, channels: int, emit: Emit, clock: Clock) -> None:
        self._channels = channels
        self._emit = emit
        self._clock = clock
        self._current = -1  # the newest known checkpoint
        self._alignments: dict[int, Alignment] = {}  # by checkpoint, oldest first
        self._ended: set[int] = set()
        self._aborted: set[int] = set()  # checkpoints that were given up before a barrier of theirs arrived

    @property
    def deadline(self) -> int | None:
        """Return None: no data is overtaken."""
        return None

    def added(self, channel: int, element: StreamElement) -> bool:
        """Return False: all elements are processed in order."""
        del channel, element
        return False

    def barrier_reached(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Count a barrier."""
        checkpoint_id = barrier.checkpoint_id
        if checkpoint_id in self._aborted:
            return
        if checkpoint_id > self._current:
            self._current = checkpoint_id
            self._aborted = {one for one in self._aborted if one > checkpoint_id}
            self._alignments[checkpoint_id] = Alignment(barrier, self._clock(), set(self._ended))
            if len(self._alignments) > _MOST_TRACKED:
                self._subsume(next(iter(self._alignments)))
        alignment = self._alignments.get(checkpoint_id)
        if alignment is not None:
            alignment.arrived.add(channel)
            self._complete()

    def cancelled(self, marker: CancelCheckpointMarker) -> None:
        """Cancel a checkpoint and all older ones."""
        checkpoint_id = marker.checkpoint_id
        known = self._alignments.pop(checkpoint_id, None)
        if known is None and checkpoint_id <= self._current:
            return
        self._subsume_older(checkpoint_id)
        self._current = max(self._current, checkpoint_id)
        self._emit(CheckpointAborted(checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER))

    def aborted(self, checkpoint_id: int) -> None:
        """Cancel that checkpoint alone: barriers of older ones may be on their way, such as that of a savepoint."""
        if self._alignments.pop(checkpoint_id, None) is not None:
            reason = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
            self._emit(CheckpointAborted(checkpoint_id, reason))
        elif checkpoint_id > self._current:
            self._aborted.add(checkpoint_id)

    def ended(self, channel: int) -> None:
        """Stop waiting for barriers of a channel."""
        self._ended.add(channel)
        for alignment in self._alignments.values():
            alignment.arrived.add(channel)
        self._complete()

    def processed(self, size: int) -> None:
        """Add to the bytes processed while barriers are counted."""
        for alignment in self._alignments.values():
            alignment.processed += size

    def timed_out(self) -> None:
        """Do nothing: there is no deadline."""

    def close(self) -> None:
        """Drop all alignments."""
        self._alignments.clear()

    def _complete(self) -> None:
        """Take the newest checkpoint that has all its barriers; older ones are obsolete then."""
        whole = [one for one, alignment in self._alignments.items() if len(alignment.arrived) == self._channels]
        if not whole:
            return
        self._subsume_older(whole[-1])
        alignment = self._alignments.pop(whole[-1])
        self._emit(TakeCheckpoint(alignment.barrier, alignment.measured(self._clock())))

    def _subsume_older(self, checkpoint_id: int) -> None:
        for older in [one for one in self._alignments if one < checkpoint_id]:
            self._subsume(older)

    def _subsume(self, checkpoint_id: int) -> None:
        del self._alignments[checkpoint_id]
        self._emit(CheckpointAborted(checkpoint_id, CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED))
