"""Measurements of a checkpoint, of an operator's part and of a subtask's: the columns that tables share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pystate.runtime.rest.checkpoint_messages import CheckpointFigures, CompletedSubtaskCheckpointStatistics
from pystate_cli.tables.column import Column, Row
from pystate_cli.tables.kinds import MILLIS, SIZE

STATUS_STYLES = {"COMPLETED": "green", "FAILED": "bold red", "IN_PROGRESS": "yellow"}
_MARKS = {"COMPLETED": "✓", "FAILED": "✗", "IN_PROGRESS": "…"}
_ASCII_MARKS = {"COMPLETED": "ok", "FAILED": "no", "IN_PROGRESS": ".."}


@dataclass(frozen=True)
class Measured:
    """Sizes in bytes, times in ms; None if unknown."""

    full_size: int | None
    incremental_size: int | None
    start_delay: int | None
    alignment: int | None
    sync: int | None
    asynchronous: int | None
    buffered: int | None = None
    processed: int | None = None
    persisted: int | None = None

    @staticmethod
    def of(entry: CheckpointFigures) -> Measured:
        """Read them from a checkpoint, or from an operator's part of one."""
        return Measured(
            full_size=entry.state_size,
            incremental_size=entry.checkpointed_size,
            start_delay=entry.start_delay,
            alignment=entry.alignment_duration,
            sync=entry.sync_duration,
            asynchronous=entry.async_duration,
            buffered=entry.alignment_buffered,
            processed=entry.processed_data,
            persisted=entry.persisted_data,
        )

    @staticmethod
    def of_subtask(entry: CompletedSubtaskCheckpointStatistics) -> Measured:
        """Read them from a subtask."""
        return Measured(
            full_size=entry.state_size,
            incremental_size=entry.checkpointed_size,
            start_delay=entry.start_delay,
            alignment=entry.alignment.duration,
            sync=entry.checkpoint.sync,
            asynchronous=entry.checkpoint.asynchronous,
            buffered=entry.alignment.buffered,
            processed=entry.alignment.processed,
            persisted=entry.alignment.persisted,
        )


def measured_columns(of: Callable[[Row], Measured]) -> tuple[Column[Row], ...]:
    """Return the columns of measurements; a narrow terminal leaves them out, with priorities from 3 on.

    Args:
        of: Returns the measurements of a row.
    """
    return (
        Column(
            "full", lambda row: of(row).full_size, SIZE, "Full size", "Full",
            plain="full_bytes", width=12, json="stateSize", priority=8,
        ),
        Column(
            "incremental", lambda row: of(row).incremental_size, SIZE, "Incremental", "Incr",
            plain="incremental_bytes", width=17, json="checkpointedSize", priority=7,
        ),
        Column(
            "start_delay", lambda row: of(row).start_delay, MILLIS, "Start delay", "Delay",
            plain="start_delay_ms", width=14, json="startDelay", priority=3,
        ),
        Column(
            "alignment", lambda row: of(row).alignment, MILLIS, "Alignment", "Align",
            plain="alignment_ms", width=12, json="alignmentDuration", priority=6,
        ),
        Column("sync", lambda row: of(row).sync, MILLIS, "Sync", plain="sync_ms", width=7, json="syncDuration", priority=4),
        Column(
            "async", lambda row: of(row).asynchronous, MILLIS, "Async",
            plain="async_ms", width=8, json="asyncDuration", priority=5,
        ),
        Column(
            "buffered", lambda row: of(row).buffered, SIZE, "Held back", "Held",
            plain="buffered_bytes", width=14, json="alignmentBuffered", priority=2, only_if_any=True,
        ),
        Column(
            "processed", lambda row: of(row).processed, SIZE, "Processed", "Proc",
            plain="processed_bytes", width=15, json="processedData", priority=1, only_if_any=True,
        ),
        Column(
            "persisted", lambda row: of(row).persisted, SIZE, "In flight", "Flight",
            plain="persisted_bytes", width=15, json="persistedData", priority=6, only_if_any=True,
        ),
    )  # fmt: skip


MEASURED = ("full", "incremental", "start_delay", "alignment", "sync", "async", "buffered", "processed", "persisted")
"""Their names."""


def status_marks(*, unicode: bool) -> Mapping[str, str]:
    """Return a short mark for each status of a checkpoint."""
    return _MARKS if unicode else _ASCII_MARKS
