"""A limit for requests per second."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimiter:
    """Allows requests as long as the limit of the last second isn't reached. A larger request delays later ones.

    Args:
        per_second: The limit; 0 for no limit.
        clock: Monotonic seconds.
    """

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._clock = clock
        self._left = float(per_second)
        self._at = clock()

    def take(self, cost: int) -> bool:
        """Return whether a request is allowed now."""
        if not self._per_second:
            return True
        now = self._clock()
        self._left = min(self._per_second, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left <= 0:
            return False
        self._left -= cost
        return True
