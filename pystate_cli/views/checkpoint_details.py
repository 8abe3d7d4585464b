"""One checkpoint: its operators, and what each of their subtasks measured."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import UNKNOWN, format_iso, format_millis, format_moment, format_size, printable
from pystate_cli.tables.facts import flowing, labelled
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_table, fitted_tables, layouts, shortened
from pystate_cli.tables.plain_columns import plain_number, plain_table
from pystate_cli.views.checkpoint_list import CheckpointRow
from pystate_cli.views.measured import (
    MEASURED_COLUMNS,
    MEASURED_PLAIN_COLUMNS,
    STATUS_STYLES,
    Measured,
    moment_cell,
    status_marks,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

FIGURES = ("min", "avg", "max")
_OPERATOR_COLUMNS = (
    Column("name", "Operator", left=True, least=12),
    Column("uid", "UID", left=True, least=8, most=32),
    Column("acknowledged", "Acknowledged", "Ack"),
    Column("latest_ack", "Latest ack", "Latest"),
    Column("duration", "Duration"),
    *MEASURED_COLUMNS,
)
_OPERATOR_DROPPED = ("latest_ack", "uid", "start_delay", "sync", "async", "alignment", "incremental", "full")
_SUBTASK_COLUMNS = (
    Column("subtask", "Subtask", "Sub"),
    Column("status", "Status", "", left=True),
    Column("latest_ack", "Acknowledged", "Ack"),
    Column("duration", "Duration"),
    *MEASURED_COLUMNS,
)
_SUBTASK_DROPPED = ("latest_ack", "start_delay", "sync", "async", "alignment", "incremental", "full")
_PLAIN_COLUMNS = (
    ("operator", 32),
    ("subtask", 7),
    ("status", 17),
    ("acknowledged", 12),
    ("latest_ack", 29),
    ("duration_ms", 11),
    *MEASURED_PLAIN_COLUMNS,
    ("uid", 0),
)
_LINES_ABOVE = 4
"""Above the subtasks of an operator: a gap, its name, the heading, a rule."""

_SUBTASK_WORDS = {"COMPLETED": "acknowledged", "IN_PROGRESS": "pending", "FAILED": "missing"}
_SUBTASK_STATUS = {"completed": "COMPLETED", "pending_or_failed": "IN_PROGRESS"}


@dataclass(frozen=True)
class SubtaskRow:
    """What a subtask measured, or one figure of all subtasks of an operator. `index` is a number, or min, avg, max."""

    index: str
    status: str
    ack_timestamp: int | None
    duration: int | None
    measured: Measured


@dataclass(frozen=True)
class OperatorRow:
    """An operator's part of a checkpoint: sums of sizes, the longest times, and its subtasks."""

    vertex_id: str
    name: str
    uid: str
    acknowledged: int
    count: int
    latest_ack: int | None
    duration: int | None
    measured: Measured
    figures: tuple[SubtaskRow, ...]
    subtasks: tuple[SubtaskRow, ...]

    @staticmethod
    def of(vertex_id: str, entry: Mapping[str, Any]) -> OperatorRow:
        """Read an answer to GET /jobs/:id/checkpoints/details/:cid/subtasks/:vertexid."""
        return OperatorRow(
            vertex_id=vertex_id,
            name=printable(str(entry.get("name") or vertex_id)),
            uid=printable(str(entry.get("uid") or UNKNOWN)),
            acknowledged=entry["num_acknowledged_subtasks"],
            count=entry["num_subtasks"],
            latest_ack=entry.get("latest_ack_timestamp"),
            duration=entry.get("end_to_end_duration"),
            measured=Measured.of(entry),
            figures=_figures(entry) if entry["num_acknowledged_subtasks"] > 1 else (),
            subtasks=tuple(_subtask(one) for one in entry["subtasks"]),
        )


@dataclass(frozen=True)
class CheckpointDetails:
    """A checkpoint with its operators.

    Attributes:
        row: The checkpoint.
        epoch: Where its barrier stands.
        savepoint_format: How a savepoint is written; None for a checkpoint.
        restored: When the job last started from it; None where it never did.
        operators: In the order of the job.
    """

    row: CheckpointRow
    epoch: int | None
    savepoint_format: str | None
    restored: int | None
    operators: tuple[OperatorRow, ...]

    @staticmethod
    def of(details: Mapping[str, Any]) -> CheckpointDetails:
        """Read an answer to GET /jobs/:id/checkpoints/details/:cid, each task in it replaced by that of its subtasks."""
        return CheckpointDetails(
            row=CheckpointRow.of(details),
            epoch=details.get("epoch"),
            savepoint_format=details.get("savepointFormat"),
            restored=details.get("restore_timestamp"),
            operators=tuple(OperatorRow.of(vertex_id, task) for vertex_id, task in details["tasks"].items()),
        )

    @property
    def is_in_progress(self) -> bool:
        """Whether it may still change."""
        return self.row.status == "IN_PROGRESS"


