"""The metrics of a job: what its subtasks do, what its functions measure, and any of them by name."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate.common.time import current_time_ms
from pystate_cli.console.formats import UNKNOWN, format_count, format_millis, format_moment, format_size, printable
from pystate_cli.tables.fitted_table import Column, Line, fitted_table, layouts
from pystate_cli.tables.plain_columns import plain_table

if TYPE_CHECKING:
    from rich.console import RenderableType

_PLAIN_COLUMNS = (("subtask", 7), ("value", 22), ("unit", 13), ("name", 0))
_SUBTASK_COLUMNS = (
    Column("task", "Task", left=True, least=8),
    Column("subtask", "Subtask", "Sub"),
    Column("numRecordsIn", "Records in", "In"),
    Column("numRecordsInPerSecond", "In/s"),
    Column("numRecordsOut", "Records out", "Out"),
    Column("numRecordsOutPerSecond", "Out/s"),
    Column("busyTimeMsPerSecond", "Busy"),
    Column("lastEpochDurationMs", "Last epoch", "Epoch"),
    Column("lastCheckpointStateSize", "State"),
)
_METRIC_COLUMNS = (
    Column("where", "Operator", left=True, least=8),
    Column("subtask", "Subtask", "Sub"),
    Column("name", "Metric", left=True, least=12, keeps_end=True),
    Column("value", "Value"),
)


@dataclass(frozen=True)
class MetricRow:
    """One metric of a job, as REST has it; `subtask` is None for one of the whole job."""

    task: str | None
    operator: str | None
    subtask: int | None
    name: str
    unit: str | None
    value: Any

    @staticmethod
    def of(entry: Mapping[str, Any]) -> MetricRow:
        """Read it from an entry of the answer."""
        return MetricRow(entry["task"], entry["operator"], entry["subtask"], entry["name"], entry["unit"], entry["value"])

    @property
    def where(self) -> str:
        """What it belongs to: a task, `task / operator`, or the job."""
        parts = [part for part in (self.task, self.operator) if part is not None]
        return " / ".join(map(printable, parts)) or "job"

    @property
    def is_of_functions(self) -> bool:
        """Whether a function of the job has registered it."""
        return self.operator is not None and self.unit is None

    def shown(self) -> str:
        """Return the value for people."""
        value = self.value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return printable(value)
        if self.unit in ("bytes", "bytes/s"):
            return f"{format_size(int(value))}{'/s' if self.unit == 'bytes/s' else ''}"
        if self.unit == "ms":
            return format_millis(int(value))
        if self.unit == "ms since 1970":
            return format_moment(int(value), current_time_ms())
        if self.unit == "ms/s":
            return f"{value / 10:.0f} %"
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        # no thousands in what is a number only by chance
        return str(value) if self.unit in ("id", "epoch") or value < 0 else format_count(value)


def matching(rows: Iterable[MetricRow], pattern: str | None) -> list[MetricRow]:
    """Return the metrics whose name, or whose name with task or operator in front, matches a pattern; all without one."""
    if pattern is None:
        return list(rows)
    wanted = pattern.lower()
    return [
        row
        for row in rows
        if any(
            fnmatch.fnmatchcase(text.lower(), wanted)
            for text in (row.name, f"{row.operator or row.task or 'job'}.{row.name}", f"{row.task or 'job'}.{row.name}")
        )
    ]


def plain_lines(rows: Sequence[MetricRow]) -> list[str]:
    """Return a header and a line per metric, for programs: exact values."""
    cells = []
    for row in rows:
        subtask = UNKNOWN if row.subtask is None else str(row.subtask)
        value = str(row.value).lower() if isinstance(row.value, bool) else printable(str(row.value))
        unit = (row.unit or UNKNOWN).replace(" ", "-")
        cells.append((subtask, value, unit, f"{row.where} : {printable(row.name)}"))
    return plain_table(_PLAIN_COLUMNS, cells)


def head_line(answer: Mapping[str, Any], rows: Iterable[MetricRow]) -> str:
    """Return what is to be said of the job as a whole."""
    job = {row.name: row for row in rows if row.subtask is None}
    parts = [f"{printable(str(answer['name']))}: {answer['state']}"]
    if not answer["up"]:
        parts.append("its driver does not answer")
    if "numRestarts" in job and job["numRestarts"].value:
        parts.append(f"{job['numRestarts'].shown()} restarts")
    if "lastFinishedEpoch" in job and job["lastFinishedEpoch"].value >= 0:
        parts.append(f"epoch {job['lastFinishedEpoch'].shown()} took {job['lastEpochDuration'].shown()}")
    if "lastCompletedCheckpointId" in job and job["lastCompletedCheckpointId"].value >= 0:
        size, duration = job["lastCheckpointFullSize"].shown(), job["lastCheckpointDuration"].shown()
        parts.append(f"checkpoint {job['lastCompletedCheckpointId'].shown()} took {duration}, {size}")
    return ", ".join(parts)


def subtask_table(rows: Sequence[MetricRow], width: int, *, unicode: bool) -> RenderableType | None:
    """Return a line per subtask with what it reads, writes and keeps; None where no subtask has reported."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    for row in rows:
        if row.subtask is not None and row.task is not None and row.operator is None:
            found.setdefault((row.task, row.subtask), {})[row.name] = row.shown()
    if not found:
        return None
    lines = []
    for (task, subtask), values in found.items():
        cells = {column.name: values.get(column.name, UNKNOWN) for column in _SUBTASK_COLUMNS}
        lines.append(Line({**cells, "task": printable(task), "subtask": str(subtask)}))
    dropped = ("numRecordsOutPerSecond", "lastCheckpointStateSize")
    return fitted_table(
        layouts(_SUBTASK_COLUMNS, extra=("lastEpochDurationMs",), dropped=dropped),
        lambda _layout: lines,
        width,
        unicode=unicode,
    )


def metric_table(rows: Sequence[MetricRow], width: int, *, unicode: bool) -> RenderableType:
    """Return a line per metric."""
    lines = [
        Line(
            {
                "where": row.where,
                "subtask": UNKNOWN if row.subtask is None else str(row.subtask),
                "name": printable(row.name),
                "value": row.shown(),
            }
        )
        for row in rows
    ]
    return fitted_table(layouts(_METRIC_COLUMNS), lambda _layout: lines, width, unicode=unicode)
