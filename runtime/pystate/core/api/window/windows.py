"""Windows, the finite parts of a stream that are evaluated together, with PyFlink's names."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, BinaryIO, Generic

from pystate.common.errors import RecordError
from pystate.common.serializer import TypeSerializer
from pystate.core.api.type_variables import W2

MAX_TIMESTAMP = (1 << 63) - 1
"""The last of all times: Flink's `Long.MAX_VALUE`."""

MIN_TIMESTAMP = -(1 << 63)
"""The time of an element without a timestamp: Flink's `Long.MIN_VALUE`."""

_TIME_WINDOW = struct.Struct(">qq")
_COUNT_WINDOW = struct.Struct(">q")
_GLOBAL_WINDOW = b"\x00"


def checked_timestamp(timestamp: int) -> int:
    """Return the time of an element.

    Raises:
        RecordError: It has none, that is `MIN_TIMESTAMP`.
    """
    if timestamp == MIN_TIMESTAMP:
        message = "An element without a timestamp came to a window of event time."
        raise RecordError(message, hint="put assign_timestamps_and_watermarks(...) before it")
    return timestamp


class Window(ABC):
    """A finite part of a stream. Windows are compared and hashed by their content."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the last time that belongs to the window, ms since 1970."""


class MergeCallback(ABC, Generic[W2]):
    """Is called for each merge of windows; programs know it as `MergingWindowAssigner.MergeCallback`."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        """Merge some windows into one."""


class TimeWindow(Window):
    """A time window from `start` (inclusive) to `end` (exclusive), ms since 1970."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        """Return the last time in the window."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that covers both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the tumbling window that contains a time.

        Args:
            timestamp: The time, ms since 1970.
            offset: Where a window begins, ms since 1970.
            window_size: Their size in ms.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        """Call the callback for all groups of windows that overlap or touch, with the covering window."""
        group: list[TimeWindow] = []
        covering: TimeWindow | None = None
        groups: list[tuple[TimeWindow, list[TimeWindow]]] = []
        for window in sorted(set(windows)):
            if covering is not None and covering.intersects(window):
                covering = covering.cover(window)
                group.append(window)
                groups[-1] = (covering, group)
            else:
                covering, group = window, [window]
                groups.append((covering, group))
        for result, merged in groups:
            if len(merged) > 1:
                callback.merge(merged, result)

    def __hash__(self) -> int:
        """Return a hash of start and end."""
        return hash((self.start, self.end))

    def __eq__(self, other: object) -> bool:
        """Return whether another window has the same start and end."""
        return isinstance(other, TimeWindow) and self.start == other.start and self.end == other.end

    def __lt__(self, other: TimeWindow) -> bool:
        """Return whether this window begins before another, or ends before it where they begin together."""
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        """Return whether this window is another one, or before it."""
        return (self.start, self.end) <= (other.start, other.end)

    def __repr__(self) -> str:
        """Return start and end."""
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """A window identified by a number; it has no time."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:  # noqa: A002 - PyFlink's name
        self.id = id

    def max_timestamp(self) -> int:
        """Return the maximum timestamp."""
        return MAX_TIMESTAMP

    def __hash__(self) -> int:
        """Return a hash of the number."""
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        """Return whether another window has the same number."""
        return isinstance(other, CountWindow) and self.id == other.id

    def __repr__(self) -> str:
        """Return the number."""
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The window that contains all elements of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """Return the maximum timestamp."""
        return MAX_TIMESTAMP

    def __hash__(self) -> int:
        """Return the same for all."""
        return 0

    def __eq__(self, other: object) -> bool:
        """Return whether it is the global window."""
        return isinstance(other, GlobalWindow)

    def __repr__(self) -> str:
        """Return its name."""
        return "GlobalWindow"


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Start and end, 8 bytes each."""

    def serialize(self, element: TimeWindow, stream: BinaryIO) -> None:
        """Write a window."""
        stream.write(_TIME_WINDOW.pack(element.start, element.end))

    def deserialize(self, stream: BinaryIO) -> TimeWindow:
        """Read a window."""
        return TimeWindow(*_TIME_WINDOW.unpack(stream.read(_TIME_WINDOW.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """The number, 8 bytes."""

    def serialize(self, element: CountWindow, stream: BinaryIO) -> None:
        """Write a window."""
        stream.write(_COUNT_WINDOW.pack(element.id))

    def deserialize(self, stream: BinaryIO) -> CountWindow:
        """Read a window."""
        return CountWindow(*_COUNT_WINDOW.unpack(stream.read(_COUNT_WINDOW.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """One byte, 0."""

    def serialize(self, element: GlobalWindow, stream: BinaryIO) -> None:
        """Write the window."""
        stream.write(_GLOBAL_WINDOW)

    def deserialize(self, stream: BinaryIO) -> GlobalWindow:
        """Read the window."""
        stream.read(len(_GLOBAL_WINDOW))
        return GlobalWindow()