def _subtask(entry: Mapping[str, Any]) -> SubtaskRow:
    return SubtaskRow(
        index=str(entry["index"]),
        status=entry["status"],
        ack_timestamp=entry.get("ack_timestamp"),
        duration=entry.get("end_to_end_duration"),
        measured=Measured.of_subtask(entry),
    )


def _figures(entry: Mapping[str, Any]) -> tuple[SubtaskRow, ...]:
    summary = entry["summary"]
    # an alignment that no subtask knows has a summary of nothing
    knows_alignment = any((one.get("alignment") or {}).get("duration", -1) >= 0 for one in entry["subtasks"])
    rows = []
    for name in FIGURES:
        measured = Measured(
            full_size=summary["state_size"][name],
            incremental_size=summary["checkpointed_size"][name],
            start_delay=summary["start_delay"][name],
            alignment=summary["alignment"]["duration"][name] if knows_alignment else None,
            sync=summary["checkpoint_duration"]["sync"][name],
            asynchronous=summary["checkpoint_duration"]["async"][name],
        )
        rows.append(SubtaskRow(name, "", None, summary["end_to_end_duration"][name], measured))
    return tuple(rows)


# -- for programs


def plain_lines(details: CheckpointDetails) -> list[str]:
    """Return a header, and for each operator a line for all of it, lines for min, avg and max, and one per subtask."""
    rows = []
    for operator in details.operators:
        acknowledged = f"{operator.acknowledged}/{operator.count}"
        times = (format_iso(operator.latest_ack), plain_number(operator.duration))
        rows.append(
            [operator.vertex_id, "all", details.row.status, acknowledged, *times, *operator.measured.plain(), operator.uid]
        )
        for one in (*operator.figures, *operator.subtasks):
            times = (format_iso(one.ack_timestamp), plain_number(one.duration))
            taken = {"completed": "1/1", "": UNKNOWN}.get(one.status, "0/1")
            status = one.status or UNKNOWN
            rows.append([operator.vertex_id, one.index, status, taken, *times, *one.measured.plain(), operator.uid])
    return plain_table(_PLAIN_COLUMNS, rows)


def header_line(details: CheckpointDetails) -> str:
    """Say in a sentence what it is and how it went."""
    row = details.row
    sentence = f"{row.kind} {row.checkpoint_id} {row.status}, {row.acknowledged}/{row.subtasks} acknowledged"
    return f"{sentence}: {row.failure.splitlines()[0]}" if row.failure else sentence


# -- for people


def details_view(
    details: CheckpointDetails, width: int, *, unicode: bool, height: int | None = None, now: int | None = None
) -> RenderableType:
    """Return header, operators and their subtasks for a terminal of that width.

    Args:
        details: The checkpoint.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
        height: How many lines there are; subtasks that have no room are counted. None: as many as it takes.
        now: Milliseconds since 1970.
    """
    from rich.console import Group
    from rich.text import Text

    now = int(time.time() * 1000) if now is None else now
    parts: list[RenderableType] = [*_header(details, width, now, unicode=unicode), Text("")]
    parts.append(_operator_table(details, width, now, unicode=unicode))
    groups = [[*operator.figures, *operator.subtasks] for operator in details.operators]
    left_out = 0
    if height is not None:
        # behind the table of operators, whose heading takes two lines
        groups, left_out = _first_lines(groups, height - len(parts) - 1 - len(details.operators))
    tables = _subtask_tables(groups, details, width, now, unicode=unicode)
    for operator, table, group in zip(details.operators, tables, groups, strict=True):
        if group:
            parts += [Text(""), _operator_title(operator, width, unicode=unicode), table]
    if left_out:
        parts.append(Text(f"{left_out} more", style="dim"))
    return Group(*parts)


