from __future__ import annotations

import json
import math
from typing import Any

import pytest

from pystate.runtime.checkpoint.stats.stats_summary import StatsSummary, percentile
from tests.runtime.checkpoint.stats.test_tracker import NO_PERCENTILES, SEEN


def test_percentiles_are_flinks() -> None:
    durations = StatsSummary.of(duration for _, duration, _ in SEEN)
    assert durations.to_rest().to_plain() == {
        "min": 110,
        "max": 639,
        "avg": 267,
        "p50": 216.5,
        "p90": 639.0,
        "p95": 639.0,
        "p99": 639.0,
        "p999": 639.0,
    }


@pytest.mark.parametrize(
    ("values", "p", "expected"),
    [([5], 50, 5.0), ([1, 2], 10, 1.0), ([1, 2], 99, 2.0), ([1, 2, 3], 50, 2.0), (range(1, 100), 90, 90.0)],
)
def test_percentiles_are_interpolated_between_neighbours(values: Any, p: float, expected: float) -> None:
    assert percentile(list(values), p) == expected


def test_no_numbers_have_no_percentiles() -> None:
    assert math.isnan(percentile([], 50))
    assert StatsSummary().to_rest().to_plain() == {"min": 0, "max": 0, "avg": 0, **NO_PERCENTILES}


def test_percentiles_forget_what_minimum_and_average_remember() -> None:
    summary = StatsSummary.of([1_000_000])
    for _ in range(10_000):
        summary.add(1)
    assert (summary.maximum, summary.count, summary.average) == (1_000_000, 10_001, 100)
    assert summary.to_rest().to_plain()["p999"] == 1.0


def test_a_summary_of_more_than_its_window_comes_back() -> None:
    for values in ([7] * 10_002, [1_000_000, *range(10_000)], [], [3]):
        summary = StatsSummary.of(values)
        read = StatsSummary.from_plain(json.loads(json.dumps(summary.to_plain())))
        assert read.to_rest() == summary.to_rest()
