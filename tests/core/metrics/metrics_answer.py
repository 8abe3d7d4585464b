"""What a driver answers when it is asked for its job's metrics."""

from __future__ import annotations

from typing import Any

from pystate.core.metrics.sample import MetricKind, MetricSample, counter, gauge
from pystate.core.metrics.store import DriverMetrics, OperatorLabel, SubtaskMetricStore, TaskMetricStore
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker
from tests.runtime.checkpoint.stats.tasks import COUNT

OPERATOR = "Process: count"
WATERMARKS = (-(1 << 63), 1_788_000_000_123)


def task_samples(subtask: int) -> list[MetricSample]:
    """Return samples of one subtask, other ones for each."""
    group = (("words", None), ("lang", 'e"n\\\n'))
    return [
        counter("numRecordsIn", 100 + subtask),
        gauge("numRecordsInPerSecond", 1.5 + subtask),
        gauge("lastCheckpointStateSize", 1000),
        gauge("currentInputWatermark", WATERMARKS[min(subtask, 1)]),
        MetricSample("numRecordsOut", MetricKind.COUNTER, 50, COUNT.uid),
        MetricSample("seen", MetricKind.COUNTER, 7, COUNT.uid, group),
        MetricSample("rate", MetricKind.METER, {"rate": 2.5, "count": 10}, COUNT.uid),
        MetricSample("size", MetricKind.DISTRIBUTION, {"count": 2, "sum": 6, "min": 1, "max": 5}, COUNT.uid),
        MetricSample("last word", MetricKind.GAUGE, "text", COUNT.uid),
        MetricSample("full", MetricKind.GAUGE, True, COUNT.uid),
        MetricSample("broken", MetricKind.GAUGE, float("nan"), COUNT.uid),
    ]


def driver_metrics(tracker: CheckpointStatsTracker | None = None, subtasks: int = 2) -> DriverMetrics:
    """Return what a driver with one task tells."""
    task = TaskMetricStore(
        uid=COUNT.uid,
        vertex_id=COUNT.vertex_id,
        name="count -> print",
        parallelism=subtasks,
        operators={COUNT.uid: OperatorLabel(COUNT.vertex_id, OPERATOR)},
        subtasks=[SubtaskMetricStore(index, "worker-1", task_samples(index)) for index in range(subtasks)],
    )
    job = [counter("numberOfFinishedEpochs", 3), gauge("lastFinishedEpoch", 12), gauge("lastEpochDuration", 340)]
    return DriverMetrics(job, (tracker or CheckpointStatsTracker(10, lambda: 0)).samples(), [task])


def metrics_answer(tracker: CheckpointStatsTracker | None = None, subtasks: int = 2) -> dict[str, Any]:
    """Return the same as the driver answers with it."""
    return driver_metrics(tracker, subtasks).to_plain()
