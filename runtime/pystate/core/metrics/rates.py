"""Rates of counters."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

_SEGMENTS = 60


class RateWindow:
    """The recent growth rate of a count, which is updated periodically. Doesn't read clocks itself.

    Args:
        span_s: The time span of the rate in seconds; initially less.
    """

    def __init__(self, span_s: float = 60.0) -> None:
        self._span = span_s
        self._step = span_s / _SEGMENTS
        self._points: deque[tuple[float, float]] = deque()

    def update(self, now_s: float, count: float) -> None:
        """Record a count.

        Args:
            now_s: Monotonic seconds.
            count: What has been counted by now.
        """
        points = self._points
        # the newest point moves along until the one before it is old enough to keep both: about 60 points whatever the span
        if len(points) > 1 and now_s - points[-2][0] < self._step:
            points.pop()
        points.append((now_s, count))
        while len(points) > 2 and now_s - points[1][0] >= self._span:
            points.popleft()

    @property
    def rate(self) -> float:
        """Growth per second; 0 if there is no previous value."""
        if len(self._points) < 2:
            return 0.0
        (first, before), (last, now) = self._points[0], self._points[-1]
        return (now - before) / (last - first) if last > first else 0.0


class Rates:
    """The rates of many counts over the last minute, by key."""

    def __init__(self) -> None:
        self._windows: dict[Hashable, RateWindow] = {}

    def of(self, key: Hashable, count: float, now_s: float, zero_at: float | None = None) -> float:
        """Record a count, and return how fast it grows, per second.

        Args:
            key: Which count.
            count: What has been counted by now.
            now_s: Monotonic seconds.
            zero_at: When a count that is new was 0; None if that isn't known.
        """
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = RateWindow()
            if zero_at is not None and zero_at < now_s:
                window.update(zero_at, 0)
        window.update(now_s, count)
        return round(window.rate, 3)
