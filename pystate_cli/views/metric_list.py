"""The metrics of a job: of its subtasks, of its functions, and by name."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pystate.common.text.figures import UNKNOWN, format_count, format_millis, format_moment, format_size, format_watermark
from pystate.common.time import current_time_ms
from pystate.runtime.rest.metric_messages import JobMetric, JobMetrics
from pystate_cli.console.formats import printable
from pystate_cli.tables.column import Column
from pystate_cli.tables.kinds import NUMBER, TEXT, Kind
from pystate_cli.tables.table_spec import TableSpec


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
    def of(entry: JobMetric) -> MetricRow:
        """Read it from an entry of the answer."""
        return MetricRow(entry.task, entry.operator, entry.subtask, entry.name, entry.unit, entry.value)

    @property
    def where(self) -> str:
        """Its owner: a task, `task / operator`, or the job."""
        parts = [part for part in (self.task, self.operator) if part is not None]
        return " / ".join(map(printable, parts)) or "job"

    @property
    def is_of_functions(self) -> bool:
        """Whether a function of the job has registered it."""
        return self.operator is not None and self.unit is None

    def shown(self) -> str:
        """Return the value for display."""
        value = self.value
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return printable(value)
        if self.unit in ("bytes", "bytes/s"):
            return f"{format_size(int(value))}{'/s' if self.unit == 'bytes/s' else ''}"
        if self.unit == "ms":
            return format_millis(int(value))
        if self.name.endswith("Watermark") and self.unit is not None:
            return format_watermark(int(value), current_time_ms())
        if self.unit == "ms since 1970":
            return format_moment(int(value), current_time_ms())
        if self.unit == "ms/s":
            return f"{value / 10:.0f} %"
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        # no thousands separators in strings that look like numbers
        return str(value) if self.unit in ("id", "epoch") or value < 0 else format_count(value)


def matching(rows: Iterable[MetricRow], pattern: str | None) -> list[MetricRow]:
    """Return the metrics whose name, or whose name with task or operator prefixed, matches a pattern; all without one."""
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


def head_line(answer: JobMetrics, rows: Iterable[MetricRow]) -> str:
    """Return the line about the job as a whole."""
    job = {row.name: row for row in rows if row.subtask is None}
    parts = [f"{printable(answer.name)}: {answer.state.value}"]
    if not answer.up and not answer.state.is_terminal:  # otherwise there is no process to answer
        parts.append("its driver does not answer")
    if "numRestarts" in job and job["numRestarts"].value:
        parts.append(f"{job['numRestarts'].shown()} restarts")
    if "lastFinishedEpoch" in job and job["lastFinishedEpoch"].value >= 0:
        parts.append(f"epoch {job['lastFinishedEpoch'].shown()} took {job['lastEpochDuration'].shown()}")
    if "lastCompletedCheckpointId" in job and job["lastCompletedCheckpointId"].value >= 0:
        size, duration = job["lastCheckpointFullSize"].shown(), job["lastCheckpointDuration"].shown()
        parts.append(f"checkpoint {job['lastCompletedCheckpointId'].shown()} took {duration}, {size}")
    return ", ".join(parts)


def _plain_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else printable(str(value))


_VALUE = Kind(lambda value, _: _plain_value(value), _plain_value)
METRICS: TableSpec[MetricRow] = TableSpec(
    (
        Column("where", lambda row: row.where, TEXT, "Operator", least=8),
        Column("subtask", lambda row: row.subtask, NUMBER, "Subtask", "Sub", plain="subtask", width=7, json="subtask"),
        Column("metric", lambda row: row.name, TEXT, "Metric", json="name", least=20, keeps_end=True),
        Column(
            "value", lambda row: row.value, _VALUE, "Value", plain="value", width=22, json="value",
            shown=lambda row, _: row.shown(),
        ),
        Column(
            "unit", lambda row: row.unit, Kind(TEXT.shown, lambda unit: (unit or UNKNOWN).replace(" ", "-")),
            plain="unit", width=13, json="unit",
        ),
        Column("name", lambda row: f"{row.where} : {row.name}", TEXT, plain="name"),
    ),
    plain_order=("subtask", "value", "unit", "name"),
)  # fmt: skip
"""`pystate metrics --filter GLOB`, and all in a pipe; JSON is an entry of `metrics`."""


@dataclass(frozen=True)
class MeasuredSubtask:
    """A subtask with its metrics by name."""

    task: str
    subtask: int
    metrics: Mapping[str, MetricRow]


def _metric(name: str, heading: str, short: str | None = None, **rest: Any) -> Column[MeasuredSubtask]:
    def value(row: MeasuredSubtask) -> MetricRow | None:
        return row.metrics.get(name)

    kind = Kind(lambda metric, _: UNKNOWN if metric is None else metric.shown(), str)
    return Column(name, value, kind, heading, short, **rest)


SUBTASKS: TableSpec[MeasuredSubtask] = TableSpec(
    (
        Column("task", lambda row: row.task, TEXT, "Task", least=8),
        Column("subtask", lambda row: row.subtask, NUMBER, "Subtask", "Sub"),
        _metric("numRecordsIn", "Records in", "In"),
        _metric("numRecordsInPerSecond", "In/s"),
        _metric("numRecordsOut", "Records out", "Out"),
        _metric("numRecordsOutPerSecond", "Out/s", priority=1),
        _metric("busyTimeMsPerSecond", "Busy"),
        _metric("backPressuredTimeMsPerSecond", "Back-pressured", "Back-pr.", wide_only=True),
        _metric("lastEpochDurationMs", "Last epoch", "Epoch", wide_only=True),
        _metric("lastCheckpointStateSize", "State", priority=2),
        _metric("currentInputWatermark", "Event time", priority=3),
    )
)
"""`pystate metrics` on a terminal: what each subtask reads, writes and keeps, and how far event time is."""


def subtask_table(subtasks: Iterable[MeasuredSubtask]) -> TableSpec[MeasuredSubtask]:
    """Return the table for these subtasks: without event time if none of them has it."""
    timed = any("currentInputWatermark" in one.metrics for one in subtasks)
    return SUBTASKS if timed else SUBTASKS.without("currentInputWatermark")


def measured_subtasks(rows: Iterable[MetricRow]) -> list[MeasuredSubtask]:
    """Return each subtask that has reported."""
    found: dict[tuple[str, int], dict[str, MetricRow]] = {}
    for row in rows:
        if row.subtask is not None and row.task is not None and row.operator is None:
            found.setdefault((row.task, row.subtask), {})[row.name] = row
    return [MeasuredSubtask(task, subtask, metrics) for (task, subtask), metrics in found.items()]
