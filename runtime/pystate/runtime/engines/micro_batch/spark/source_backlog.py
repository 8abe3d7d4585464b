"""Computes the number of source rows that a query has not read yet, from Spark's progress report of each micro-batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def backlog_rows(query: StreamingQuery) -> int | None:
    """Return how many rows of the sources no epoch has read yet; None if a source doesn't report it."""
    try:
        progress = query.lastProgress
        if progress is None:
            return None
        sources = json.loads(progress.json)["sources"]
    except Exception:  # the JVM may be gone; the thread that watches the query detects it
        return None
    return rows_behind(sources)


def rows_behind(sources: list[dict[str, Any]]) -> int | None:
    """Return how many rows all sources of a progress report lag; None if one doesn't report it.

    Sources with numbered partitions, such as Kafka's, report the offset they have read and the latest offset.
    """
    total = 0
    for source in sources:
        end, latest = _partitions(source.get("endOffset")), _partitions(source.get("latestOffset"))
        if end is None or latest is None:
            return None
        total += sum(max(0, offset - end.get(partition, offset)) for partition, offset in latest.items())
    return total if sources else None


def _partitions(offset: Any) -> dict[tuple[str, str], int] | None:
    """Return {(topic, partition): offset}; None for offsets of another kind."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    if not isinstance(offset, dict) or not offset:
        return None
    found = {}
    for topic, partitions in offset.items():
        if not isinstance(partitions, dict):
            return None
        for partition, number in partitions.items():
            if not isinstance(number, int):
                return None
            found[topic, partition] = number
    return found
