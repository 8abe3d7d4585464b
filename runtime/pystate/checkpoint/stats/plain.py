"""Checkpoints' statistics as plain data, for the file that the next driver, and the job manager, read.

The subtasks of an operator are written in columns, and a column of one value over and over is that value: of a thousand
subtasks most figures are the same or short. Times of acknowledgements count from the trigger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from pystate.checkpoint.plain import as_map, take, take_enum, take_int, take_list, take_optional_text, take_text, unsound
from pystate.checkpoint.stats.checkpoint_stats import (
    CheckpointStats,
    CheckpointStatsStatus,
    RestoredCheckpointStats,
    SubtaskCheckpointMetrics,
    TaskStateStats,
)

_TIME = "ack_timestamp"
_COLUMNS = tuple(one.name for one in fields(SubtaskCheckpointMetrics))
_MAX_SUBTASKS = 1 << 15


def _packed(values: Iterable[int | None]) -> Any:
    column = list(values)
    return column[0] if column and all(value == column[0] for value in column) else column


def _unpacked(plain: dict[Any, Any], name: str, length: int) -> list[Any]:
    value = take(plain, name)
    column = value if isinstance(value, list) else [value] * length
    if len(column) != length or not all(type(one) is int or (one is None and name == "alignment_ms") for one in column):
        raise unsound(what=f"the column {name!r} of a task's subtasks does not hold {length} numbers")
    return column


def checkpoint_to_plain(stats: CheckpointStats) -> dict[str, Any]:
    """Return one checkpoint."""
    return {
        "id": stats.checkpoint_id,
        "is_savepoint": stats.is_savepoint,
        "savepoint_format": stats.savepoint_format,
        "trigger_timestamp": stats.trigger_timestamp,
        "status": stats.status.value,
        "epoch": stats.epoch,
        "path": stats.path,
        "discarded": stats.discarded,
        "failure_timestamp": stats.failure_timestamp,
        "failure_message": stats.failure_message,
        "restore_timestamp": stats.restore_timestamp,
        "tasks": [_task_to_plain(task, stats.trigger_timestamp) for task in stats.tasks.values()],
    }


def checkpoint_from_plain(plain: object) -> CheckpointStats:
    """Rebuild one checkpoint.

    Raises:
        CorruptSnapshotError: It isn't one.
    """
    data = as_map(plain, "the statistics of a checkpoint")
    triggered = take_int(data, "trigger_timestamp")
    tasks = take_list(data, "tasks", lambda task: _task_from_plain(task, triggered))
    return CheckpointStats(
        checkpoint_id=take_int(data, "id"),
        is_savepoint=bool(take(data, "is_savepoint")),
        savepoint_format=take_optional_text(data, "savepoint_format"),
        trigger_timestamp=triggered,
        tasks={task.uid: task for task in tasks},
        status=take_enum(data, "status", CheckpointStatsStatus),
        epoch=None if take(data, "epoch") is None else take_int(data, "epoch", -1),
        path=take_optional_text(data, "path"),
        discarded=bool(take(data, "discarded")),
        failure_timestamp=take_int(data, "failure_timestamp"),
        failure_message=take_optional_text(data, "failure_message"),
        restore_timestamp=None if take(data, "restore_timestamp") is None else take_int(data, "restore_timestamp"),
    )


def _task_to_plain(task: TaskStateStats, triggered: int) -> dict[str, Any]:
    indices = sorted(task.subtasks)
    metrics = [task.subtasks[index] for index in indices]
    columns = {name: _packed(getattr(one, name) for one in metrics) for name in _COLUMNS if name != _TIME}
    return {
        "uid": task.uid,
        "vertex_id": task.vertex_id,
        "name": task.name,
        "num_subtasks": task.num_subtasks,
        "acknowledged": "all" if len(indices) == task.num_subtasks else indices,
        _TIME: _packed(one.ack_timestamp - triggered for one in metrics),
        **columns,
    }


def _task_from_plain(plain: object, triggered: int) -> TaskStateStats:
    data = as_map(plain, "the statistics of a task")
    count = take_int(data, "num_subtasks", 0, _MAX_SUBTASKS)
    if take(data, "acknowledged") == "all":
        indices = list(range(count))
    else:
        indices = take_list(data, "acknowledged", lambda index: take_int({"subtask": index}, "subtask", 0, count - 1))
    columns = {name: _unpacked(data, name, len(indices)) for name in _COLUMNS}
    columns[_TIME] = [triggered + after for after in columns[_TIME]]
    rows = zip(*columns.values(), strict=True)
    return TaskStateStats(
        uid=take_text(data, "uid"),
        vertex_id=take_text(data, "vertex_id"),
        name=take_text(data, "name"),
        num_subtasks=count,
        subtasks={
            index: SubtaskCheckpointMetrics(**dict(zip(columns, row, strict=True)))
            for index, row in zip(indices, rows, strict=True)
        },
    )


def restored_from_plain(plain: object) -> RestoredCheckpointStats | None:
    """Rebuild the last restore; None where there was none.

    Raises:
        CorruptSnapshotError: It isn't one.
    """
    if plain is None:
        return None
    data = as_map(plain, "the last restore")
    return RestoredCheckpointStats(
        checkpoint_id=take_int(data, "checkpoint_id"),
        restore_timestamp=take_int(data, "restore_timestamp"),
        is_savepoint=bool(take(data, "is_savepoint")),
        path=take_text(data, "path"),
    )
