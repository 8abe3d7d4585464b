"""The metrics of a job's checkpoints."""

from __future__ import annotations

from pystate.core.metrics.sample import MetricSample, counter, gauge
from pystate.runtime.checkpoint.stats.checkpoint_stats import UNKNOWN
from pystate.runtime.checkpoint.stats.stats_snapshot import CheckpointStatsSnapshot
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics

_NS = 1_000_000


def checkpoint_samples(snapshot: CheckpointStatsSnapshot) -> list[MetricSample]:
    """Return the metrics of a job from its checkpoint statistics; -1, as in Flink, for values that don't exist yet."""
    counts, last, restored = snapshot.counts, snapshot.latest_completed, snapshot.restored
    sums = None if last is None else last.figures
    return [
        counter("totalNumberOfCheckpoints", counts.total),
        counter("numberOfCompletedCheckpoints", counts.completed),
        counter("numberOfFailedCheckpoints", counts.failed),
        gauge("numberOfInProgressCheckpoints", counts.in_progress),
        gauge("lastCompletedCheckpointId", UNKNOWN if last is None else last.checkpoint_id),
        gauge("lastCheckpointDuration", UNKNOWN if sums is None else sums.end_to_end_duration),
        gauge("lastCheckpointSize", UNKNOWN if sums is None else sums.checkpointed_size),
        gauge("lastCheckpointFullSize", UNKNOWN if sums is None else sums.state_size),
        gauge("lastCheckpointAlignmentBuffered", UNKNOWN if sums is None else sums.alignment_buffered),
        gauge("lastCheckpointProcessedData", UNKNOWN if sums is None else sums.processed_data),
        gauge("lastCheckpointPersistedData", UNKNOWN if sums is None else sums.persisted_data),
        gauge("lastCheckpointCompletedTimestamp", UNKNOWN if sums is None else sums.latest_ack_timestamp),
        gauge("lastCheckpointExternalPath", (None if last is None else last.path) or "n/a"),
        gauge("lastCheckpointRestoreTimestamp", UNKNOWN if restored is None else restored.restore_timestamp),
    ]


def subtask_samples(metrics: SubtaskCheckpointMetrics) -> list[MetricSample]:
    """Return the metrics of a subtask from its part of the last completed checkpoint."""
    alignment_ms = metrics.alignment_ms
    return [
        gauge("checkpointStartDelayNanos", metrics.start_delay_ms * _NS),
        *([] if alignment_ms is None else [gauge("checkpointAlignmentTime", alignment_ms * _NS)]),
        gauge("lastCheckpointStateSize", metrics.state_size),
    ]
