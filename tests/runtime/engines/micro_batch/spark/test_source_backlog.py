"""How far a query is behind its sources."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from pystate.runtime.engines.micro_batch.spark.source_backlog import backlog_rows, rows_behind

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
def test_rows_behind(sources, rows):
    assert rows_behind(sources) == rows


def test_a_query_that_can_not_be_asked():
    class Gone:
        @property
        def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
            raise ConnectionError

    queries: list[Any] = [Gone(), SimpleNamespace(lastProgress=None)]
    assert [backlog_rows(query) for query in queries] == [None, None]
    told: Any = SimpleNamespace(lastProgress=SimpleNamespace(json=json.dumps({"sources": [KAFKA]})))
    assert backlog_rows(told) == 5
