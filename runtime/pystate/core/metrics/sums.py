"""Aggregation of metrics of one name, and increments of counters."""

from __future__ import annotations

from typing import Any

from pystate.core.metrics.sample import MetricKind, MetricValue


def plus(kind: MetricKind, before: MetricValue | None, value: MetricValue) -> MetricValue:
    """Return the aggregate of two tasks' metrics; for a gauge, the later value.

    Args:
        kind: The metric's.
        before: The earlier one; None if there is none.
        value: What the later one says.
    """
    if before is None or kind is MetricKind.GAUGE:
        return value
    if isinstance(before, dict) and isinstance(value, dict):
        if kind is MetricKind.METER:
            return {"rate": 0.0, "count": before["count"] + value["count"]}
        return _distributions(before, value)
    if isinstance(before, (int, float)) and isinstance(value, (int, float)):
        return before + value
    return value


def since(kind: MetricKind, before: MetricValue | None, value: MetricValue) -> MetricValue:
    """Return the increment of a metric since an earlier sample; minimum and maximum remain those of all values.

    Args:
        kind: The metric's.
        before: The earlier sample; None if there is none.
        value: What it says now.
    """
    if before is None or kind is MetricKind.GAUGE:
        return value
    if isinstance(before, dict) and isinstance(value, dict):
        counted: dict[str, Any] = {name: value[name] - before[name] for name in ("count", "sum") if name in value}
        return {**value, **counted}
    if isinstance(before, (int, float)) and isinstance(value, (int, float)):
        return value - before
    return value


def _distributions(before: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    if not before["count"] or not value["count"]:
        return before if before["count"] else value
    return {
        "count": before["count"] + value["count"],
        "sum": before["sum"] + value["sum"],
        "min": min(before["min"], value["min"]),
        "max": max(before["max"], value["max"]),
    }
