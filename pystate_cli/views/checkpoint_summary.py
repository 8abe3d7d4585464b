"""Minimum, average, percentiles and maximum over a job's completed checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import format_millis, format_size
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_table, layouts
from pystate_cli.tables.plain_columns import plain_number, plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_WINDOW = 10_000

# name in REST -> what people call it, where there is room and where there is little, and how it is written
_FIGURES: dict[str, tuple[str, str, Callable[[int | None], str]]] = {
    "end_to_end_duration": ("End-to-end duration", "Duration", format_millis),
    "state_size": ("Full size", "Full", format_size),
    "checkpointed_size": ("Incremental size", "Incr", format_size),
    "start_delay": ("Start delay", "Delay", format_millis),
    "alignment_duration": ("Alignment", "Align", format_millis),
    "sync_duration": ("Sync", "Sync", format_millis),
    "async_duration": ("Async", "Async", format_millis),
    "processed_data": ("Processed in flight", "Proc", format_size),
    "persisted_data": ("Persisted in flight", "Pers", format_size),
}
_ONLY_IF_ANY = ("processed_data", "persisted_data")
_STATISTICS = ("min", "avg", "p50", "p90", "p95", "p99", "p999", "max")
_HEADINGS = {"min": "Min", "avg": "Avg", "p999": "p99.9", "max": "Max"}
_COLUMNS = (
    Column("figure", "Figure", "", left=True),
    *(Column(name, _HEADINGS.get(name, name)) for name in _STATISTICS),
)
_DROPPED = ("p95", "p999", "p90", "p99")
_PLAIN_COLUMNS = (("figure", 24), *((name, 12) for name in _STATISTICS))
_UNITS = {format_millis: "ms", format_size: "bytes"}


def summary_title(statistics: Mapping[str, Any]) -> str:
    """Say of how many checkpoints the summary is."""
    completed = statistics["counts"]["completed"]
    if not completed:
        return "No checkpoint has completed yet."
    if completed == 1:
        return "1 completed checkpoint or savepoint"
    sentence = f"{completed} completed checkpoints and savepoints"
    return sentence if completed <= _WINDOW else f"{sentence}; percentiles of the last {_WINDOW:,}"


def plain_summary(statistics: Mapping[str, Any]) -> list[str]:
    """Return a header and a line per figure in columns of fixed width, for programs."""
    rows = []
    for name, (_, _, write) in _FIGURES.items():
        figures = _figures(statistics["summary"].get(name, {}))
        rows.append([f"{name}_{_UNITS[write]}", *(plain_number(figures[one]) for one in _STATISTICS)])
    return plain_table(_PLAIN_COLUMNS, rows)


def summary_table(statistics: Mapping[str, Any], width: int, *, unicode: bool) -> RenderableType:
    """Return the table for a terminal of that width."""
    summary = statistics["summary"]

    def line(name: str, layout: Layout) -> Line:
        long, short, write = _FIGURES[name]
        figures = _figures(summary[name])
        cells = {one: write(None if value is None else round(value)) for one, value in figures.items()}
        return Line({"figure": long if layout.wide else short, **cells})

    names = [name for name in _FIGURES if name in summary and (name not in _ONLY_IF_ANY or summary[name]["max"])]
    return fitted_table(
        layouts(_COLUMNS, dropped=_DROPPED), lambda layout: [line(name, layout) for name in names], width, unicode=unicode
    )


def _figures(summary: Mapping[str, Any]) -> dict[str, float | None]:
    # of nothing percentiles are "NaN", and minimum, average and maximum 0, which they are not
    known = isinstance(summary.get("p50"), (int, float))
    return {name: summary[name] if known else None for name in _STATISTICS}
