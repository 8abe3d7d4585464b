"""How far a query is behind its sources, from what Spark tells at the end of each micro-batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def backlog_rows(query: StreamingQuery) -> int | None:
    """Return how many rows the sources have that no epoch has read yet; None where one doesn't say."""
    try:
        progress = query.lastProgress
        if progress is None:
            return None
        sources = json.loads(progress.json)["sources"]
    except Exception:  # the JVM may be gone; the one who looks after the query finds out
        return None
    return rows_behind(sources)


def rows_behind(sources: list[dict[str, Any]]) -> int | None:
    """Return the rows that all sources of a progress report are behind; None where one doesn't say.

    Sources with numbered partitions, such as Kafka's, tell where they have read to and where the last row is.
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
