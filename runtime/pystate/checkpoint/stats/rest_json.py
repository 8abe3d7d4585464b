"""Checkpoint statistics as the JSON of Flink's REST, with some fields of ours.

Ours: in a checkpoint `epoch`, `path` and `restore_timestamp` (None where the job was not restored from it); in an operator
`uid` and `name`; in both, and in the summary, the largest of all subtasks of `sync_duration`, `async_duration`,
`start_delay`, `alignment_duration`, None where unknown. Flink's buffered data is always 0: no record waits anywhere for a
barrier.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from pystate.checkpoint.stats.checkpoint_stats import (
    UNKNOWN,
    CheckpointStats,
    CompletedCheckpointStats,
    FailedCheckpointStats,
    PendingCheckpointStats,
    RestoredCheckpointStats,
    TaskStateStats,
    latest_ack,
)
from pystate.checkpoint.stats.figures import slowest, totals
from pystate.checkpoint.stats.snapshot import CheckpointStatsSnapshot
from pystate.checkpoint.stats.summary import StatsSummary
from pystate.snapshot.subtask_metrics import SubtaskCheckpointMetrics


def overview(snapshot: CheckpointStatsSnapshot) -> dict[str, Any]:
    """Return the answer to `GET /jobs/:id/checkpoints`."""
    latest = {kind: None if stats is None else checkpoint(stats) for kind, stats in snapshot.latest.items()}
    return {
        "counts": asdict(snapshot.counts),
        "summary": {name: summary.to_rest() for name, summary in snapshot.summaries.items()},
        "latest": {**latest, "restored": None if snapshot.restored is None else _restored(snapshot.restored)},
        "history": [checkpoint(stats) for stats in snapshot.history],
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
    return {
        "className": stats.status.value.lower(),
        "id": stats.checkpoint_id,
        "status": stats.status.value,
        "is_savepoint": stats.is_savepoint,
        "savepointFormat": stats.savepoint_format,
        "trigger_timestamp": stats.trigger_timestamp,
        **asdict(totals(metrics, stats.end_to_end_duration)),
        "num_subtasks": sum(task.num_subtasks for task in stats.tasks.values()),
        "num_acknowledged_subtasks": len(metrics),
        "checkpoint_type": "SAVEPOINT" if stats.is_savepoint else "CHECKPOINT",
        "tasks": {task.vertex_id: _task(stats, task) for task in stats.tasks.values()} if with_tasks else {},
        **_of_its_kind(stats),
        "epoch": stats.epoch,
        "path": stats.path,
        "restore_timestamp": stats.restore_timestamp,
        **asdict(slowest(metrics)),
    }


def _of_its_kind(stats: CheckpointStats) -> dict[str, Any]:
    if isinstance(stats, CompletedCheckpointStats):
        return {"external_path": stats.path, "discarded": stats.discarded}
    if isinstance(stats, FailedCheckpointStats):
        return {"failure_timestamp": stats.failure_timestamp, "failure_message": stats.failure_message}
    if isinstance(stats, PendingCheckpointStats) and stats.waits_for_epoch is not None:
        return {"waits_for_epoch": stats.waits_for_epoch, "waits_since": stats.waits_since}
    return {}


def _task(stats: CheckpointStats, task: TaskStateStats) -> dict[str, Any]:
    metrics = list(task.subtasks.values())
    return {
        "id": stats.checkpoint_id,
        "status": stats.status.value,
        **asdict(totals(metrics, stats.duration_until(latest_ack(metrics)))),
        "num_subtasks": task.num_subtasks,
        "num_acknowledged_subtasks": len(metrics),
        "uid": task.uid,
        "name": task.name,
        **asdict(slowest(metrics)),
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
        collected = StatsSummary.of(values)
        # Flink gives no percentiles here at all; those of a single subtask would say nothing.
        return collected.to_rest(percentiles=collected.count > 1)

    nothing = {"min": 0, "max": 0, "avg": 0, "p50": 0.0, "p90": 0.0, "p95": 0.0, "p99": 0.0, "p999": 0.0}
    return {
        "checkpointed_size": summary(one.checkpointed_size for one in metrics),
        "state_size": summary(one.state_size for one in metrics),
        "end_to_end_duration": summary(stats.duration_until(one.ack_timestamp) for one in metrics),
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


def _subtask(stats: CheckpointStats, index: int, metrics: SubtaskCheckpointMetrics | None) -> dict[str, Any]:
    if metrics is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    return {
        "className": "completed",
        "index": index,
        "ack_timestamp": metrics.ack_timestamp,
        "end_to_end_duration": stats.duration_until(metrics.ack_timestamp),
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
