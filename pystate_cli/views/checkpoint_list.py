"""The list of a job's checkpoints and savepoints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystate_cli.formats import UNKNOWN, format_iso, format_millis, format_moment, format_size

if TYPE_CHECKING:
    from rich.console import RenderableType

_NARROW = 74
_WIDE = 120
_WITH_LOCATION = 150
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
    ("size_bytes", 12),
    ("start_delay_ms", 14),
    ("alignment_ms", 12),
    ("sync_ms", 7),
    ("async_ms", 8),
    ("acknowledged", 12),
    ("path", 0),
)


@dataclass(frozen=True)
class CheckpointRow:
    """One checkpoint or savepoint. Times in ms, sizes in bytes, None for what is not known."""

    checkpoint_id: int
    is_savepoint: bool
    status: str
    trigger_timestamp: int
    duration: int | None
    size: int | None
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
            size=entry.get("checkpointed_size"),
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
        numbers = (row.duration, row.size, row.start_delay, row.alignment, row.sync, row.asynchronous)
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


def table(rows: Sequence[CheckpointRow], width: int, *, unicode: bool, now: int | None = None) -> RenderableType:
    """Return the table for a terminal of that width; a narrow one gets marks for words and shorter headings."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    now = int(time.time() * 1000) if now is None else now
    wide = width >= _WIDE
    grid = Table(
        box=box.SIMPLE_HEAD if unicode else box.ASCII2,
        padding=(0, 1, 0, 0) if wide else 0,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    names = ("Start delay", "Alignment", "Sync", "Async", "Acknowledged")
    short = ("Delay", "Align", "Sync", "Async", "Ack")
    grid.add_column("ID", justify="right", no_wrap=True)
    grid.add_column("Kind", no_wrap=True)
    grid.add_column("Status" if wide else "", no_wrap=True)
    shown = names if wide else short if width >= _NARROW else short[-1:]
    for name in ("Triggered", "Duration", "Size", *shown):
        grid.add_column(name, justify="right", no_wrap=True)
    if width >= _WITH_LOCATION:
        grid.add_column("Location", no_wrap=True, overflow="ellipsis")
    marks = _MARKS if unicode else _ASCII_MARKS
    for row in rows:
        style = _STYLES.get(row.status, "")
        mark = marks.get(row.status, "?")
        triggered = format_moment(row.trigger_timestamp, now)
        parts = (row.start_delay, row.alignment, row.sync, row.asynchronous)
        cells: list[Text | str] = [
            str(row.checkpoint_id),
            Text(row.kind, style="cyan" if row.is_savepoint else ""),
            Text(f"{mark} {row.status}" if wide else mark, style=style),
            triggered if wide or len(triggered) <= _TIME_LENGTH else triggered[5:16],
            format_millis(now - row.trigger_timestamp if row.status == "IN_PROGRESS" else row.duration),
            format_size(row.size),
            *(format_millis(millis) for millis in parts if width >= _NARROW),
            f"{row.acknowledged}/{row.subtasks}",
        ]
        if width >= _WITH_LOCATION:
            location = UNKNOWN if row.path is None else row.path.rstrip("/").rpartition("/")[2]
            cells.append(Text("(deleted)" if row.discarded else location, style="dim" if row.discarded else ""))
        grid.add_row(*cells, style="dim" if row.discarded else "")
    return grid
