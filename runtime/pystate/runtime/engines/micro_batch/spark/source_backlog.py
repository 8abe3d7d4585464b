"""Computes the number of source rows that a query has not read yet, from Spark's progress report of each micro-batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pystate.connectors.installed_connectors import spark_formats

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def backlog_rows(query: StreamingQuery) -> int | None:
    """Return how many rows of the sources no epoch has read yet; None if a source doesn't report it."""
    try:
        # pyspark's own property takes the report apart, which fails where a source tells what it doesn't know
        progress = query._jsq.lastProgress()  # noqa: SLF001
        if progress is None:
            return None
        sources = json.loads(progress.json())["sources"]
    except Exception:  # the JVM may be gone; the thread that watches the query detects it
        return None
    return pending_rows(sources)


def pending_rows(sources: list[dict[str, Any]]) -> int | None:
    """Return how many rows all sources of a progress report lag; None if one doesn't report it."""
    total = 0
    for source in sources:
        rows = _rows_between(_parsed(source.get("endOffset")), _parsed(source.get("latestOffset")))
        if rows is None:
            return None
        total += rows
    return total if sources else None


def _rows_between(read: Any, latest: Any) -> int | None:
    return next((rows for one in spark_formats() if (rows := one.rows_between(read, latest)) is not None), None)


def _parsed(offset: Any) -> Any:
    if isinstance(offset, str):
        try:
            return json.loads(offset)
        except ValueError:
            return None
    return offset
