"""One checkpoint: its operators, and what each of their subtasks measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pystate.common.text.figures import UNKNOWN, format_millis, format_moment, format_size
from pystate.common.time import current_time_ms
from pystate.runtime.rest.checkpoint_messages import (
    CheckpointStatistics,
    CompletedSubtaskCheckpointStatistics,
    PendingSubtaskCheckpointStatistics,
    StatsSummaryDto,
    TaskCheckpointStatisticsWithSubtaskDetails,
)
from pystate_cli.console.formats import known_epoch, printable
from pystate_cli.tables.column import Column
from pystate_cli.tables.facts import flowing, labelled
from pystate_cli.tables.fitted_table import shortened
from pystate_cli.tables.kinds import INSTANT, MILLIS, TEXT, Look, moment_cell
from pystate_cli.tables.table_spec import TableSpec
from pystate_cli.views.measured import MEASURED, STATUS_STYLES, Measured, measured_columns, status_marks
from pystate_cli.views.snapshots.checkpoint_list import CheckpointRow

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

FIGURES: dict[str, Callable[[StatsSummaryDto], int]] = {
    "min": lambda one: one.min,
    "avg": lambda one: one.avg,
    "max": lambda one: one.max,
}
_LINES_ABOVE = 4
"""Above the subtasks of an operator: a gap, its name, the heading, a rule."""

_SUBTASK_WORDS = {"COMPLETED": "acknowledged", "IN_PROGRESS": "pending", "FAILED": "missing"}
_SUBTASK_STATUS = {"completed": "COMPLETED", "pending_or_failed": "IN_PROGRESS"}


@dataclass(frozen=True)
class SubtaskRow:
    """The figures of a subtask, or one statistic of all subtasks of an operator. `index` is a number, or min, avg, max."""

    index: str
    status: str
    ack_timestamp: int | None
    duration: int | None
    measured: Measured


@dataclass(frozen=True)
class OperatorRow:
    """An operator's part of a checkpoint: sums of sizes, maximum times, and its subtasks."""

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
    def of(vertex_id: str, entry: TaskCheckpointStatisticsWithSubtaskDetails) -> OperatorRow:
        """Read an answer to GET /jobs/:id/checkpoints/details/:cid/subtasks/:vertexid."""
        return OperatorRow(
            vertex_id=vertex_id,
            name=printable(entry.name or vertex_id),
            uid=printable(entry.uid or UNKNOWN),
            acknowledged=entry.num_acknowledged_subtasks,
            count=entry.num_subtasks,
            latest_ack=entry.latest_ack_timestamp,
            duration=entry.end_to_end_duration,
            measured=Measured.of(entry),
            figures=_figures(entry) if entry.num_acknowledged_subtasks > 1 else (),
            subtasks=tuple(_subtask(one) for one in entry.subtasks),
        )


@dataclass(frozen=True)
class CheckpointDetails:
    """A checkpoint with its operators.

    Attributes:
        row: The checkpoint.
        epoch: The epoch of its barrier.
        savepoint_format: The format of a savepoint; None for a checkpoint.
        restored: When the job last started from it; None if never.
        operators: In the order of the job.
    """

    row: CheckpointRow
    epoch: int | None
    savepoint_format: str | None
    restored: int | None
    operators: tuple[OperatorRow, ...]

    @staticmethod
    def of(
        details: CheckpointStatistics, tasks: Mapping[str, TaskCheckpointStatisticsWithSubtaskDetails]
    ) -> CheckpointDetails:
        """Read the answers to GET /jobs/:id/checkpoints/details/:cid and, by vertex, to .../subtasks/:vertexid."""
        return CheckpointDetails(
            row=CheckpointRow.of(details),
            epoch=details.epoch,
            savepoint_format=details.savepoint_format,
            restored=details.restore_timestamp,
            operators=tuple(OperatorRow.of(vertex_id, task) for vertex_id, task in tasks.items()),
        )

    @property
    def is_in_progress(self) -> bool:
        """Whether it may still change."""
        return self.row.status == "IN_PROGRESS"


def _subtask(entry: CompletedSubtaskCheckpointStatistics | PendingSubtaskCheckpointStatistics) -> SubtaskRow:
    index, status = str(entry.index), entry.status
    if isinstance(entry, PendingSubtaskCheckpointStatistics):
        return SubtaskRow(index, status, None, None, Measured(None, None, None, None, None, None))
    return SubtaskRow(index, status, entry.ack_timestamp, entry.end_to_end_duration, Measured.of_subtask(entry))


