"""What the parts of epochs took, without asking Spark for more than is new."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from pystate.runtime.engines.micro_batch.spark.epoch_timeline import EpochTimeline


def report(second: int, **took: int) -> Any:
    told = {"timestamp": f"1970-01-01T00:00:{second:02}.250Z", "durationMs": took}
    return SimpleNamespace(json=lambda: json.dumps(told))


WHOLE = report(
    5, latestOffset=3, getBatch=1, queryPlanning=10, walCommit=4, addBatch=100, commitOffsets=5, triggerExecution=130
)


class Query:
    def __init__(self, *reports: Any) -> None:
        self.reports = list(reports)
        self.asked_for_all = 0

    @property
    def _jsq(self) -> Query:
        return self

    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        return self.reports[-1] if self.reports else None

    def recentProgress(self) -> list[Any]:  # noqa: N802 - Spark's name
        self.asked_for_all += 1
        return self.reports


def test_the_parts_of_an_epoch() -> None:
    query: Any = Query(WHOLE)
    parts = {"sources": 4, "planning": 10, "log": 9, "run": 100}
    assert EpochTimeline().look(query) == [{"began": 5250, "duration": 130, **parts}]


def test_spark_is_asked_for_all_once_and_idle_reports_are_no_epochs() -> None:
    query: Any = Query(report(1, addBatch=7), report(2, latestOffset=1))
    timeline = EpochTimeline()
    assert [one["began"] for one in timeline.look(query)] == [1250]
    query.reports += [report(3, addBatch=9), report(4, addBatch=11)]
    for _ in range(2):
        assert [one["run"] for one in timeline.look(query)] == [7, 11]
    assert query.asked_for_all == 1


def test_a_query_that_is_gone_keeps_what_was_seen() -> None:
    query: Any = Query(report(1, addBatch=7))
    timeline = EpochTimeline()
    seen = timeline.look(query)
    gone: Any = object()
    assert timeline.look(gone) == seen


def test_epochs_that_are_no_batches_of_spark() -> None:
    parts = {"sources": 0, "planning": 0, "log": 0, "run": 40}
    timeline = EpochTimeline()
    timeline.ran(2250, 40)
    assert timeline.look(None) == [{"began": 2250, "duration": 40, **parts}]


def test_they_stand_among_batches_by_time_and_the_oldest_go() -> None:
    query: Any = Query(report(1, addBatch=7), report(3, addBatch=9))
    timeline = EpochTimeline()
    timeline.ran(2250, 40)
    assert [one["run"] for one in timeline.look(query)] == [7, 40, 9]
    for begun in range(4000, 4060):
        timeline.ran(begun, 1)
    assert [one["began"] for one in timeline.look(query)] == list(range(4000, 4060))
