"""Minimum, average, percentiles and maximum over a job's completed checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.runtime.rest.checkpoint_messages import CheckpointsSummary, StatsSummaryDto
from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import MILLIS, NUMBER, SIZE, TEXT, Kind, Look
from pystate_cli.tables.table_spec import TableSpec

_WINDOW = 10_000

# name in REST -> long and short display name, and format
_FIGURES: dict[str, tuple[str, str, Kind]] = {
    "end_to_end_duration": ("End-to-end duration", "Duration", MILLIS),
    "state_size": ("Full size", "Full", SIZE),
    "checkpointed_size": ("Incremental size", "Incr", SIZE),
    "start_delay": ("Start delay", "Delay", MILLIS),
    "alignment_duration": ("Alignment", "Align", MILLIS),
    "sync_duration": ("Sync", "Sync", MILLIS),
    "async_duration": ("Async", "Async", MILLIS),
    "alignment_buffered": ("Held back", "Held", SIZE),
    "processed_data": ("Processed meanwhile", "Proc", SIZE),
    "persisted_data": ("Persisted in flight", "Pers", SIZE),
}
_ONLY_IF_ANY = ("alignment_buffered", "processed_data", "persisted_data")
_UNITS = {"ms": MILLIS, "bytes": SIZE}


@dataclass(frozen=True)
class SummaryRow:
    """One statistic over all completed checkpoints, as `name` in REST; without values if none has completed."""

    name: str
    values: StatsSummaryDto | None

    @property
    def kind(self) -> Kind:
        """The format of its values."""
        return _FIGURES[self.name][2]

    @property
    def name_with_unit(self) -> str:
        """Its name in a pipe."""
        return f"{self.name}_{next(unit for unit, kind in _UNITS.items() if kind is self.kind)}"


def summary_rows(summary: CheckpointsSummary, *, all_figures: bool = False) -> list[SummaryRow]:
    """Return a row per statistic.

    Args:
        summary: That of GET /jobs/:id/checkpoints.
        all_figures: Whether to include uninteresting ones: nothing was in flight.
    """
    rows = []
    for name in _FIGURES:
        figures: StatsSummaryDto = getattr(summary, name)
        if all_figures or name not in _ONLY_IF_ANY or figures.max:
            # without values, percentiles are "NaN", and minimum, average and maximum are wrongly 0
            rows.append(SummaryRow(name, figures if figures.has_percentiles else None))
    return rows


def _statistic(name: str, heading: str, priority: int | None = None) -> Column[SummaryRow]:
    def value(row: SummaryRow) -> float | None:
        return None if row.values is None else getattr(row.values, name)

    def shown(row: SummaryRow, look: Look) -> str:
        return row.kind.shown(value(row), look)

    return Column(name, value, NUMBER, heading, plain=name, width=12, json=name, shown=shown, priority=priority)


def _named(row: SummaryRow, look: Look) -> str:
    long, short, _ = _FIGURES[row.name]
    return long if look.wide else short


SUMMARY: TableSpec[SummaryRow] = TableSpec(
    (
        Column("figure", lambda row: row.name_with_unit, TEXT, "Figure", "", plain="figure", width=24, shown=_named),
        _statistic("min", "Min"),
        _statistic("avg", "Avg"),
        _statistic("p50", "p50"),
        _statistic("p90", "p90", 3),
        _statistic("p95", "p95", 1),
        _statistic("p99", "p99", 4),
        _statistic("p999", "p99.9", 2),
        _statistic("max", "Max"),
    )
)
"""`pystate checkpoints --summary JOBID`; JSON is a figure of `summary`."""


def summary_title(completed: int) -> str:
    """Return a title with the number of checkpoints."""
    if not completed:
        return "No checkpoint has completed yet."
    if completed == 1:
        return "1 completed checkpoint or savepoint"
    sentence = f"{completed} completed checkpoints and savepoints"
    return sentence if completed <= _WINDOW else f"{sentence}; percentiles of the last {_WINDOW:,}"
