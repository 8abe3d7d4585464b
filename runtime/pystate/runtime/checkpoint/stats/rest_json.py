"""Checkpoint statistics as REST answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from pystate.runtime.checkpoint.stats.checkpoint_stats import (
    UNKNOWN,
    CheckpointStats,
    CompletedCheckpointStats,
    FailedCheckpointStats,
    PendingCheckpointStats,
    RestoredCheckpointStats,
    TaskStateStats,
    latest_ack,
)
from pystate.runtime.checkpoint.stats.stats_snapshot import CheckpointStatsSnapshot
from pystate.runtime.checkpoint.stats.stats_summary import StatsSummary
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.rest.checkpoint_messages import (
    CheckpointAlignment,
    CheckpointAlignmentSummary,
    CheckpointCounts,
    CheckpointDuration,
    CheckpointDurationSummary,
    CheckpointingStatistics,
    CheckpointKind,
    CheckpointsSummary,
    CheckpointStatistics,
    CompletedSubtaskCheckpointStatistics,
    LatestCheckpoints,
    PendingSubtaskCheckpointStatistics,
    RestoredCheckpointStatistics,
    StatsSummaryDto,
    TaskCheckpointStatistics,
    TaskCheckpointStatisticsWithSubtaskDetails,
    TaskCheckpointSummary,
)


def overview(
    snapshot: CheckpointStatsSnapshot, limit: int | None = None, before: int | None = None
) -> CheckpointingStatistics:
    """Return the answer to `GET /jobs/:id/checkpoints`.

    Args:
        snapshot: The statistics.
        limit: How many checkpoints are listed, the newest first; None for all.
        before: Only those with a lower id are; None for all.
    """
    history = [stats for stats in snapshot.history if before is None or stats.checkpoint_id < before]
    latest = {kind: None if stats is None else checkpoint(stats) for kind, stats in snapshot.latest.items()}
    return CheckpointingStatistics(
        counts=CheckpointCounts(**asdict(snapshot.counts)),
        summary=CheckpointsSummary(**{name: summary.to_rest() for name, summary in snapshot.summaries.items()}),
        latest=LatestCheckpoints(**latest, restored=None if snapshot.restored is None else _restored(snapshot.restored)),
        history=[checkpoint(stats) for stats in history[:limit]],
    )


def _restored(restored: RestoredCheckpointStats) -> RestoredCheckpointStatistics:
    return RestoredCheckpointStatistics(
        id=restored.checkpoint_id,
        restore_timestamp=restored.restore_timestamp,
        is_savepoint=restored.is_savepoint,
        external_path=restored.path,
    )


def checkpoint(stats: CheckpointStats, *, with_tasks: bool = False) -> CheckpointStatistics:
    """Return one checkpoint."""
    common = CheckpointStatistics(
        **vars(stats.figures),
        class_name="in_progress",
        is_savepoint=stats.is_savepoint,
        savepoint_format=stats.savepoint_format,
        trigger_timestamp=stats.trigger_timestamp,
        checkpoint_type=_type(stats),
        tasks={task.vertex_id: _task_with_last(stats, task) for task in stats.tasks.values()} if with_tasks else {},
        epoch=stats.epoch,
        path=stats.path,
        restore_timestamp=stats.restore_timestamp,
    )
    if isinstance(stats, CompletedCheckpointStats):
        return replace(
            common,
            class_name="completed",
            external_path=stats.path,
            discarded=stats.discarded,
            completion_timestamp=stats.completion_timestamp,
            notification_timestamp=stats.notification_timestamp,
        )
    if isinstance(stats, FailedCheckpointStats):
        return replace(
            common,
            class_name="failed",
            failure_timestamp=stats.failure_timestamp,
            failure_message=stats.failure_message,
            failure_reason=stats.failure_reason,
        )
    if isinstance(stats, PendingCheckpointStats) and stats.waits_for_epoch is not None:
        return replace(common, waits_for_epoch=stats.waits_for_epoch, waits_since=stats.waits_since)
    return common


def _type(stats: CheckpointStats) -> CheckpointKind:
    if stats.is_savepoint:
        return "SAVEPOINT"
    return "UNALIGNED_CHECKPOINT" if stats.is_unaligned else "CHECKPOINT"


def _task(stats: CheckpointStats, task: TaskStateStats) -> TaskCheckpointStatistics:
    found = stats.figures_of([task], stats.duration_until(latest_ack([task])))
    return TaskCheckpointStatistics(**vars(found), uid=task.uid, name=task.name)


def _task_with_last(stats: CheckpointStats, task: TaskStateStats) -> TaskCheckpointStatistics:
    last = task.last_subtask
    told = None if last is None else _acknowledged(stats, last, task.subtasks[last])
    return replace(_task(stats, task), last_subtask=told)


def task_with_subtasks(stats: CheckpointStats, task: TaskStateStats) -> TaskCheckpointStatisticsWithSubtaskDetails:
    """Return one operator's part of a checkpoint, subtask by subtask."""
    return TaskCheckpointStatisticsWithSubtaskDetails(
        **vars(_task(stats, task)),
        summary=_task_summary(stats, list(task.subtasks.values())),
        subtasks=[_subtask(stats, index, task.subtasks.get(index)) for index in range(task.num_subtasks)],
    )


