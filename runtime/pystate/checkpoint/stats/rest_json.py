"""Checkpoint statistics as the JSON of Flink's REST, with some fields of ours.

Ours: in a checkpoint `epoch`, `path` and `restore_timestamp` (None where the job was not restored from it); in an operator
`uid` and `name`; in both, and in the summary, the largest of all subtasks of `sync_duration`, `async_duration`,
`start_delay`, `alignment_duration`, None where unknown. Flink's buffered data is always 0: no record waits anywhere for a
barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pystate.checkpoint.stats.summary import StatsSummary

if TYPE_CHECKING:
    from pystate.checkpoint.stats.checkpoint_stats import (
        CheckpointStats,
        RestoredCheckpointStats,
        SubtaskCheckpointMetrics,
        TaskStateStats,
    )

UNKNOWN = -1
"""What stands where Flink wants a number and there is none."""


def _total(metrics: Iterable[SubtaskCheckpointMetrics], size: Callable[[SubtaskCheckpointMetrics], int]) -> int:
    return sum(size(one) for one in metrics)


def _latest_ack(metrics: Iterable[SubtaskCheckpointMetrics]) -> int:
    return max((one.ack_timestamp for one in metrics), default=UNKNOWN)


def _duration(stats: CheckpointStats, latest_ack: int) -> int:
    if stats.status.value == "FAILED":
        return max(0, stats.failure_timestamp - stats.trigger_timestamp)
    return UNKNOWN if latest_ack == UNKNOWN else max(0, latest_ack - stats.trigger_timestamp)


def _slowest(metrics: Sequence[SubtaskCheckpointMetrics]) -> dict[str, int | None]:
    alignments = [one.alignment_ms for one in metrics if one.alignment_ms is not None]
    return {
        "sync_duration": max((one.sync_ms for one in metrics), default=None),
        "async_duration": max((one.async_ms for one in metrics), default=None),
        "start_delay": max((one.start_delay_ms for one in metrics), default=None),
        "alignment_duration": max(alignments) if alignments and len(alignments) == len(metrics) else None,
    }


SUMMARY_FIELDS: dict[str, Callable[[CheckpointStats], int | None]] = {
    "checkpointed_size": lambda stats: _total(stats.acknowledged(), lambda one: one.checkpointed_size),
    "state_size": lambda stats: _total(stats.acknowledged(), lambda one: one.state_size),
    "end_to_end_duration": lambda stats: max(0, _duration(stats, _latest_ack(stats.acknowledged()))),
    "alignment_buffered": lambda stats: 0,
    "processed_data": lambda stats: _total(stats.acknowledged(), lambda one: one.processed_data),
    "persisted_data": lambda stats: _total(stats.acknowledged(), lambda one: one.persisted_data),
    "sync_duration": lambda stats: _slowest(stats.acknowledged())["sync_duration"],
    "async_duration": lambda stats: _slowest(stats.acknowledged())["async_duration"],
    "start_delay": lambda stats: _slowest(stats.acknowledged())["start_delay"],
    "alignment_duration": lambda stats: _slowest(stats.acknowledged())["alignment_duration"],
}
"""What the summary is made of, and how it is taken from a completed checkpoint; None counts for nothing."""


def overview(
    counts: dict[str, int],
    summary: dict[str, Any],
    completed: CheckpointStats | None,
    savepoint: CheckpointStats | None,
    failed: CheckpointStats | None,
    restored: RestoredCheckpointStats | None,
    history: list[CheckpointStats],
) -> dict[str, Any]:
    """Return the answer to `GET /jobs/:id/checkpoints`."""
    return {
        "counts": counts,
        "summary": summary,
        "latest": {
            "completed": None if completed is None else checkpoint(completed),
            "savepoint": None if savepoint is None else checkpoint(savepoint),
            "failed": None if failed is None else checkpoint(failed),
            "restored": None if restored is None else _restored(restored),
        },
        "history": [checkpoint(stats) for stats in history],
    }


def _restored(restored: RestoredCheckpointStats) -> dict[str, Any]:
    return {
        "id": restored.checkpoint_id,
        "restore_timestamp": restored.restore_timestamp,
        "is_savepoint": restored.is_savepoint,
        "external_path": restored.path,
    }


def checkpoint(stats: CheckpointStats, *, with_tasks: bool = False) -> dict[str, Any]:
    """Return one checkpoint."""
    metrics = stats.acknowledged()
    result = {
        "className": stats.status.value.lower(),
        "id": stats.checkpoint_id,
        "status": stats.status.value,
        "is_savepoint": stats.is_savepoint,
        "savepointFormat": stats.savepoint_format,
        "trigger_timestamp": stats.trigger_timestamp,
        **_sums(stats, metrics),
        "num_subtasks": sum(task.num_subtasks for task in stats.tasks.values()),
        "num_acknowledged_subtasks": len(metrics),
        "checkpoint_type": "SAVEPOINT" if stats.is_savepoint else "CHECKPOINT",
        "tasks": {task.vertex_id: _task(stats, task) for task in stats.tasks.values()} if with_tasks else {},
    }
    if stats.status.value == "COMPLETED":
        result |= {"external_path": stats.path, "discarded": stats.discarded}
    elif stats.status.value == "FAILED":
        result |= {"failure_timestamp": stats.failure_timestamp, "failure_message": stats.failure_message}
    elif stats.waits_for_epoch is not None:
        result |= {"waits_for_epoch": stats.waits_for_epoch, "waits_since": stats.waits_since}
    return result | {
        "epoch": stats.epoch,
        "path": stats.path,
        "restore_timestamp": stats.restore_timestamp,
        **_slowest(metrics),
    }


def _sums(stats: CheckpointStats, metrics: list[SubtaskCheckpointMetrics]) -> dict[str, int]:
    latest_ack = _latest_ack(metrics)
    return {
        "latest_ack_timestamp": latest_ack,
        "checkpointed_size": _total(metrics, lambda one: one.checkpointed_size),
        "state_size": _total(metrics, lambda one: one.state_size),
        "end_to_end_duration": _duration(stats, latest_ack),
        "alignment_buffered": 0,
        "processed_data": _total(metrics, lambda one: one.processed_data),
        "persisted_data": _total(metrics, lambda one: one.persisted_data),
    }


def _task(stats: CheckpointStats, task: TaskStateStats) -> dict[str, Any]:
    metrics = list(task.subtasks.values())
    sums = _sums(stats, metrics)
    latest_ack = sums["latest_ack_timestamp"]
    sums["end_to_end_duration"] = UNKNOWN if latest_ack == UNKNOWN else max(0, latest_ack - stats.trigger_timestamp)
    return {
        "id": stats.checkpoint_id,
        "status": stats.status.value,
        **sums,
        "num_subtasks": task.num_subtasks,
        "num_acknowledged_subtasks": len(metrics),
        "uid": task.uid,
        "name": task.name,
        **_slowest(metrics),
    }


def task_with_subtasks(stats: CheckpointStats, task: TaskStateStats) -> dict[str, Any]:
    """Return one operator's part of a checkpoint, subtask by subtask."""
    return {
        **_task(stats, task),
        "summary": _task_summary(stats, list(task.subtasks.values())),
        "subtasks": [_subtask(stats, index, task.subtasks.get(index)) for index in range(task.num_subtasks)],
    }


