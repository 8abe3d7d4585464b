"""The time for which this process has been there to notice something: not while it, or its machine, was stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pystate.common.time import steady_ms

_TICK_SECONDS = 1.0
_MOST_MS = 2000
"""How much of the time between two ticks counts: a busy machine is late, a stopped process isn't there."""


class ObservedTime:
    """Counts the milliseconds for which this process ran. Thread-safe.

    Args:
        closed: Set when nobody wants to know any more.
        clock: Returns milliseconds of a monotonic clock.
    """

    def __init__(self, closed: threading.Event, clock: Callable[[], int] = steady_ms) -> None:
        self._closed = closed
        self._clock = clock
        self._lock = threading.Lock()
        self._counted = 0
        self._looked_at = clock()
        self._is_kept = False

    def ms(self) -> int:
        """Return how many they are."""
        with self._lock:
            now = self._clock()
            self._counted += min(now - self._looked_at, _MOST_MS)
            self._looked_at = now
            return self._counted

    def keep(self) -> None:
        """Begin to count by itself; otherwise what passes between two calls of `ms` is taken for a standstill."""
        with self._lock:
            if self._is_kept:
                return
            self._is_kept = True
        self.ms()
        threading.Thread(target=self._tick, name="observed-time", daemon=True).start()

    def _tick(self) -> None:
        while not self._closed.wait(_TICK_SECONDS):
            self.ms()
