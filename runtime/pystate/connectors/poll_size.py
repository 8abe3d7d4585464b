"""How many elements a reader brings at once: what stands behind it may take long for each, and a barrier waits meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.005
"""How long what a reader brings at once is to take."""
_FIRST = 1
"""Nobody knows yet how long an element takes: many at once would hold up watermarks, results and barriers."""
_MOST_GROWTH = 4.0


class PollSize:
    """Counts how many elements go in some milliseconds.

    Args:
        most: At once, however fast they go.
        clock: Seconds.

    Attributes:
        count: How many to bring next.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.count = min(_FIRST, most)
        self._most = most
        self._clock = clock
        self._began = 0.0

    def begin(self) -> None:
        """Begin to bring some."""
        self._began = self._clock()

    def end(self, count: int) -> None:
        """Take note of how many were brought."""
        took = self._clock() - self._began
        if count >= self.count or took > POLL_S:
            growth = min(_MOST_GROWTH, POLL_S / max(took, 1e-6))
            self.count = max(1, min(self._most, int(count * growth)))
