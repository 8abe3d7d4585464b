"""The time of a chain: its clock, its event time, and the timestamp of the current element."""

from __future__ import annotations

from collections.abc import Callable

MIN_WATERMARK = -(1 << 63)
"""The event time of a task without a watermark: Flink's `Long.MIN_VALUE`."""

MAX_WATERMARK = (1 << 63) - 1
"""The event time after all elements: Flink's `Long.MAX_VALUE`."""


class ChainTime:
    """A cell shared by all operators of a chain, which processes one element at a time.

    It is written where a timestamp becomes known: from a batch's column, by a timer, by a window. If no step needs time, it
    is never written and costs nothing.

    Args:
        clock: Returns ms since 1970.
        sorted_input: See the attribute.

    Attributes:
        clock: The given clock.
        timestamp: The timestamp of the current element, ms since 1970; None if it has none.
        watermark: The event time, ms since 1970.
        sorted_input: Elements are sorted by key; each key's timers fire after its last element.
        quiesced: A key has ended: timers that are registered now are ignored, as they could never fire.
    """

    __slots__ = ("clock", "quiesced", "sorted_input", "timestamp", "watermark")

    def __init__(self, clock: Callable[[], int], *, sorted_input: bool = False) -> None:
        self.clock = clock
        self.sorted_input = sorted_input
        self.quiesced = False
        self.timestamp: int | None = None
        self.watermark = MIN_WATERMARK


class ChainTimeReader:
    """The base of what tells functions the time of their chain.

    Args:
        time: The chain's time.
        watermark: Returns the event time; None for that of the chain.
    """

    def __init__(self, time: ChainTime, watermark: Callable[[], int] | None = None) -> None:
        self._time = time
        self._watermark = watermark

    def current_processing_time(self) -> int:
        """Return the current processing time."""
        return self._time.clock()

    def current_watermark(self) -> int:
        """Return the current watermark."""
        return self._time.watermark if self._watermark is None else self._watermark()