def _task_summary(stats: CheckpointStats, metrics: list[SubtaskCheckpointMetrics]) -> dict[str, Any]:
    def summary(values: Iterable[int]) -> dict[str, int | float | str]:
        collected = StatsSummary(values)
        # Flink gives no percentiles here at all; those of a single subtask would say nothing.
        return collected.to_rest(percentiles=collected.count > 1)

    nothing = {"min": 0, "max": 0, "avg": 0, "p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "p999": 0.0}
    return {
        "checkpointed_size": summary(one.checkpointed_size for one in metrics),
        "state_size": summary(one.state_size for one in metrics),
        "end_to_end_duration": summary(_subtask_duration(stats, one) for one in metrics),
        "checkpoint_duration": {
            "sync": summary(one.sync_ms for one in metrics),
            "async": summary(one.async_ms for one in metrics),
        },
        "alignment": {
            "buffered": nothing,
            "processed": summary(one.processed_data for one in metrics),
            "persisted": summary(one.persisted_data for one in metrics),
            "duration": summary(one.alignment_ms for one in metrics if one.alignment_ms is not None),
        },
        "start_delay": summary(one.start_delay_ms for one in metrics),
    }


def _subtask_duration(stats: CheckpointStats, metrics: SubtaskCheckpointMetrics) -> int:
    return max(0, metrics.ack_timestamp - stats.trigger_timestamp)


def _subtask(stats: CheckpointStats, index: int, metrics: SubtaskCheckpointMetrics | None) -> dict[str, Any]:
    if metrics is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "ack_timestamp": metrics.ack_timestamp,
        "end_to_end_duration": _subtask_duration(stats, metrics),
        "checkpointed_size": metrics.checkpointed_size,
        "state_size": metrics.state_size,
        "checkpoint": {"sync": metrics.sync_ms, "async": metrics.async_ms},
        "alignment": {
            "buffered": 0,
            "processed": metrics.processed_data,
            "persisted": metrics.persisted_data,
            "duration": UNKNOWN if metrics.alignment_ms is None else metrics.alignment_ms,
        },
        "start_delay": metrics.start_delay_ms,
        "unaligned_checkpoint": False,
        "aborted": False,
        "status": "completed",
    }
