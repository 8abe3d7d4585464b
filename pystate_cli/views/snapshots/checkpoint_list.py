"""The list of a job's checkpoints and savepoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pystate.common.text.figures import UNKNOWN, format_millis
from pystate.common.time import current_time_ms
from pystate.runtime.rest.checkpoint_messages import CheckpointCounts, CheckpointStatistics, RestoredCheckpointStatistics
from pystate_cli.console.formats import waiting_text
from pystate_cli.tables.column import Column
from pystate_cli.tables.facts import labelled
from pystate_cli.tables.kinds import INSTANT, MILLIS, NUMBER, TEXT, Look
from pystate_cli.tables.table_spec import TableSpec
from pystate_cli.views.measured import STATUS_STYLES, Measured, measured_columns, status_marks

SHORT_KINDS = {"CHECKPOINT": "chk", "UNALIGNED_CHECKPOINT": "unal", "SAVEPOINT": "save"}
_WORDS = {"CHECKPOINT": "checkpoint", "UNALIGNED_CHECKPOINT": "unaligned", "SAVEPOINT": "savepoint"}


@dataclass(frozen=True)
class CheckpointRow:
    """One checkpoint or savepoint. Times in ms, sizes in bytes, None if unknown."""

    checkpoint_id: int
    is_savepoint: bool
    type: str
    status: str
    trigger_timestamp: int
    duration: int | None
    measured: Measured
    acknowledged: int
    subtasks: int
    path: str | None
    discarded: bool
    failure: str | None
    waits_for_epoch: int | None = None
    waits_since: int | None = None

    @staticmethod
    def of(entry: CheckpointStatistics) -> CheckpointRow:
        """Read a checkpoint of GET /jobs/:id/checkpoints."""
        return CheckpointRow(
            checkpoint_id=entry.id,
            is_savepoint=entry.is_savepoint,
            type=entry.checkpoint_type,
            status=entry.status.value,
            trigger_timestamp=entry.trigger_timestamp,
            duration=entry.end_to_end_duration,
            measured=Measured.of(entry),
            acknowledged=entry.num_acknowledged_subtasks,
            subtasks=entry.num_subtasks,
            path=entry.external_path,
            discarded=bool(entry.discarded),
            failure=entry.failure_message,
            waits_for_epoch=entry.waits_for_epoch,
            waits_since=entry.waits_since,
        )

    @property
    def kind(self) -> str:
        """Return its kind, in a word."""
        return "savepoint" if self.is_savepoint else "checkpoint"

    @property
    def full_kind(self) -> str:
        """Return its kind, and whether its barrier has overtaken records."""
        return "unaligned checkpoint" if self.type == "UNALIGNED_CHECKPOINT" else self.kind

    def duration_so_far(self, now: int) -> int | None:
        """Return its duration, or that so far: in REST, one in progress ends with the last acknowledgement."""
        return now - self.trigger_timestamp if self.status == "IN_PROGRESS" else self.duration

    def waits(self, now: int) -> str | None:
        """Return which epoch's end it waits for; None if it doesn't wait."""
        return waiting_text(self.waits_for_epoch, self.waits_since, now)


def summary_line(counts: CheckpointCounts) -> str:
    """Return the counts in a sentence."""
    if not counts.total and not counts.restored:
        return "No checkpoint yet."
    parts = [f"{counts.completed} completed", f"{counts.in_progress} in progress", f"{counts.failed} failed"]
    if counts.restored:
        parts.append(f"restored {counts.restored} time{'' if counts.restored == 1 else 's'}")
    return f"{counts.total} triggered: {', '.join(parts)}"


def path_lines(
    rows: Sequence[CheckpointRow], restored: RestoredCheckpointStatistics | None, width: int, now: int | None = None
) -> list[str]:
    """Return the paths of restorable snapshots, what others wait for or why they failed, and the job's initial snapshot.

    Label and text are side by side, or stacked if the terminal is too narrow for a path.
    """
    pairs = []
    now = current_time_ms() if now is None else now
    for row in rows:
        waits = row.waits(now)
        if waits is not None:
            pairs.append((f"{row.kind} {row.checkpoint_id}", waits))
        elif row.status == "COMPLETED" and row.path and not row.discarded:
            pairs.append((f"{row.kind} {row.checkpoint_id}", row.path))
        elif row.failure:
            pairs.append((f"{row.kind} {row.checkpoint_id} failed", row.failure.splitlines()[0]))
    if restored is not None:
        pairs.append((f"restored from {restored.id}", restored.external_path or UNKNOWN))
    return labelled(pairs, width)


def wait_lines(rows: Sequence[CheckpointRow], now: int | None = None) -> list[str]:
    """Return a sentence for each that waits for the end of an epoch."""
    now = current_time_ms() if now is None else now
    waiting = ((row, row.waits(now)) for row in rows)
    return [f"{row.kind.capitalize()} {row.checkpoint_id} {waits}." for row, waits in waiting if waits is not None]


def _shown_status(row: CheckpointRow, look: Look) -> str:
    mark = status_marks(unicode=look.unicode).get(row.status, "?")
    return f"{mark} {row.status}" if look.wide else mark


def _shown_location(row: CheckpointRow, _look: Look) -> str:
    name = UNKNOWN if row.path is None else row.path.rstrip("/").rpartition("/")[2]
    return "(deleted)" if row.discarded else name


CHECKPOINTS: TableSpec[CheckpointRow] = TableSpec(
    (
        Column("id", lambda row: row.checkpoint_id, NUMBER, "ID", plain="id", width=6, json="id"),
        Column(
            "kind", lambda row: row.kind, TEXT, "Kind", plain="kind", width=10, priority=10,
            shown=lambda row, look: (SHORT_KINDS if look.brief else _WORDS)[row.type],
            style=lambda row: "cyan" if row.is_savepoint else "",
        ),
        Column(
            "status", lambda row: row.status, TEXT, "Status", "", plain="status", width=11, json="status",
            shown=_shown_status, style=lambda row: STATUS_STYLES.get(row.status, ""),
        ),
        Column(
            "triggered", lambda row: row.trigger_timestamp, INSTANT, "Triggered",
            plain="triggered", width=29, json="triggerTimestamp", priority=9,
        ),
        Column(
            "duration", lambda row: row.duration, MILLIS, "Duration",
            plain="duration_ms", width=11, json="endToEndDuration",
            shown=lambda row, look: format_millis(row.duration_so_far(look.now)),
        ),
        *measured_columns(lambda row: row.measured),
        Column("type", lambda row: row.type, plain="type", width=20, json="checkpointType"),
        Column(
            "acknowledged", lambda row: f"{row.acknowledged}/{row.subtasks}", TEXT, "Acknowledged", "Ack",
            plain="acknowledged", width=12, left=False,
        ),
        Column(
            "location", lambda row: None if row.discarded else row.path, TEXT, "Location",
            plain="path", shown=_shown_location, wide_only=True,  # JSON has it even if `discarded` is true
        ),
    ),
    style=lambda row: "dim" if row.discarded else "",
)  # fmt: skip
"""`pystate checkpoints JOBID`; JSON is an entry of `history`."""
