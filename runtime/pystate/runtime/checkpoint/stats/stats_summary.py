"""Minimum, maximum, average and percentiles of numbers, computed as in Flink."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pystate.common.text.plain_data import Bounds, Natural, entry, left_out
from pystate.core.snapshot.plain import as_map, take
from pystate.runtime.checkpoint.stats.plain_stats import packed, unpacked
from pystate.runtime.checkpoint.subtask_metrics import StatsData
from pystate.runtime.rest.checkpoint_messages import StatsSummaryDto

_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
WINDOW_SIZE = 10_000


def percentile(ordered: Sequence[int], p: float) -> float:
    """Return the p-th percentile of an ascending sequence; NaN for an empty one.

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


@dataclass
class StatsSummary(StatsData):
    """Collects numbers: minimum, maximum and average of all, percentiles of the last 10,000."""

    minimum: Natural = entry("min", 0)
    maximum: Natural = entry("max", 0)
    total: Annotated[int, Bounds(0, 2**127)] = entry("sum", 0)
    count: Natural = 0
    window: deque[int] = left_out(default_factory=lambda: deque(maxlen=WINDOW_SIZE))

    @classmethod
    def of(cls, values: Iterable[int]) -> StatsSummary:
        """Return the summary of some numbers."""
        summary = cls()
        for value in values:
            summary.add(value)
        return summary

    def add(self, value: int) -> None:
        """Take in a number."""
        self.minimum = value if self.count == 0 else min(self.minimum, value)
        self.maximum = value if self.count == 0 else max(self.maximum, value)
        self.total += value
        self.count += 1
        self.window.append(value)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**super().to_plain(), "window": packed(self.window)}

    @classmethod
    def from_plain(cls, plain: object) -> StatsSummary:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "a summary")
        summary = super().from_plain(data)
        summary.window.extend(unpacked(take(data, "window"), min(summary.count, WINDOW_SIZE), "window"))
        return summary

    @property
    def average(self) -> int:
        """The average, rounded down; 0 of nothing."""
        return self.total // self.count if self.count else 0

    def to_rest(self, *, percentiles: bool = True) -> StatsSummaryDto:
        """Return it as Flink's REST has it.

        Args:
            percentiles: Whether they mean anything here; else they are "NaN", as where there are no numbers.
        """
        ordered = sorted(self.window) if percentiles else []
        known = {name: percentile(ordered, p) for name, p in _PERCENTILES.items()} if ordered else {}
        return StatsSummaryDto(min=self.minimum, max=self.maximum, avg=self.average, **known)