def _figures(entry: TaskCheckpointStatisticsWithSubtaskDetails) -> tuple[SubtaskRow, ...]:
    summary = entry.summary
    # an alignment that no subtask knows has an empty summary
    completed = [one for one in entry.subtasks if isinstance(one, CompletedSubtaskCheckpointStatistics)]
    knows_alignment = any(one.alignment.duration >= 0 for one in completed)
    rows = []
    for name, of in FIGURES.items():
        measured = Measured(
            full_size=of(summary.state_size),
            incremental_size=of(summary.checkpointed_size),
            start_delay=of(summary.start_delay),
            alignment=of(summary.alignment.duration) if knows_alignment else None,
            sync=of(summary.checkpoint_duration.sync),
            asynchronous=of(summary.checkpoint_duration.asynchronous),
            buffered=of(summary.alignment.buffered),
            processed=of(summary.alignment.processed),
            persisted=of(summary.alignment.persisted),
        )
        rows.append(SubtaskRow(name, "", None, of(summary.end_to_end_duration), measured))
    return tuple(rows)


# -- the columns


@dataclass(frozen=True)
class DetailsRow:
    """A line: an operator's total, one statistic of its subtasks, or one subtask."""

    checkpoint_status: str
    operator: OperatorRow
    one: SubtaskRow | None = None

    @property
    def is_figure(self) -> bool:
        """Whether it is the minimum, average or maximum of all subtasks."""
        return self.one is not None and not self.one.status

    @property
    def status(self) -> str | None:
        """The status as in REST; None for a statistic."""
        return self.checkpoint_status if self.one is None else self.one.status or None

    @property
    def subtask_status(self) -> str:
        """The status of a subtask, in the terms of a checkpoint; empty for all others."""
        found = "" if self.one is None else _SUBTASK_STATUS.get(self.one.status, "")
        # Flink has one status for subtasks that are still writing and those that never will
        return "FAILED" if found == "IN_PROGRESS" and self.checkpoint_status != "IN_PROGRESS" else found

    @property
    def acknowledged(self) -> str | None:
        """The number of acknowledged subtasks and their total; None for a statistic."""
        if self.one is None:
            return f"{self.operator.acknowledged}/{self.operator.count}"
        return None if self.is_figure else "1/1" if self.one.status == "completed" else "0/1"

    @property
    def latest_ack(self) -> int | None:
        """When the last one acknowledged."""
        return self.operator.latest_ack if self.one is None else self.one.ack_timestamp

    @property
    def duration(self) -> int | None:
        """The time from the trigger to the last acknowledgement."""
        return self.operator.duration if self.one is None else self.one.duration

    @property
    def measured(self) -> Measured:
        """The measurements."""
        return self.operator.measured if self.one is None else self.one.measured


def _shown_status(row: DetailsRow, look: Look) -> str:
    marks, status = status_marks(unicode=look.unicode), row.subtask_status
    if not status:
        return ""
    return f"{marks[status]} {_SUBTASK_WORDS[status]}" if look.wide else marks[status]


def _acknowledged_style(row: DetailsRow) -> str:
    waits = row.operator.acknowledged < row.operator.count
    return STATUS_STYLES.get(row.checkpoint_status, "") if waits else ""


DETAILS: TableSpec[DetailsRow] = TableSpec(
    (
        Column("vertex", lambda row: row.operator.vertex_id, plain="operator", width=32),
        Column("name", lambda row: row.operator.name, TEXT, "Operator", json="name", least=12),
        Column("uid", lambda row: row.operator.uid, TEXT, "UID", plain="uid", json="uid", least=8, most=32, priority=2),
        Column(
            "subtask", lambda row: "all" if row.one is None else row.one.index, TEXT, "Subtask", "Sub",
            plain="subtask", width=7, left=False,
        ),
        Column(
            "status", lambda row: row.status, TEXT, "Status", "", plain="status", width=17, json="status",
            shown=_shown_status, style=lambda row: STATUS_STYLES.get(row.subtask_status, ""),
        ),
        Column(
            "acknowledged", lambda row: row.acknowledged, TEXT, "Acknowledged", "Ack",
            plain="acknowledged", width=12, left=False, style=_acknowledged_style,
        ),
        Column(
            "latest_ack", lambda row: row.latest_ack, INSTANT, "Latest ack", "Latest",
            plain="latest_ack", width=29, json="latestAckTimestamp", wide_only=True,
        ),
        Column(
            "ack", lambda row: row.latest_ack, INSTANT, "Acknowledged", "Ack", priority=1,
            shown=lambda row, look: moment_cell(row.latest_ack, look) if row.subtask_status else "",
        ),
        Column(
            "duration", lambda row: row.duration, MILLIS, "Duration",
            plain="duration_ms", width=11, json="endToEndDuration",
        ),
        *measured_columns(lambda row: row.measured),
    ),
    style=lambda row: "dim" if row.is_figure else "",
    plain_order=(
        "vertex", "subtask", "status", "acknowledged", "latest_ack", "duration", *MEASURED, "uid",
    ),
)  # fmt: skip
"""`pystate checkpoints JOBID ID`; JSON is an entry of `tasks` for an operator."""

