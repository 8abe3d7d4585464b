"""Rates of a counter over time."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

_WINDOW_SECONDS = 5.0


class _Sample(NamedTuple):
    """The rows counted at a moment, in monotonic seconds."""

    moment: float
    rows: int


class RateMeter:
    """Rows per second from a counter, over the last seconds: epochs come in bursts.

    Args:
        window: The window in seconds.
    """

    def __init__(self, window: float = _WINDOW_SECONDS) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()

    def add(self, moment: float, count: int | None, *, under_way: bool = False) -> None:
        """Add a sample; a counter that decreased restarts.

        Args:
            moment: Monotonic seconds.
            count: The counter; None if unknown.
            under_way: Whether an epoch runs, which is counted at once at its end. Until then the rate stays unchanged.
        """
        if count is None or (under_way and self._samples and count == self._samples[-1].rows):
            return
        if self._samples and count < self._samples[-1].rows:
            self._samples.clear()
        self._samples.append(_Sample(moment, count))
        while len(self._samples) > 2 and self._samples[1].moment <= moment - self._window:
            self._samples.popleft()

    @property
    def rate(self) -> float | None:
        """Rows per second; None before the second sample."""
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0], self._samples[-1]
        return (last.rows - first.rows) / (last.moment - first.moment) if last.moment > first.moment else None