def _task_summary(stats: CheckpointStats, metrics: list[SubtaskCheckpointMetrics]) -> TaskCheckpointSummary:
    def summary(values: Iterable[int]) -> StatsSummaryDto:
        collected = StatsSummary.of(values)
        # Flink gives no percentiles here at all; those of a single subtask would be meaningless.
        return collected.to_rest(percentiles=collected.count > 1)

    return TaskCheckpointSummary(
        checkpointed_size=summary(one.checkpointed_size for one in metrics),
        state_size=summary(one.state_size for one in metrics),
        end_to_end_duration=summary(stats.duration_until(one.ack_timestamp) for one in metrics),
        checkpoint_duration=CheckpointDurationSummary(
            sync=summary(one.sync_ms for one in metrics), asynchronous=summary(one.async_ms for one in metrics)
        ),
        alignment=CheckpointAlignmentSummary(
            buffered=summary(one.buffered_data for one in metrics),
            processed=summary(one.processed_data for one in metrics),
            persisted=summary(one.persisted_data for one in metrics),
            duration=summary(one.alignment_ms for one in metrics if one.alignment_ms is not None),
        ),
        start_delay=summary(one.start_delay_ms for one in metrics),
    )


def _subtask(
    stats: CheckpointStats, index: int, metrics: SubtaskCheckpointMetrics | None
) -> CompletedSubtaskCheckpointStatistics | PendingSubtaskCheckpointStatistics:
    return PendingSubtaskCheckpointStatistics(index=index) if metrics is None else _acknowledged(stats, index, metrics)


def _acknowledged(
    stats: CheckpointStats, index: int, metrics: SubtaskCheckpointMetrics
) -> CompletedSubtaskCheckpointStatistics:
    return CompletedSubtaskCheckpointStatistics(
        index=index,
        ack_timestamp=metrics.ack_timestamp,
        end_to_end_duration=stats.duration_until(metrics.ack_timestamp),
        checkpointed_size=metrics.checkpointed_size,
        state_size=metrics.state_size,
        checkpoint=CheckpointDuration(sync=metrics.sync_ms, asynchronous=metrics.async_ms),
        alignment=CheckpointAlignment(
            buffered=metrics.buffered_data,
            processed=metrics.processed_data,
            persisted=metrics.persisted_data,
            duration=UNKNOWN if metrics.alignment_ms is None else metrics.alignment_ms,
        ),
        start_delay=metrics.start_delay_ms,
        unaligned_checkpoint=metrics.unaligned > 0,
    )
