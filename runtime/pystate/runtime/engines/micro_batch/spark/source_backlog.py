"""How far a query has read its sources, and what is left, from Spark's progress report of each micro-batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pystate.connectors.installed_connectors import spark_formats
from pystate.core.metrics.sample import MetricSample

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def source_reports(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return what the last report says of each source; an empty list before the first."""
    try:
        # pyspark's own property takes the report apart, which fails where a source tells what it doesn't know
        progress = query._jsq.lastProgress()  # noqa: SLF001
        return [] if progress is None else list(json.loads(progress.json())["sources"])
    except Exception:  # the JVM may be gone; the thread that watches the query detects it
        return []


def pending_rows(sources: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many rows of the sources no epoch has read yet; None if one doesn't report it."""
    total = 0
    for source in sources:
        rows = _rows_between(_parsed(source.get("endOffset")), _parsed(source.get("latestOffset")))
        if rows is None:
            return None
        total += rows
    return total if sources else None


def position_samples(sources: Sequence[Mapping[str, Any]], uids: Sequence[str]) -> dict[str, list[MetricSample]]:
    """Return metrics of how far sources are read, by uid.

    Args:
        sources: What a report says of each.
        uids: The source of the job that each of them is, in the same order.
    """
    found: dict[str, list[MetricSample]] = {}
    if len(sources) != len(uids):
        return found
    formats = spark_formats()
    for uid, source in zip(uids, sources, strict=True):
        read, latest = _parsed(source.get("endOffset")), _parsed(source.get("latestOffset"))
        samples = (sample for one in formats for sample in one.position_samples(read, latest))
        found.setdefault(uid, []).extend(replace(sample, operator=uid) for sample in samples)
    return found


def _rows_between(read: Any, latest: Any) -> int | None:
    return next((rows for one in spark_formats() if (rows := one.rows_between(read, latest)) is not None), None)


def _parsed(offset: Any) -> Any:
    if isinstance(offset, str):
        try:
            return json.loads(offset)
        except ValueError:
            return None
    return offset
