"""The input of a subtask: separates barriers from the data of the network. It does no I/O except spilling."""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input.barrier_handler import CheckpointBarrierHandler, Clock
from pystate.runtime.engines.real_time.slot.input.channel_state import ChannelStateReader
from pystate.runtime.engines.real_time.slot.input.checkpoint_barrier_tracker import CheckpointBarrierTracker
from pystate.runtime.engines.real_time.slot.input.input_channels import InputChannels
from pystate.runtime.engines.real_time.slot.input.input_events import AllChannelsEnded, InputElement, InputEvent
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.single_checkpoint_barrier_handler import SingleCheckpointBarrierHandler
from pystate.runtime.engines.real_time.slot.input.stream_elements import (
    Buffer,
    CancelCheckpointMarker,
    EndOfPartition,
    StreamElement,
    Watermark,
    WatermarkStatus,
)


class CheckpointedInputGate:
    """Accepts elements of all channels, and returns the next event for the subtask's thread.

    It has no thread and no lock: with several threads, callers hold their own lock around each call.

    Args:
        channels: The number of channels.
        settings: The options of the input.
        clock: Returns milliseconds since 1970; the same clock as that of the barriers' trigger time.
    """

    def __init__(self, channels: int, settings: InputSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._channels = InputChannels(channels, settings)
        self._events: deque[InputEvent] = deque()
        self._handler: CheckpointBarrierHandler
        if settings.at_least_once:
            self._handler = CheckpointBarrierTracker(channels, self._events.append, clock)
        else:
            self._handler = SingleCheckpointBarrierHandler(self._channels, settings, self._events.append, clock)
        self._open = channels

    @property
    def has_room(self) -> bool:
        """Whether the network should be read; not reading it is back-pressure. Held-back data doesn't count."""
        return self._channels.has_room

    @property
    def has_events(self) -> bool:
        """Whether `poll` may return an event; after the deadline it may even if this is false."""
        return bool(self._events) or self._channels.has_next

    @property
    def has_checkpoint_events(self) -> bool:
        """Whether `poll_checkpoint` returns an event."""
        return bool(self._events)

    @property
    def queued_bytes(self) -> int:
        """Bytes of queued data, held back or not."""
        return self._channels.size

    @property
    def held_back_bytes(self) -> int:
        """Bytes of data that are held back for a barrier."""
        return self._channels.held_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of queued data in memory; the rest is in files."""
        return self._channels.memory_used

    @property
    def spilled_bytes(self) -> int:
        """Bytes of queued data in files."""
        return self._channels.spilled_bytes

    def is_held_back(self, channel: int) -> bool:
        """Return whether a channel waits for the barriers of others."""
        return self._channels.is_held_back(channel)

    def may_overtake_output(self, barrier: CheckpointBarrier) -> bool:
        """Return whether a forwarded barrier overtakes queued output, which then becomes channel state too."""
        overtakes_at = self._settings.overtakes_at(barrier)
        return overtakes_at is not None and self._clock() >= overtakes_at

    def restore(self, channel_state: BinaryIO) -> None:
        """Replay a checkpoint's channel state before all other input. Call it before the first `add`.

        Args:
            channel_state: The output of a `ChannelStateWriter`, at its beginning.

        Raises:
            ChannelStateRescaleError: It belongs to a subtask with another number of channels.
            CorruptSnapshotError: It is damaged.
            SnapshotError: A newer version wrote it, or the disk is full or fails.
        """
        reader = ChannelStateReader(channel_state)
        reader.check_channels(len(self._channels))
        for channel, element in reader:
            self._channels.replay(channel, element)

    def add(self, channel: int, element: StreamElement) -> None:
        """Accept an element of a channel.

        Raises:
            SnapshotError: The disk is full or fails while it stores held-back data or channel state.
        """
        if not self._handler.added(channel, element):
            self._channels.append(channel, element)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Abort a checkpoint that was ended from outside."""
        self._handler.aborted(checkpoint_id)

    def next_deadline(self) -> int | None:
        """Return the time from which `poll` may return an event without new input, ms since 1970; None for never."""
        return self._handler.deadline

    def poll(self) -> InputEvent | None:
        """Return the next event; None if there is none now.

        Raises:
            SpilledDataError: Data spilled to disk is damaged.
            SnapshotError: The disk is full or fails while it stores channel state.
        """
        event = self.poll_checkpoint()
        if event is not None:
            return event
        while not self._events:
            found = self._channels.next()
            if found is None:
                return None
            channel, element = found
            if isinstance(element, Buffer):
                self._handler.processed(len(element.data))
                return InputElement(channel, element)
            if isinstance(element, Watermark | WatermarkStatus):
                return InputElement(channel, element)
            self._reached(channel, element)
        return self._events.popleft()

    def poll_checkpoint(self) -> InputEvent | None:
        """Return the next checkpoint event before the next element, without taking an element; None if there is none.

        Raises:
            SpilledDataError, SnapshotError: See `poll`.
        """
        deadline = self._handler.deadline
        if deadline is not None and self._clock() >= deadline:
            self._handler.timed_out()
        return self._events.popleft() if self._events else None

    def close(self) -> None:
        """Release memory and files."""
        self._handler.close()
        self._channels.close()
        self._events.clear()

    def _reached(self, channel: int, element: CheckpointBarrier | CancelCheckpointMarker | EndOfPartition) -> None:
        if isinstance(element, CheckpointBarrier):
            self._handler.barrier_reached(channel, element)
        elif isinstance(element, CancelCheckpointMarker):
            self._handler.cancelled(element)
        else:
            self._handler.ended(channel)
            self._open -= 1
            if not self._open:
                self._events.append(AllChannelsEnded())
