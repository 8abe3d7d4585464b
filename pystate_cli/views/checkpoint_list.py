"""The list of a job's checkpoints and savepoints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.console.formats import UNKNOWN, format_iso, format_millis, waiting_words
from pystate_cli.tables.facts import labelled
from pystate_cli.tables.fitted_table import Column, Layout, Line, fitted_table, layouts
from pystate_cli.tables.plain_columns import plain_number, plain_table
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

_PLAIN_COLUMNS = (
    ("id", 6),
    ("kind", 10),
    ("status", 11),
    ("triggered", 29),
    ("duration_ms", 11),
    *MEASURED_PLAIN_COLUMNS,
    ("acknowledged", 12),
    ("path", 0),
)
_COLUMNS = (
    Column("id", "ID"),
    Column("kind", "Kind", left=True),
    Column("status", "Status", "", left=True),
    Column("triggered", "Triggered"),
    Column("duration", "Duration"),
    *MEASURED_COLUMNS,
    Column("acknowledged", "Acknowledged", "Ack"),
    Column("location", "Location", left=True),
)
_DROPPED = ("start_delay", "sync", "async", "alignment", "incremental", "full", "triggered", "kind")
_SHORT_KINDS = {"checkpoint": "chk", "savepoint": "save"}


@dataclass(frozen=True)
class CheckpointRow:
    """One checkpoint or savepoint. Times in ms, sizes in bytes, None for what is not known."""

    checkpoint_id: int
    is_savepoint: bool
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
    def of(entry: Mapping[str, Any]) -> CheckpointRow:
        """Read an entry of the history in GET /jobs/:id/checkpoints."""
        return CheckpointRow(
            checkpoint_id=entry["id"],
            is_savepoint=entry["is_savepoint"],
            status=entry["status"],
            trigger_timestamp=entry["trigger_timestamp"],
            duration=entry.get("end_to_end_duration"),
            measured=Measured.of(entry),
            acknowledged=entry.get("num_acknowledged_subtasks", 0),
            subtasks=entry.get("num_subtasks", 0),
            path=entry.get("external_path"),
            discarded=bool(entry.get("discarded", False)),
            failure=entry.get("failure_message"),
            waits_for_epoch=entry.get("waits_for_epoch"),
            waits_since=entry.get("waits_since"),
        )

    @property
    def kind(self) -> str:
        """Return what it is, in a word."""
        return "savepoint" if self.is_savepoint else "checkpoint"

    def waits(self, now: int) -> str | None:
        """Say which epoch's end it waits for; None where it doesn't."""
        return waiting_words(vars(self), now)


def summary_line(statistics: Mapping[str, Any]) -> str:
    """Return the counts in a sentence."""
    counts = statistics["counts"]
    if not counts.get("total") and not counts.get("restored"):
        return "No checkpoint yet."
    parts = [f"{counts['completed']} completed", f"{counts['in_progress']} in progress", f"{counts['failed']} failed"]
    if counts["restored"]:
        parts.append(f"restored {counts['restored']} time{'' if counts['restored'] == 1 else 's'}")
    return f"{counts['total']} triggered: {', '.join(parts)}"


def path_lines(
    rows: Sequence[CheckpointRow], statistics: Mapping[str, Any], width: int, now: int | None = None
) -> list[str]:
    """Say where each snapshot that can be restored is, what others wait for or failed of, and what the job began with.

    Label and text stand side by side, or one above the other where the terminal is too narrow for a path to copy.
    """
    pairs = []
    now = int(time.time() * 1000) if now is None else now
    for row in rows:
        waits = row.waits(now)
        if waits is not None:
            pairs.append((f"{row.kind} {row.checkpoint_id}", waits))
        elif row.status == "COMPLETED" and row.path and not row.discarded:
            pairs.append((f"{row.kind} {row.checkpoint_id}", row.path))
        elif row.failure:
            pairs.append((f"{row.kind} {row.checkpoint_id} failed", row.failure.splitlines()[0]))
    restored = (statistics.get("latest") or {}).get("restored")
    if restored is not None:
        pairs.append((f"restored from {restored['id']}", restored.get("external_path") or UNKNOWN))
    return labelled(pairs, width)


def wait_lines(rows: Sequence[CheckpointRow], now: int | None = None) -> list[str]:
    """Return a sentence for each that waits for the end of an epoch."""
    now = int(time.time() * 1000) if now is None else now
    waiting = ((row, row.waits(now)) for row in rows)
    return [f"{row.kind.capitalize()} {row.checkpoint_id} {waits}." for row, waits in waiting if waits is not None]


def plain_lines(rows: Sequence[CheckpointRow]) -> list[str]:
    """Return a header and a line per row in columns of fixed width, for programs."""
    return plain_table(_PLAIN_COLUMNS, map(_plain_cells, rows))


def _plain_cells(row: CheckpointRow) -> list[str]:
    return [
        str(row.checkpoint_id),
        row.kind,
        row.status,
        format_iso(row.trigger_timestamp),
        plain_number(row.duration),
        *row.measured.plain(),
        f"{row.acknowledged}/{row.subtasks}",
        UNKNOWN if row.path is None or row.discarded else row.path,
    ]


def _line(row: CheckpointRow, layout: Layout, marks: Mapping[str, str], now: int) -> Line:
    mark = marks.get(row.status, "?")
    location = UNKNOWN if row.path is None else row.path.rstrip("/").rpartition("/")[2]
    cells = {
        "id": str(row.checkpoint_id),
        "kind": _SHORT_KINDS[row.kind] if layout.brief else row.kind,
        "status": f"{mark} {row.status}" if layout.wide else mark,
        "triggered": moment_cell(row.trigger_timestamp, layout, now),
        "duration": format_millis(now - row.trigger_timestamp if row.status == "IN_PROGRESS" else row.duration),
        **row.measured.cells(),
        "acknowledged": f"{row.acknowledged}/{row.subtasks}",
        "location": "(deleted)" if row.discarded else location,
    }
    styles = {"kind": "cyan" if row.is_savepoint else "", "status": STATUS_STYLES.get(row.status, "")}
    return Line(cells, styles, "dim" if row.discarded else "")


def table(rows: Sequence[CheckpointRow], width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width; a narrow one gets marks for words, short names, then fewer columns."""
    now = int(time.time() * 1000) if now is None else now
    return fitted_table(
        layouts(_COLUMNS, extra=("location",), dropped=_DROPPED),
        lambda layout: [_line(row, layout, status_marks(unicode=unicode), now) for row in rows],
        width,
        unicode=unicode,
    )
