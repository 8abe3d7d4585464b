"""The list of a job's checkpoints and savepoints."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.formats import UNKNOWN, format_iso, format_millis, format_moment, format_size

if TYPE_CHECKING:
    from rich.console import RenderableType

_TIME_LENGTH = len("08:56:52")
_STYLES = {"COMPLETED": "green", "FAILED": "bold red", "IN_PROGRESS": "yellow"}
_MARKS = {"COMPLETED": "✓", "FAILED": "✗", "IN_PROGRESS": "…"}
_ASCII_MARKS = {"COMPLETED": "ok", "FAILED": "no", "IN_PROGRESS": ".."}
_PLAIN_COLUMNS = (
    ("id", 6),
    ("kind", 10),
    ("status", 11),
    ("triggered", 29),
    ("duration_ms", 11),
    ("full_bytes", 12),
    ("incremental_bytes", 17),
    ("start_delay_ms", 14),
    ("alignment_ms", 12),
    ("sync_ms", 7),
    ("async_ms", 8),
    ("acknowledged", 12),
    ("path", 0),
)


# name -> heading, and heading where there is little room
_COLUMNS = {
    "id": ("ID", "ID"),
    "kind": ("Kind", "Kind"),
    "status": ("Status", ""),
    "triggered": ("Triggered", "Triggered"),
    "duration": ("Duration", "Duration"),
    "full": ("Full size", "Full"),
    "incremental": ("Incremental", "Incr"),
    "start_delay": ("Start delay", "Delay"),
    "alignment": ("Alignment", "Align"),
    "sync": ("Sync", "Sync"),
    "async": ("Async", "Async"),
    "acknowledged": ("Acknowledged", "Ack"),
    "location": ("Location", ""),
}
_LEFT = ("kind", "status", "location")
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
    full_size: int | None
    incremental_size: int | None
    start_delay: int | None
    alignment: int | None
    sync: int | None
    asynchronous: int | None
    acknowledged: int
    subtasks: int
    path: str | None
    discarded: bool
    failure: str | None

    @staticmethod
    def of(entry: Mapping[str, Any]) -> CheckpointRow:
        """Read an entry of the history in GET /jobs/:id/checkpoints."""
        return CheckpointRow(
            checkpoint_id=entry["id"],
            is_savepoint=entry["is_savepoint"],
            status=entry["status"],
            trigger_timestamp=entry["trigger_timestamp"],
            duration=entry.get("end_to_end_duration"),
            full_size=entry.get("state_size"),
            incremental_size=entry.get("checkpointed_size"),
            start_delay=entry.get("start_delay"),
            alignment=entry.get("alignment_duration"),
            sync=entry.get("sync_duration"),
            asynchronous=entry.get("async_duration"),
            acknowledged=entry.get("num_acknowledged_subtasks", 0),
            subtasks=entry.get("num_subtasks", 0),
            path=entry.get("external_path"),
            discarded=bool(entry.get("discarded", False)),
            failure=entry.get("failure_message"),
        )

    @property
    def kind(self) -> str:
        """Return what it is, in a word."""
        return "savepoint" if self.is_savepoint else "checkpoint"


def summary_line(statistics: Mapping[str, Any]) -> str:
    """Return the counts in a sentence."""
    counts = statistics["counts"]
    if not counts.get("total") and not counts.get("restored"):
        return "No checkpoint yet."
    parts = [f"{counts['completed']} completed", f"{counts['in_progress']} in progress", f"{counts['failed']} failed"]
    if counts["restored"]:
        parts.append(f"restored {counts['restored']} time{'' if counts['restored'] == 1 else 's'}")
    return f"{counts['total']} triggered: {', '.join(parts)}"


def path_lines(rows: Sequence[CheckpointRow], statistics: Mapping[str, Any], width: int) -> list[str]:
    """Say where each snapshot that can be restored is, why others failed, and what the job was restored from.

    Label and text stand side by side, or one above the other where the terminal is too narrow for a path to copy.
    """
    pairs = []
    for row in rows:
        if row.status == "COMPLETED" and row.path and not row.discarded:
            pairs.append((f"{row.kind} {row.checkpoint_id}", row.path))
        elif row.failure:
            pairs.append((f"{row.kind} {row.checkpoint_id} failed", row.failure.splitlines()[0]))
    restored = (statistics.get("latest") or {}).get("restored")
    if restored is not None:
        pairs.append((f"restored from {restored['id']}", restored.get("external_path") or UNKNOWN))
    label_width = max((len(label) for label, _ in pairs), default=0)
    if all(label_width + 2 + len(text) <= width for _, text in pairs):
        return [f"{label:<{label_width}}  {text}" for label, text in pairs]
    return [line for label, text in pairs for line in (f"{label}:", text)]


def plain_lines(rows: Sequence[CheckpointRow]) -> list[str]:
    """Return a header and a line per row in columns of fixed width, for programs."""
    lines = ["  ".join(f"{name:<{width}}" for name, width in _PLAIN_COLUMNS).rstrip()]
    for row in rows:
        sizes = (row.full_size, row.incremental_size)
        numbers = (row.duration, *sizes, row.start_delay, row.alignment, row.sync, row.asynchronous)
        cells = [
            str(row.checkpoint_id),
            row.kind,
            row.status,
            format_iso(row.trigger_timestamp),
            *(UNKNOWN if number is None or number < 0 else str(number) for number in numbers),
            f"{row.acknowledged}/{row.subtasks}",
            UNKNOWN if row.path is None or row.discarded else row.path,
        ]
        widths = (width for _, width in _PLAIN_COLUMNS)
        lines.append("  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip())
    return lines


@dataclass(frozen=True)
class _Layout:
    """How much a table says: in words or in marks, with long or short names, and which columns."""

    columns: tuple[str, ...]
    wide: bool
    short_kinds: bool = False

    @property
    def gap(self) -> int:
        return 2 if self.wide else 1

    def heading(self, column: str) -> str:
        return _COLUMNS[column][0 if self.wide else 1]


def _layouts() -> Iterator[_Layout]:
    """Yield layouts from the widest to the narrowest."""
    columns = tuple(_COLUMNS)
    yield _Layout(columns, wide=True)
    columns = columns[:-1]
    yield _Layout(columns, wide=True)
    yield _Layout(columns, wide=False)
    yield _Layout(columns, wide=False, short_kinds=True)
    for dropped in _DROPPED:
        columns = tuple(column for column in columns if column != dropped)
        yield _Layout(columns, wide=False)
        yield _Layout(columns, wide=False, short_kinds=True)


def _cells(row: CheckpointRow, layout: _Layout, marks: Mapping[str, str], now: int) -> dict[str, str]:
    mark = marks.get(row.status, "?")
    triggered = format_moment(row.trigger_timestamp, now)
    location = UNKNOWN if row.path is None else row.path.rstrip("/").rpartition("/")[2]
    return {
        "id": str(row.checkpoint_id),
        "kind": _SHORT_KINDS[row.kind] if layout.short_kinds else row.kind,
        "status": f"{mark} {row.status}" if layout.wide else mark,
        "triggered": triggered if layout.wide or len(triggered) <= _TIME_LENGTH else triggered[5:16],
        "duration": format_millis(now - row.trigger_timestamp if row.status == "IN_PROGRESS" else row.duration),
        "full": format_size(row.full_size),
        "incremental": format_size(row.incremental_size),
        "start_delay": format_millis(row.start_delay),
        "alignment": format_millis(row.alignment),
        "sync": format_millis(row.sync),
        "async": format_millis(row.asynchronous),
        "acknowledged": f"{row.acknowledged}/{row.subtasks}",
        "location": "(deleted)" if row.discarded else location,
    }


def table(rows: Sequence[CheckpointRow], width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width; a narrow one gets marks for words, short names, then fewer columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    now = int(time.time() * 1000) if now is None else now
    marks = _MARKS if unicode else _ASCII_MARKS
    for layout in _layouts():
        lines = [_cells(row, layout, marks, now) for row in rows]
        widths = [
            max(len(text) for text in (layout.heading(column), *(line[column] for line in lines)))
            for column in layout.columns
        ]
        if sum(widths) + layout.gap * (len(widths) - 1) <= width:
            break
    grid = Table(
        box=box.SIMPLE_HEAD if unicode else box.ASCII2,
        padding=(0, layout.gap - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for column in layout.columns:
        grid.add_column(layout.heading(column), justify="left" if column in _LEFT else "right", no_wrap=True)
    for row, line in zip(rows, lines, strict=True):
        styles = {
            "kind": "cyan" if row.is_savepoint else "",
            "status": _STYLES.get(row.status, ""),
        }
        cells = (Text(line[column], style=styles.get(column, "")) for column in layout.columns)
        grid.add_row(*cells, style="dim" if row.discarded else "")
    return grid