def _first_lines(groups: list[list[SubtaskRow]], room: int) -> tuple[list[list[SubtaskRow]], int]:
    """Return of each group what there is room for, and how many lines are left out: that takes a line to say."""
    if sum(map(len, groups)) + _LINES_ABOVE * len(groups) <= room:
        return groups, 0
    room -= 1
    shown = []
    for group in groups:
        part = group[: max(0, room - _LINES_ABOVE)]
        room -= _LINES_ABOVE + len(group)
        shown.append(part)
    return shown, sum(map(len, groups)) - sum(map(len, shown))


def _header(details: CheckpointDetails, width: int, now: int, *, unicode: bool) -> list[Text]:
    from rich.text import Text

    row = details.row
    title = Text(f"{row.kind} {row.checkpoint_id}", style="bold")
    mark = status_marks(unicode=unicode).get(row.status, "?")
    title.append(f"  {mark} {row.status}", style=f"not bold {STATUS_STYLES.get(row.status, '')}".rstrip())
    facts = [f"triggered {format_moment(row.trigger_timestamp, now)}"]
    facts.append(f"duration {format_millis(now - row.trigger_timestamp if details.is_in_progress else row.duration)}")
    facts.append(f"epoch {UNKNOWN if details.epoch is None else details.epoch}")
    facts.append(f"acknowledged {row.acknowledged}/{row.subtasks}")
    facts.append(f"full {format_size(row.measured.full_size)}")
    facts.append(f"incremental {format_size(row.measured.incremental_size)}")
    if details.savepoint_format:
        facts.append(f"format {details.savepoint_format}")
    pairs = []
    if row.status == "COMPLETED" and row.path:
        pairs.append(("deleted" if row.discarded else "path", row.path))
    waits = row.waits(now)
    if waits is not None:
        pairs.append(("barrier", waits))
    if row.failure:
        pairs.append(("failure", printable(row.failure.splitlines()[0])))
    if details.restored is not None:
        pairs.append(("restored", f"the job last started from it at {format_moment(details.restored, now)}"))
    return [title, *flowing(map(Text, facts), width), *map(Text, labelled(pairs, width))]


def _operator_title(operator: OperatorRow, width: int, *, unicode: bool) -> Text:
    from rich.text import Text

    uid = shortened(f"uid {operator.uid}", width // 2, unicode=unicode)
    title = Text(shortened(operator.name, width - 2 - len(uid), unicode=unicode), style="bold")
    title.append(f"  {uid}", style="dim not bold")
    return title


def _operator_table(details: CheckpointDetails, width: int, now: int, *, unicode: bool) -> RenderableType:
    def line(operator: OperatorRow, layout: Layout) -> Line:
        cells = {
            "name": operator.name,
            "uid": operator.uid,
            "acknowledged": f"{operator.acknowledged}/{operator.count}",
            "latest_ack": moment_cell(operator.latest_ack, layout, now),
            "duration": format_millis(operator.duration),
            **operator.measured.cells(),
        }
        waits = operator.acknowledged < operator.count
        return Line(cells, {"acknowledged": STATUS_STYLES.get(details.row.status, "") if waits else ""})

    return fitted_table(
        layouts(_OPERATOR_COLUMNS, extra=("latest_ack",), dropped=_OPERATOR_DROPPED),
        lambda layout: [line(operator, layout) for operator in details.operators],
        width,
        unicode=unicode,
    )


def _subtask_tables(
    groups: Sequence[Sequence[SubtaskRow]], details: CheckpointDetails, width: int, now: int, *, unicode: bool
) -> Sequence[RenderableType]:
    marks = status_marks(unicode=unicode)

    def line(row: SubtaskRow, layout: Layout) -> Line:
        # Flink has one word for those that still write and those that never will
        status = _SUBTASK_STATUS.get(row.status, "")
        if status == "IN_PROGRESS" and not details.is_in_progress:
            status = "FAILED"
        word = f"{marks[status]} {_SUBTASK_WORDS[status]}" if status else ""
        cells = {
            "subtask": row.index,
            "status": word if layout.wide else marks.get(status, ""),
            "latest_ack": moment_cell(row.ack_timestamp, layout, now) if status else "",
            "duration": format_millis(row.duration),
            **row.measured.cells(),
        }
        return Line(cells, {"status": STATUS_STYLES.get(status, "")}, "" if status else "dim")

    return fitted_tables(
        layouts(_SUBTASK_COLUMNS, dropped=_SUBTASK_DROPPED),
        lambda layout: [[line(row, layout) for row in rows] for rows in groups],
        width,
        unicode=unicode,
    )
