"""The metrics of a job in its driver."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pystate.checkpoint.stats.tracker import CheckpointStatsTracker
from pystate.metrics.io_figures import bytes_and_times
from pystate.metrics.sample import MetricSample, counter, gauge
from pystate.metrics.slot_metrics import SlotMetrics
from pystate.metrics.store import DriverMetrics, OperatorLabel, SubtaskMetricStore, TaskMetricStore
from pystate.plan.chain import OperatorSpec
from pystate.plan.job_plan import JobPlan, vertex_id
from pystate.plan.task import TaskSpec
from pystate.spark.source_metrics import SourceMetrics

if TYPE_CHECKING:
    from pyspark import SparkContext

_RECENT_EPOCHS = 120


class JobMetrics:
    """The metrics of one job in one driver.

    Args:
        context: Spark's.
        clock: Monotonic seconds.

    Attributes:
        slots: What the slots report.
        sources: What the stateless stages in front of the slots report.
    """

    def __init__(self, context: SparkContext, clock: Callable[[], float] = time.monotonic) -> None:
        self.slots = SlotMetrics()
        self.sources = SourceMetrics(context, clock)
        self._clock = clock
        self._lock = threading.Lock()
        self._plan: JobPlan | None = None
        self._begun = 0.0
        self._epochs = 0
        self._last_epoch = -1
        self._last_duration_ms = -1
        self._running = False
        self._recent_ms: deque[int] = deque(maxlen=_RECENT_EPOCHS)

    def describe(self, plan: JobPlan) -> None:
        """Take note of what the job consists of."""
        self._plan = plan

    def epoch_begun(self) -> None:
        """Take note that an epoch begins."""
        with self._lock:
            self._begun, self._running = self._clock(), True

    def attempt_over(self) -> None:
        """Take note that the epoch that runs, if one does, will not end."""
        with self._lock:
            self._running = False

    def epoch_times(self) -> dict[str, Any]:
        """Return `epoch_durations`, of the last epochs in ms, and `epoch_running`, for how many ms the next one runs."""
        with self._lock:
            running = int((self._clock() - self._begun) * 1000) if self._running else None
            return {"epoch_durations": list(self._recent_ms), "epoch_running": running}

    def epoch_finished(self, epoch: int) -> None:
        """Take note that all subtasks and sinks are done with an epoch."""
        with self._lock:
            self._epochs += 1
            self._last_epoch = epoch
            self._last_duration_ms = int((self._clock() - self._begun) * 1000)
            self._recent_ms.append(self._last_duration_ms)
            self._running = False
        self.sources.samples()  # rates are taken from look to look

    def io(self, uid: str) -> dict[str, int]:
        """Return what all subtasks of a task have read, written and done, by the names of a vertex in REST."""
        task = None if self._plan is None else self._plan.task(uid)
        indices = range(0 if task is None else task.parallelism)
        return bytes_and_times(sample for index in indices for sample in self.slots.of(uid, index).samples)

    def collect(self, statistics: CheckpointStatsTracker) -> DriverMetrics:
        """Return everything.

        Args:
            statistics: Those of the job's checkpoints.
        """
        tasks = [] if self._plan is None else self._tasks(self._plan, statistics.state_sizes())
        return DriverMetrics(self._job(), statistics.samples(), tasks)

    def _job(self) -> list[MetricSample]:
        with self._lock:
            return [
                counter("numberOfFinishedEpochs", self._epochs),
                gauge("lastFinishedEpoch", self._last_epoch),
                gauge("lastEpochDuration", self._last_duration_ms),
            ]

    def _tasks(self, plan: JobPlan, sizes: Mapping[tuple[str, int], int]) -> list[TaskMetricStore]:
        gathered: dict[str, list[SubtaskMetricStore]] = {}
        for (uid, subtask), samples in self.sources.samples().items():
            gathered.setdefault(uid, []).append(SubtaskMetricStore(subtask, None, samples))
        sources = [
            _store(source.uid, f"Source: {source.step.name}", plan.parallelism, operators, gathered.get(source.uid, []))
            for source in plan.sources
            if (operators := [] if source.chain is None else source.chain.all_operators()) or source.uid in gathered
        ]
        tasks = [
            _store(
                task.uid,
                task.name,
                task.parallelism,
                task.operators,
                [self._subtask(task, index, sizes) for index in range(task.parallelism)],
            )
            for task in plan.tasks
        ]
        return sources + tasks

    def _subtask(self, task: TaskSpec, index: int, sizes: Mapping[tuple[str, int], int]) -> SubtaskMetricStore:
        told = self.slots.of(task.uid, index)
        if (task.uid, index) not in sizes:
            return told
        return replace(told, samples=[*told.samples, gauge("lastCheckpointStateSize", sizes[task.uid, index])])


def _store(
    uid: str, name: str, parallelism: int, operators: list[OperatorSpec], subtasks: list[SubtaskMetricStore]
) -> TaskMetricStore:
    labels = {operator.uid: OperatorLabel(vertex_id(operator.uid), operator.name) for operator in operators}
    return TaskMetricStore(uid, vertex_id(uid), name, parallelism, labels, subtasks)
