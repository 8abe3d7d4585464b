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
        sorted_input: See below.

    Attributes:
        clock: As given.
        timestamp: Of the element on its way, ms since 1970; None where it has none.
        watermark: The event time, ms since 1970.
        sorted_input: Elements come key by key; each key's timers fire behind its last one.
        quiesced: A key is at its end: timers that are registered now are ignored, as nothing would ever end with them.
    """

    __slots__ = ("clock", "quiesced", "sorted_input", "timestamp", "watermark")

    def __init__(self, clock: Callable[[], int], *, sorted_input: bool = False) -> None:
        self.clock = clock
        self.sorted_input = sorted_input
        self.quiesced = False
        self.timestamp: int | None = None
        self.watermark = MIN_WATERMARK
