"""Adapts how many elements a reader emits per poll: downstream may be slow, and a barrier waits meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from operator import length_hint
from typing import Any

POLL_S = 0.005
"""How long what a reader brings at once is to take."""
_FIRST = 1
"""Nobody knows yet how long an element takes: many at once would hold up watermarks, results and barriers."""
_MOST_GROWTH = 4.0


class PollSize:
    """Measures how many elements are processed in some milliseconds.

    Args:
        most: The maximum per poll.
        clock: Returns seconds.

    Attributes:
        count: The number for the next poll.
        failed_at: Which of the elements of `emit` could not be emitted, from 1 on; 0 for none.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.count = min(_FIRST, most)
        self._most = most
        self._clock = clock
        self._began = 0.0
        self.failed_at = 0

    def emit(self, elements: Sequence[Any], collect: Callable[[Any], None]) -> None:
        """Emit the elements of a poll, and measure it.

        Args:
            elements: The elements.
            collect: Takes one; what it raises comes through, with `failed_at` set.
        """
        self.begin()
        left = iter(elements)
        try:
            for element in left:
                collect(element)
        except Exception:
            self.failed_at = len(elements) - length_hint(left)
            raise
        self.end(len(elements))

    def begin(self) -> None:
        """Begin a poll."""
        self._began = self._clock()

    def end(self, count: int) -> None:
        """End a poll, with the number of elements emitted."""
        took = self._clock() - self._began
        if count >= self.count or took > POLL_S:
            growth = min(_MOST_GROWTH, POLL_S / max(took, 1e-6))
            self.count = max(1, min(self._most, int(count * growth)))
