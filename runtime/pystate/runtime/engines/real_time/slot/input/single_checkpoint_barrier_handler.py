"""Barrier handling with exactly-once guarantee: one checkpoint at a time, aligned, unaligned, or aligned with a timeout."""

from __future__ import annotations

from dataclasses import replace

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.engines.real_time.slot.input.barrier_handler import Alignment, Clock, Emit
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelStateWriter
from pystate.runtime.engines.real_time.slot.input.input_channels import InputChannels
from pystate.runtime.engines.real_time.slot.input.input_events import CheckpointAborted, InputComplete, TakeCheckpoint
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.stream_elements import (
    Buffer,
    CancelCheckpointMarker,
    EndOfPartition,
    StreamElement,
    Watermark,
    WatermarkStatus,
)


class SingleCheckpointBarrierHandler:
    """Holds back channels whose barrier has arrived, or lets barriers overtake data, which becomes channel state.

    Args:
        channels: The subtask's channels.
        settings: Whether and when barriers overtake.
        emit: Called with each event for the subtask's thread.
        clock: Returns milliseconds since 1970.
    """

    def __init__(self, channels: InputChannels, settings: InputSettings, emit: Emit, clock: Clock) -> None:
        self._channels = channels
        self._settings = settings
        self._emit = emit
        self._clock = clock
        self._current = -1  # the newest known checkpoint: older ones are over
        self._alignment: Alignment | None = None
        self._writer: ChannelStateWriter | None = None  # set while barriers overtake
        self._ended: set[int] = set()
        self._aborted: set[int] = set()  # checkpoints that were given up before a barrier of theirs arrived

    @property
    def deadline(self) -> int | None:
        """When barriers begin to overtake data, ms since 1970; None if they don't by themselves."""
        if self._alignment is None or self._writer is not None:
            return None
        return self._settings.overtakes_at(self._alignment.barrier)

    def added(self, channel: int, element: StreamElement) -> bool:
        """Handle a new element: a barrier may overtake queued data, and data may already be overtaken."""
        if isinstance(element, CheckpointBarrier):
            return self._barrier_added(channel, element)
        alignment = self._alignment
        if alignment is None:
            return False
        if isinstance(element, CancelCheckpointMarker):
            if element.checkpoint_id != alignment.checkpoint_id:
                return False
            self.cancelled(element)  # at once: it need not wait for the data before it
            return True
        if self._writer is not None and channel not in alignment.arrived:
            if isinstance(element, EndOfPartition):
                self._arrive(alignment, channel)
            else:
                self._writer.write(channel, element)
        return False

    def barrier_reached(self, channel: int, barrier: CheckpointBarrier) -> None:
        """Hold a channel back until the barriers of all others have arrived."""
        alignment = self._begin(barrier)
        if alignment is None or channel in alignment.arrived:
            return
        alignment.arrived.add(channel)
        if self._writer is None and len(alignment.arrived) < len(self._channels):
            self._channels.hold_back(channel)
        self._complete_if_all(alignment)

    def cancelled(self, marker: CancelCheckpointMarker) -> None:
        """Cancel a checkpoint and all older ones."""
        checkpoint_id = marker.checkpoint_id
        if self._alignment is not None and self._alignment.checkpoint_id == checkpoint_id:
            self._abort(CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)
        elif checkpoint_id > self._current:
            self._abort(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
            self._current = checkpoint_id
            reason = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
            self._emit(CheckpointAborted(checkpoint_id, reason))

    def aborted(self, checkpoint_id: int) -> None:
        """Cancel that checkpoint alone: barriers of older ones may be on their way, such as that of a savepoint."""
        if self._alignment is not None and self._alignment.checkpoint_id == checkpoint_id:
            self._abort(CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER)
        elif checkpoint_id > self._current:
            self._aborted.add(checkpoint_id)

    def ended(self, channel: int) -> None:
        """Stop waiting for barriers of a channel."""
        self._ended.add(channel)
        if self._alignment is not None and channel not in self._alignment.arrived:
            self._arrive(self._alignment, channel)

    def processed(self, size: int) -> None:
        """Add to the bytes processed during an alignment."""
        if self._alignment is not None:
            self._alignment.processed += size

    def timed_out(self) -> None:
        """Let the barriers overtake from now on."""
        if self._alignment is not None and self._writer is None:
            self._overtake(self._alignment, None)

    def close(self) -> None:
        """Drop incomplete channel state."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._alignment = None

    def _barrier_added(self, channel: int, barrier: CheckpointBarrier) -> bool:
        overtaking = self._writer is not None and barrier.checkpoint_id == self._current
        if overtaking or self._settings.overtakes_at_once(barrier):
            alignment = self._begin(barrier)
            if alignment is None or channel in alignment.arrived:
                return True
            if self._writer is None:
                self._overtake(alignment, channel)
            else:
                self._arrive(alignment, channel)
            return True
        if self._settings.overtakes_at(barrier) is not None:
            self._begin(barrier)  # the alignment begins now, wherever the barrier is in the queue
        return False

    def _begin(self, barrier: CheckpointBarrier) -> Alignment | None:
        """Return the alignment that a barrier belongs to; None if its checkpoint is over."""
        if barrier.checkpoint_id in self._aborted:
            return None
        if barrier.checkpoint_id > self._current:
            self._abort(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED)
            self._current = barrier.checkpoint_id
            self._aborted = {one for one in self._aborted if one > self._current}
            self._alignment = Alignment(barrier, self._clock(), set(self._ended))
        if self._alignment is None or barrier.checkpoint_id != self._current:
            return None
        return self._alignment

    def _overtake(self, alignment: Alignment, overtaking: int | None) -> None:
        """Take the checkpoint now: data before barriers that haven't arrived becomes channel state.

        Args:
            alignment: The alignment of the checkpoint.
            overtaking: The channel of the current barrier, which overtakes everything queued there.
        """
        settings = self._settings
        self._writer = ChannelStateWriter(
            alignment.checkpoint_id, len(self._channels), settings.memory_bytes, settings.directory
        )
        for channel in range(len(self._channels)):
            if channel not in alignment.arrived and self._persist_queued(self._writer, alignment.checkpoint_id, channel):
                self._channels.remove_barrier(channel, alignment.checkpoint_id)
                alignment.arrived.add(channel)
        self._release(alignment)
        self._emit(TakeCheckpoint(replace(alignment.barrier, unaligned=True), None))
        if overtaking is not None:
            alignment.arrived.add(overtaking)
        self._complete_if_all(alignment)

    def _persist_queued(self, writer: ChannelStateWriter, checkpoint_id: int, channel: int) -> bool:
        """Persist the data queued before a barrier; return whether the barrier, or the channel's end, is queued too."""
        for element in self._channels[channel]:
            if isinstance(element, Buffer | Watermark | WatermarkStatus):
                writer.write(channel, element)
            elif isinstance(element, EndOfPartition):
                return True
            elif isinstance(element, CheckpointBarrier) and element.checkpoint_id == checkpoint_id:
                return True
        return False

    def _arrive(self, alignment: Alignment, channel: int) -> None:
        alignment.arrived.add(channel)
        self._complete_if_all(alignment)

    def _complete_if_all(self, alignment: Alignment) -> None:
        if len(alignment.arrived) < len(self._channels):
            return
        writer = self._writer
        self._alignment = self._writer = None
        if writer is None:
            self._release(alignment)
            self._emit(TakeCheckpoint(alignment.barrier, alignment.measured(self._clock())))
            return
        measured = alignment.measured(self._clock())
        persisted = writer.data_bytes
        complete = replace(measured, unaligned=True, persisted_data=persisted, channel_state=writer.finish())
        self._emit(InputComplete(complete))

    def _release(self, alignment: Alignment) -> None:
        alignment.buffered = self._channels.held_bytes
        self._channels.release()

    def _abort(self, reason: CheckpointFailureReason) -> None:
        alignment = self._alignment
        if alignment is not None:
            self.close()
            self._channels.release()
            self._emit(CheckpointAborted(alignment.checkpoint_id, reason))