OPERATORS = DETAILS.only("name", "uid", "acknowledged", "latest_ack", "duration", *MEASURED)
SUBTASKS = DETAILS.only("subtask", "status", "ack", "duration", *MEASURED)


# -- for programs


def plain_lines(details: CheckpointDetails) -> list[str]:
    """Return a header, and for each operator lines for its total, for min, avg and max, and one per subtask."""
    return DETAILS.plain(
        DetailsRow(details.row.status, operator, one)
        for operator in details.operators
        for one in (None, *operator.figures, *operator.subtasks)
    )


def header_line(details: CheckpointDetails) -> str:
    """Return a sentence about its kind and its result."""
    row = details.row
    sentence = f"{row.full_kind} {row.checkpoint_id} {row.status}, {row.acknowledged}/{row.subtasks} acknowledged"
    return f"{sentence}: {row.failure.splitlines()[0]}" if row.failure else sentence


# -- for display


def details_view(
    details: CheckpointDetails, width: int, *, unicode: bool, height: int | None = None, now: int | None = None
) -> RenderableType:
    """Return header, operators and their subtasks for a terminal of that width.

    Args:
        details: The checkpoint.
        width: Columns of the terminal.
        unicode: Whether it shows more than ASCII.
        height: The number of lines; omitted subtasks are counted. None for no limit.
        now: Milliseconds since 1970.
    """
    from rich.console import Group
    from rich.text import Text

    now = current_time_ms() if now is None else now
    parts: list[RenderableType] = [*_header(details, width, now, unicode=unicode), Text("")]
    status = details.row.status
    operators = [DetailsRow(status, operator) for operator in details.operators]
    parts.append(OPERATORS.table(operators, width, unicode=unicode, now=now))
    groups = [
        [DetailsRow(status, operator, one) for one in (*operator.figures, *operator.subtasks)]
        for operator in details.operators
    ]
    left_out = 0
    if height is not None:
        # after the table of operators, whose heading takes two lines
        groups, left_out = _first_lines(groups, height - len(parts) - 1 - len(details.operators))
    tables = SUBTASKS.tables(groups, width, unicode=unicode, now=now)
    for operator, table, group in zip(details.operators, tables, groups, strict=True):
        if group:
            parts += [Text(""), _operator_title(operator, width, unicode=unicode), table]
    if left_out:
        parts.append(Text(f"{left_out} more", style="dim"))
    return Group(*parts)


def _first_lines(groups: list[list[DetailsRow]], room: int) -> tuple[list[list[DetailsRow]], int]:
    """Return the lines of each group that fit, and the number of omitted ones, whose notice takes a line."""
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
    title = Text(f"{row.full_kind} {row.checkpoint_id}", style="bold")
    mark = status_marks(unicode=unicode).get(row.status, "?")
    title.append(f"  {mark} {row.status}", style=f"not bold {STATUS_STYLES.get(row.status, '')}".rstrip())
    facts = [f"triggered {format_moment(row.trigger_timestamp, now)}"]
    facts.append(f"duration {format_millis(row.duration_so_far(now))}")
    epoch = known_epoch(details.epoch)
    facts.append(f"epoch {UNKNOWN if epoch is None else epoch}")
    facts.append(f"acknowledged {row.acknowledged}/{row.subtasks}")
    facts.append(f"full {format_size(row.measured.full_size)}")
    facts.append(f"incremental {format_size(row.measured.incremental_size)}")
    if row.measured.buffered:
        facts.append(f"held back {format_size(row.measured.buffered)}")
    if row.measured.processed:
        facts.append(f"processed meanwhile {format_size(row.measured.processed)}")
    if row.measured.persisted:
        facts.append(f"in flight {format_size(row.measured.persisted)}")
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
