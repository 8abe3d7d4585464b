"""Minimum, maximum, average and percentiles of a row of numbers, computed as Flink does."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from pystate.checkpoint.plain import as_map, take_int, take_list, unsound

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
WINDOW_SIZE = 10_000
MAX_SUM = 2**127


def percentile(ordered: Sequence[int], p: float) -> float:
    """Return the p-th percentile of an ascending row; NaN of an empty one.

    The estimate is the one of Apache Commons Math that Flink uses: the value at p * (n + 1) / 100, counted from one,
    interpolated.
    """
    n = len(ordered)
    if n == 0:
        return math.nan
    position = p * (n + 1) / 100
    if position < 1:
        return float(ordered[0])
    if position >= n:
        return float(ordered[-1])
    lower = int(position)
    below, above = ordered[lower - 1], ordered[lower]
    return below + (position - lower) * (above - below)


class StatsSummary:
    """Collects numbers: minimum, maximum and average of all, percentiles of the last 10,000."""

    def __init__(self, values: Iterable[int] = ()) -> None:
        self.minimum = 0
        self.maximum = 0
        self._sum = 0
        self.count = 0
        self._window: deque[int] = deque(maxlen=WINDOW_SIZE)
        for value in values:
            self.add(value)

    def add(self, value: int) -> None:
        """Take in a number."""
        self.minimum = value if self.count == 0 else min(self.minimum, value)
        self.maximum = value if self.count == 0 else max(self.maximum, value)
        self._sum += value
        self.count += 1
        self._window.append(value)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data; a window of one number over and over is that number."""
        window: list[int] | int = list(self._window)
        if len(set(self._window)) == 1:
            window = self._window[0]
        return {"min": self.minimum, "max": self.maximum, "sum": self._sum, "count": self.count, "window": window}

    @classmethod
    def from_plain(cls, plain: object) -> StatsSummary:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "a summary")
        summary = cls()
        summary.minimum, summary.maximum = take_int(data, "min"), take_int(data, "max")
        summary._sum, summary.count = take_int(data, "sum", high=MAX_SUM), take_int(data, "count")
        length = min(summary.count, WINDOW_SIZE)
        if isinstance(data.get("window"), int):
            summary._window.extend([take_int(data, "window")] * length)
        else:
            summary._window.extend(take_list(data, "window", _as_number))
        if len(summary._window) != length:
            raise unsound(what=f"a summary of {summary.count} numbers has a window of {len(summary._window)}")
        return summary

    @property
    def average(self) -> int:
        """The average, rounded down; 0 of nothing."""
        return self._sum // self.count if self.count else 0

    def to_rest(self, *, percentiles: bool = True) -> dict[str, int | float | str]:
        """Return it as Flink's REST has it.

        Args:
            percentiles: Whether they mean anything here; else they are "NaN", as where there are no numbers.
        """
        ordered = sorted(self._window) if percentiles else []
        result: dict[str, int | float | str] = {"min": self.minimum, "max": self.maximum, "avg": self.average}
        for name, p in PERCENTILES.items():
            value = percentile(ordered, p)
            result[name] = "NaN" if math.isnan(value) else value
        return result


def _as_number(value: object) -> int:
    if type(value) is not int:
        raise unsound(what=f"{value!r} stands among numbers")
    return value
