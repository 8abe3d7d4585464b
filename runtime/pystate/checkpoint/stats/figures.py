"""What the subtasks of a checkpoint, or of one operator in it, say together, by the names of Flink's REST."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

from pystate.checkpoint.stats.checkpoint_stats import CheckpointStats, latest_ack
from pystate.snapshot.subtask_metrics import SubtaskCheckpointMetrics


@dataclass(frozen=True)
class Totals:
    """Sums, sizes in bytes and times in ms; UNKNOWN before the first acknowledgement. No record waits for a barrier."""

    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int


@dataclass(frozen=True)
class Slowest:
    """The largest of all subtasks, in ms; None where it isn't known of each."""

    sync_duration: int | None
    async_duration: int | None
    start_delay: int | None
    alignment_duration: int | None


SUMMARIZED = tuple(one.name for kind in (Totals, Slowest) for one in fields(kind) if one.name != "latest_ack_timestamp")
"""What there is a summary of, over all completed checkpoints."""


def totals(metrics: list[SubtaskCheckpointMetrics], duration: int) -> Totals:
    """Return the sums over subtasks.

    Args:
        metrics: Theirs.
        duration: How long it took from end to end.
    """
    return Totals(
        latest_ack_timestamp=latest_ack(metrics),
        checkpointed_size=sum(one.checkpointed_size for one in metrics),
        state_size=sum(one.state_size for one in metrics),
        end_to_end_duration=duration,
        alignment_buffered=0,
        processed_data=sum(one.processed_data for one in metrics),
        persisted_data=sum(one.persisted_data for one in metrics),
    )


def slowest(metrics: Sequence[SubtaskCheckpointMetrics]) -> Slowest:
    """Return the largest durations of subtasks."""
    return Slowest(
        sync_duration=_largest(one.sync_ms for one in metrics),
        async_duration=_largest(one.async_ms for one in metrics),
        start_delay=_largest(one.start_delay_ms for one in metrics),
        alignment_duration=_largest(one.alignment_ms for one in metrics),
    )


def _largest(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else max(known, default=None)  # type: ignore[type-var]


def summarized(stats: CheckpointStats) -> dict[str, int | None]:
    """Return what a completed checkpoint adds to the summary; None adds nothing."""
    metrics = stats.acknowledged()
    found = {**asdict(totals(metrics, max(0, stats.end_to_end_duration))), **asdict(slowest(metrics))}
    return {name: found[name] for name in SUMMARIZED}
