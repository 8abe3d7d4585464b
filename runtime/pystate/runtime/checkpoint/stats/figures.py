"""Aggregates of the metrics of subtasks, of a checkpoint or of one operator in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from pystate.runtime.checkpoint.stats.checkpoint_stats import CheckpointStats, latest_ack
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.rest.checkpoint_messages import CheckpointFigures, CheckpointsSummary

SUMMARIZED = tuple(one.name for one in fields(CheckpointsSummary))
"""The values that are summarized over all completed checkpoints."""


def figures_of(stats: CheckpointStats) -> CheckpointFigures:
    """Return the aggregates over all subtasks of a checkpoint."""
    subtasks = sum(task.num_subtasks for task in stats.tasks.values())
    return figures(stats, stats.acknowledged(), stats.end_to_end_duration, subtasks)


def figures(
    stats: CheckpointStats, metrics: Sequence[SubtaskCheckpointMetrics], duration: int, num_subtasks: int
) -> CheckpointFigures:
    """Return the aggregates over some subtasks of a checkpoint.

    Args:
        stats: The checkpoint.
        metrics: Of those that have acknowledged.
        duration: How long it took from end to end, in ms.
        num_subtasks: How many there are.
    """
    return CheckpointFigures(
        id=stats.checkpoint_id,
        status=stats.status,
        latest_ack_timestamp=latest_ack(metrics),
        checkpointed_size=sum(one.checkpointed_size for one in metrics),
        state_size=sum(one.state_size for one in metrics),
        end_to_end_duration=duration,
        alignment_buffered=sum(one.buffered_data for one in metrics),
        processed_data=sum(one.processed_data for one in metrics),
        persisted_data=sum(one.persisted_data for one in metrics),
        num_subtasks=num_subtasks,
        num_acknowledged_subtasks=len(metrics),
        sync_duration=_largest(one.sync_ms for one in metrics),
        async_duration=_largest(one.async_ms for one in metrics),
        start_delay=_largest(one.start_delay_ms for one in metrics),
        alignment_duration=_largest(one.alignment_ms for one in metrics),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else max(known, default=None)  # type: ignore[type-var]


def summarized(stats: CheckpointStats) -> dict[str, int | None]:
    """Return the values that a completed checkpoint adds to the summary; None adds nothing."""
    found = figures_of(stats)
    values = {name: getattr(found, name) for name in SUMMARIZED}
    return {**values, "end_to_end_duration": max(0, found.end_to_end_duration)}
