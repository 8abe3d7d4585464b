"""The time of a chain: its clock, its event time, and the timestamp of the element that is on its way through it."""

from __future__ import annotations

from collections.abc import Callable

MIN_WATERMARK = -(1 << 63)
"""The event time of a task that has heard of none: Flink's `Long.MIN_VALUE`."""

MAX_WATERMARK = (1 << 63) - 1
"""The event time behind all elements: Flink's `Long.MAX_VALUE`."""


class ChainTime:
    """A cell that all operators of a chain share. A chain is plain calls, so one element at a time is on its way.

    It is written where a timestamp is known: from a batch's column, by a timer, by a window. Where no step needs time nobody
    writes it, and it costs nothing.

    Args:
        clock: The time, ms since 1970.

    Attributes:
        clock: As given.
        timestamp: Of the element on its way, ms since 1970; None where it has none.
        watermark: The event time, ms since 1970.
    """

    __slots__ = ("clock", "timestamp", "watermark")

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.timestamp: int | None = None
        self.watermark = MIN_WATERMARK
