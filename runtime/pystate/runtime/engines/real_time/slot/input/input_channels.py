"""The channels of a subtask: which of them are held back, and which is read next."""

from __future__ import annotations

from collections import deque

from pystate.runtime.engines.real_time.slot.input.input_channel import InputChannel
from pystate.runtime.engines.real_time.slot.input.input_settings import InputSettings
from pystate.runtime.engines.real_time.slot.input.stream_elements import StreamElement, size_of


class InputChannels:
    """The queues of all channels, read round-robin.

    Args:
        count: The number of channels.
        settings: The buffer sizes.

    Attributes:
        memory_used: Bytes of data in memory.
    """

    def __init__(self, count: int, settings: InputSettings) -> None:
        self._channels = [InputChannel(settings.directory) for _ in range(count)]
        self._bound = settings.memory_bytes
        self._room = settings.room_bytes
        self._held_back: set[int] = set()
        self._replayed: dict[int, int] = {}  # elements of restored channel state that are still to be read
        self._turns: deque[int] = deque()  # channels with elements that aren't held back, each once
        self._held_bytes = 0
        self._bytes = 0
        self.memory_used = 0

    def __len__(self) -> int:
        """Return how many channels there are."""
        return len(self._channels)

    def __getitem__(self, channel: int) -> InputChannel:
        """Return a channel's queue."""
        return self._channels[channel]

    @property
    def size(self) -> int:
        """Bytes of queued data."""
        return self._bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of data that are held back for a barrier."""
        return self._held_bytes

    @property
    def spilled_bytes(self) -> int:
        """Bytes of data in files."""
        return self._bytes - self.memory_used

    @property
    def has_room(self) -> bool:
        """Whether the network should be read: queued data that isn't held back is below its limit."""
        return self._bytes - self._held_bytes <= self._room

    @property
    def has_next(self) -> bool:
        """Whether an element is queued that isn't held back."""
        return bool(self._turns)

    def is_held_back(self, channel: int) -> bool:
        """Return whether a channel waits for the barriers of others."""
        return channel in self._held_back

    def append(self, channel: int, element: StreamElement) -> None:
        """Append an element to a channel."""
        queue, size = self._channels[channel], size_of(element)
        was_empty, before = not len(queue), queue.memory_bytes
        queue.append(element, spill=self.memory_used + size > self._bound)
        self.memory_used += queue.memory_bytes - before
        self._bytes += size
        if channel in self._held_back:
            self._held_bytes += size
        elif was_empty:
            self._turns.append(channel)

    def replay(self, channel: int, element: StreamElement) -> None:
        """Append an element of restored channel state to a channel, before all elements that aren't replayed."""
        self.append(channel, element)
        self._replayed[channel] = self._replayed.get(channel, 0) + 1

    def next(self) -> tuple[int, StreamElement] | None:
        """Remove and return the next element; None if all queued elements are held back."""
        while self._turns:
            channel = self._turns.popleft()
            if self._replayed and channel not in self._replayed and any(one in self._turns for one in self._replayed):
                self._turns.append(channel)
                continue
            return channel, self._take(channel)
        return None

    def hold_back(self, channel: int) -> None:
        """Stop reading a channel."""
        if channel not in self._held_back:
            self._held_back.add(channel)
            self._held_bytes += self._channels[channel].size
            if channel in self._turns:
                self._turns.remove(channel)

    def release(self) -> None:
        """Resume reading all channels."""
        for channel in sorted(self._held_back):
            if len(self._channels[channel]):
                self._turns.append(channel)
        self._held_back.clear()
        self._held_bytes = 0

    def remove_barrier(self, channel: int, checkpoint_id: int) -> None:
        """Remove the barrier of a checkpoint from a channel."""
        queue = self._channels[channel]
        queue.remove_barrier(checkpoint_id)
        if not len(queue) and channel in self._turns:
            self._turns.remove(channel)

    def close(self) -> None:
        """Drop everything."""
        for queue in self._channels:
            queue.close()
        self._turns.clear()
        self._held_back.clear()
        self._replayed.clear()
        self._held_bytes = self._bytes = self.memory_used = 0

    def _take(self, channel: int) -> StreamElement:
        queue = self._channels[channel]
        before = queue.memory_bytes
        element = queue.popleft()
        self.memory_used -= before - queue.memory_bytes
        self._bytes -= size_of(element)
        if len(queue):
            self._turns.append(channel)
        if channel in self._replayed:
            self._replayed[channel] -= 1
            if not self._replayed[channel]:
                del self._replayed[channel]
        return element
