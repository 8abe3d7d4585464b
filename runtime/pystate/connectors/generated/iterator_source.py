"""Splits that are ranges of numbers, for `NumberSequenceSource` and `DataGeneratorSource`.

Source: Flink's IteratorSourceReader, IteratorSourceEnumerator and NumberSequenceSource.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.connectors.poll_size import PollSize
from pystate.connectors.source import InputStatus, ReaderOutput, SourceReaderContext, SourceSplit
from pystate.connectors.splits_on_request import RequestingReader

_MOST_AT_ONCE = 500


class NumberSequenceSplit(SourceSplit):
    """An inclusive range of numbers.

    Attributes:
        name: Its id.
        current: The next number to read.
        last: The last number; below `current` if all are read.
    """

    def __init__(self, name: str, current: int, last: int) -> None:
        self.name = name
        self.current = current
        self.last = last

    def split_id(self) -> str:
        """Return its name."""
        return self.name

    def to_plain(self) -> list[Any]:
        """Return name and bounds."""
        return [self.name, self.current, self.last]


def split_range(first: int, last: int, parts: int) -> list[NumberSequenceSplit]:
    """Split a range into this many parts of about equal size; fewer if it has fewer numbers."""
    count = max(0, last - first + 1)
    parts = min(parts, count)
    bounds = [first + count * part // parts for part in range(parts + 1)] if parts else []
    return [NumberSequenceSplit(str(part), bounds[part], bounds[part + 1] - 1) for part in range(parts)]


class RangeReader(RequestingReader[Any, NumberSequenceSplit]):
    """Reads parts in order, and requests the next when it has none.

    Args:
        context: Of the reader.
        element: Makes an element from a number; None for the number itself.
        allowed: Returns how many elements may be emitted at a time; None for no bound.
        available_at: Returns when the next may be emitted, ms since 1970.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        element: Callable[[int], Any] | None = None,
        allowed: Callable[[int], int] | None = None,
        available_at: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(context)
        self._element = element
        self._allowed = allowed
        self._available_at = available_at
        self._size = PollSize(_MOST_AT_ONCE)

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Emit the next elements of the first part."""
        splits, element, collect = self._splits, self._element, output.collect
        while splits and splits[0].current > splits[0].last:
            splits.popleft()
        if not splits:
            return self._without_split()
        split = splits[0]
        count = min(self._size.count, output.room(), split.last - split.current + 1)
        if self._allowed is not None:
            count = self._allowed(count)
            if count <= 0:
                return InputStatus.NOTHING_AVAILABLE
        self._size.begin()
        for number in range(split.current, split.current + count):
            collect(number if element is None else element(number))
            split.current = number + 1
        self._size.end(count)
        return InputStatus.MORE_AVAILABLE

    def available_at(self) -> int | None:
        """Return when the rate limit allows the next element."""
        return self._available_at() if self._available_at is not None and self._splits else None

    def snapshot_state(self, checkpoint_id: int) -> list[NumberSequenceSplit]:
        """Return the rest of the parts."""
        del checkpoint_id
        return [NumberSequenceSplit(one.name, one.current, one.last) for one in self._splits if one.current <= one.last]


def restore_split(plain: Any) -> NumberSequenceSplit:
    """Return the split from its plain form."""
    name, current, last = plain
    return NumberSequenceSplit(str(name), int(current), int(last))
