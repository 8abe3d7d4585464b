"""How far a query has read its sources, and is behind them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.runtime.engines.micro_batch.spark.source_backlog import pending_rows, position_samples, source_reports

KAFKA = {"endOffset": {"a": {"0": 10, "1": 5}}, "latestOffset": {"a": {"0": 15, "1": 5}}}
FILES = {"endOffset": {"logOffset": 3}, "latestOffset": None}


@pytest.mark.parametrize(
    ("sources", "rows"),
    [
        ([KAFKA], 5),
        ([KAFKA, {name: json.dumps(offset) for name, offset in KAFKA.items()}], 10),
        ([KAFKA, FILES], None),
        ([FILES], None),
        ([], None),
        ([{"endOffset": {"a": {"0": 10}}, "latestOffset": {"a": {"0": 9, "1": 7}}}], 0),
        ([{"endOffset": "no JSON", "latestOffset": "{}"}], None),
    ],
)
def test_pending_rows(sources, rows):
    assert pending_rows(sources) == rows


def told(sources, uids):
    found = position_samples(sources, uids)
    return {uid: {".".join(one.path): one.value for one in samples if one.operator == uid} for uid, samples in found.items()}


def test_how_far_each_partition_of_kafka_is_read():
    of = "KafkaSourceReader.topic.a.partition"
    new = {"endOffset": {"a": {"0": 0}}, "latestOffset": None}
    assert told([KAFKA, FILES, new], ["orders", "files", "new"]) == {
        "orders": {
            f"{of}.0.currentOffset": 9,
            f"{of}.0.pendingRecords": 5,
            f"{of}.1.currentOffset": 4,
            f"{of}.1.pendingRecords": 0,
        },
        "files": {},
        "new": {f"{of}.0.currentOffset": -1},
    }


def test_reports_of_a_query_with_other_sources_are_of_nothing():
    assert told([KAFKA], ["orders", "files"]) == {}


def test_a_query_that_can_not_be_asked():
    class Gone:
        @property
        def _jsq(self) -> Any:
            raise ConnectionError

    queries: list[Any] = [Gone(), of_jvm(None)]
    assert [source_reports(query) for query in queries] == [[], []]


def test_a_report_that_pyspark_can_not_take_apart_is_read_all_the_same():
    report = json.dumps({"sources": [{**KAFKA, "startOffset": 3}], "timestamp": None})
    assert pending_rows(source_reports(of_jvm(report))) == 5


def of_jvm(report: str | None) -> Any:
    """Return a query whose JVM has such a report."""
    told = None if report is None else SimpleNamespace(json=lambda: report)
    return SimpleNamespace(_jsq=SimpleNamespace(lastProgress=lambda: told))
