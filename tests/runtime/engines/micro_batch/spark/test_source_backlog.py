"""How far a query is behind its sources."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.runtime.engines.micro_batch.spark.source_backlog import backlog_rows, pending_rows

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


def test_a_query_that_can_not_be_asked():
    class Gone:
        @property
        def _jsq(self) -> Any:
            raise ConnectionError

    queries: list[Any] = [Gone(), of_jvm(None)]
    assert [backlog_rows(query) for query in queries] == [None, None]


def test_a_report_that_pyspark_can_not_take_apart_is_read_all_the_same():
    assert backlog_rows(of_jvm(json.dumps({"sources": [{**KAFKA, "startOffset": 3}], "timestamp": None}))) == 5


def of_jvm(report: str | None) -> Any:
    """Return a query whose JVM has such a report."""
    told = None if report is None else SimpleNamespace(json=lambda: report)
    return SimpleNamespace(_jsq=SimpleNamespace(lastProgress=lambda: told))
