"""The input of a subtask: what the network brings, barriers told apart from data. No I/O of its own but spilling."""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.barrier_handler import CheckpointBarrierHandler, Clock
from pystate.runtime.engines.real_time.slot.channel_state import ChannelStateReader
from pystate.runtime.engines.real_time.slot.checkpoint_barrier_tracker import CheckpointBarrierTracker
from pystate.runtime.engines.real_time.slot.input_channels import InputChannels
from pystate.runtime.engines.real_time.slot.input_events import AllChannelsEnded, InputElement, InputEvent
from pystate.runtime.engines.real_time.slot.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.single_checkpoint_barrier_handler import SingleCheckpointBarrierHandler
from pystate.runtime.engines.real_time.slot.stream_elements import (
    Buffer,
    CancelCheckpointMarker,
    EndOfPartition,
    StreamElement,
    Watermark,
    WatermarkStatus,
)


class CheckpointedInputGate:
    """Takes what comes on the channels, and says what the subtask's thread does next.

    It has no thread and no lock: whoever has several threads holds a lock of theirs around each call.

    Args:
        channels: How many.
        settings: How barriers are treated.
        clock: Milliseconds since 1970, that of the barriers' trigger.
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
        """Whether the network should be read; not to read it is the back-pressure. What is held back doesn't count."""
        return self._channels.has_room

    @property
    def has_events(self) -> bool:
        """Whether `poll` may return something; with its deadline it may without."""
        return bool(self._events) or self._channels.has_next

    @property
    def has_checkpoint_events(self) -> bool:
        """Whether `poll_checkpoint` returns something."""
        return bool(self._events)

    @property
    def queued_bytes(self) -> int:
        """Bytes of data that wait, held back or not."""
        return self._channels.size

    @property
    def held_back_bytes(self) -> int:
        """Bytes of data that are held back for a barrier."""
        return self._channels.held_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes of data that wait in memory; the rest is in files."""
        return self._channels.memory_used

    @property
    def spilled_bytes(self) -> int:
        """Bytes of data that wait in files."""
        return self._channels.spilled_bytes

    def is_held_back(self, channel: int) -> bool:
        """Return whether a channel waits for the barriers of others."""
        return self._channels.is_held_back(channel)

    def may_overtake_output(self, barrier: CheckpointBarrier) -> bool:
        """Return whether a barrier that is sent on goes past output that is queued, which then is channel state, too."""
        overtakes_at = self._settings.overtakes_at(barrier)
        return overtakes_at is not None and self._clock() >= overtakes_at

    def restore(self, channel_state: BinaryIO) -> None:
        """Replay a checkpoint's channel state before all that comes. To be called before the first `add`.

        Args:
            channel_state: What a `ChannelStateWriter` wrote, at its beginning.

        Raises:
            ChannelStateRescaleError: It is of a subtask with another number of channels.
            CorruptSnapshotError: It is damaged.
            SnapshotError: A newer version wrote it, or the disk takes no more.
        """
        reader = ChannelStateReader(channel_state)
        reader.check_channels(len(self._channels))
        for channel, element in reader:
            self._channels.replay(channel, element)

    def add(self, channel: int, element: StreamElement) -> None:
        """Take what has come on a channel.

        Raises:
            SnapshotError: The disk takes no more of what is held back or of channel state.
        """
        if not self._handler.added(channel, element):
            self._channels.append(channel, element)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """Give a checkpoint up of which somebody else says that it is over."""
        self._handler.cancelled(CancelCheckpointMarker(checkpoint_id))

    def next_deadline(self) -> int | None:
        """Return when `poll` has something to do though nothing has come, ms since 1970; None for never."""
        return self._handler.deadline

    def poll(self) -> InputEvent | None:
        """Return what is to be done next; None for nothing now.

        Raises:
            SpilledDataError: What waited on disk is damaged.
            SnapshotError: The disk takes no more of the channel state.
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
        """Return what comes before the next element, and takes none; None for nothing.

        Raises:
            SpilledDataError, SnapshotError: See `poll`.
        """
        deadline = self._handler.deadline
        if deadline is not None and self._clock() >= deadline:
            self._handler.timed_out()
        return self._events.popleft() if self._events else None

    def close(self) -> None:
        """Let go of memory and files."""
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
