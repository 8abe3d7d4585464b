"""The queue of one channel: in memory, and once that is full, in a file."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.real_time.slot.input.spill_file import SpillFile
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer, StreamElement, size_of


class _Between(NamedTuple):
    """An element between buffers that are in the file.

    Attributes:
        spilled: The number of buffers that were spilled before it.
        element: The element.
    """

    spilled: int
    element: StreamElement


class InputChannel:
    """The queue of a channel. Only buffers go to the file; the elements between them stay in memory.

    Args:
        directory: The directory of the file.

    Attributes:
        memory_bytes: Bytes of data in memory.
    """

    def __init__(self, directory: str | None) -> None:
        self._memory: deque[StreamElement] = deque()
        self._spill = SpillFile(directory)
        self._between: deque[_Between] = deque()
        self._spilled = 0
        self._unspilled = 0
        self.memory_bytes = 0

    def __len__(self) -> int:
        """Return the number of queued elements."""
        return len(self._memory) + len(self._between) + self._spilled - self._unspilled

    @property
    def spilled_bytes(self) -> int:
        """Bytes of data in the file."""
        return self._spill.size

    @property
    def size(self) -> int:
        """Bytes of data."""
        return self.memory_bytes + self._spill.size

    def append(self, element: StreamElement, *, spill: bool) -> None:
        """Append an element.

        Args:
            element: The element.
            spill: There is no room in memory. While the file is not empty, everything goes there.
        """
        in_file = self._spilled > self._unspilled or bool(self._between)
        if isinstance(element, Buffer) and (spill or in_file):
            self._spill.append(element)
            self._spilled += 1
        elif in_file:
            self._between.append(_Between(self._spilled, element))
        else:
            self._memory.append(element)
            self.memory_bytes += size_of(element)

    def popleft(self) -> StreamElement:
        """Remove and return the first element."""
        if self._memory:
            element = self._memory.popleft()
            self.memory_bytes -= size_of(element)
            return element
        if self._between and self._between[0].spilled == self._unspilled:
            return self._between.popleft().element
        self._unspilled += 1
        return self._spill.popleft()

    def __iter__(self) -> Iterator[StreamElement]:
        """Yield all elements without removing them."""
        yield from self._memory
        number = self._unspilled
        later = deque(self._between)
        for buffer in self._spill:
            while later and later[0].spilled == number:
                yield later.popleft().element
            yield buffer
            number += 1
        for _, element in later:
            yield element

    def remove_barrier(self, checkpoint_id: int) -> None:
        """Remove the barrier of a checkpoint from the queue."""

        def stays(element: StreamElement) -> bool:
            return not isinstance(element, CheckpointBarrier) or element.checkpoint_id != checkpoint_id

        self._memory = deque(element for element in self._memory if stays(element))
        self._between = deque(entry for entry in self._between if stays(entry.element))

    def close(self) -> None:
        """Drop everything."""
        self._memory.clear()
        self._between.clear()
        self._spill.close()
        self._spilled = self._unspilled = self.memory_bytes = 0
