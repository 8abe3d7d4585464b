"""What is measured of a checkpoint as a whole, of an operator's part and of a subtask's: the columns that tables share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pystate_cli.console.formats import format_millis, format_moment, format_size
from pystate_cli.tables.fitted_table import Column, Layout
from pystate_cli.tables.plain_columns import plain_number

_TIME_LENGTH = len("08:56:52")
STATUS_STYLES = {"COMPLETED": "green", "FAILED": "bold red", "IN_PROGRESS": "yellow"}
_MARKS = {"COMPLETED": "✓", "FAILED": "✗", "IN_PROGRESS": "…"}
_ASCII_MARKS = {"COMPLETED": "ok", "FAILED": "no", "IN_PROGRESS": ".."}

MEASURED_COLUMNS = (
    Column("full", "Full size", "Full"),
    Column("incremental", "Incremental", "Incr"),
    Column("start_delay", "Start delay", "Delay"),
    Column("alignment", "Alignment", "Align"),
    Column("sync", "Sync"),
    Column("async", "Async"),
)
MEASURED_PLAIN_COLUMNS = (
    ("full_bytes", 12),
    ("incremental_bytes", 17),
    ("start_delay_ms", 14),
    ("alignment_ms", 12),
    ("sync_ms", 7),
    ("async_ms", 8),
)


@dataclass(frozen=True)
class Measured:
    """Sizes in bytes, times in ms; None for what is not known."""

    full_size: int | None
    incremental_size: int | None
    start_delay: int | None
    alignment: int | None
    sync: int | None
    asynchronous: int | None

    @staticmethod
    def of(entry: Mapping[str, Any]) -> Measured:
        """Read them from a checkpoint, or from an operator's part of one."""
        return Measured(
            full_size=entry.get("state_size"),
            incremental_size=entry.get("checkpointed_size"),
            start_delay=entry.get("start_delay"),
            alignment=entry.get("alignment_duration"),
            sync=entry.get("sync_duration"),
            asynchronous=entry.get("async_duration"),
        )

    @staticmethod
    def of_subtask(entry: Mapping[str, Any]) -> Measured:
        """Read them from a subtask, or from one figure of all subtasks: in both they stand in Flink's nested fields."""
        durations = entry.get("checkpoint") or {}
        return Measured(
            full_size=entry.get("state_size"),
            incremental_size=entry.get("checkpointed_size"),
            start_delay=entry.get("start_delay"),
            alignment=(entry.get("alignment") or {}).get("duration"),
            sync=durations.get("sync"),
            asynchronous=durations.get("async"),
        )

    def cells(self) -> dict[str, str]:
        """Return them for people, by column."""
        return {
            "full": format_size(self.full_size),
            "incremental": format_size(self.incremental_size),
            "start_delay": format_millis(self.start_delay),
            "alignment": format_millis(self.alignment),
            "sync": format_millis(self.sync),
            "async": format_millis(self.asynchronous),
        }

    def plain(self) -> list[str]:
        """Return them for programs, in the order of the columns."""
        sizes = (self.full_size, self.incremental_size)
        return [plain_number(one) for one in (*sizes, self.start_delay, self.alignment, self.sync, self.asynchronous)]


def status_marks(*, unicode: bool) -> Mapping[str, str]:
    """Return a short mark for each status of a checkpoint."""
    return _MARKS if unicode else _ASCII_MARKS


def moment_cell(millis: int | None, layout: Layout, now: int) -> str:
    """Return an instant for a table; where there is little room without year and seconds, unless it was today."""
    text = format_moment(millis, now)
    return text if layout.wide or len(text) <= _TIME_LENGTH else text[5:16]
