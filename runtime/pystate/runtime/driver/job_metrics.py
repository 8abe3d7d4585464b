"""The metrics of a job in its driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pystate.core.metrics.io_figures import bytes_and_times
from pystate.core.metrics.metric_catalog import PENDING_RECORDS
from pystate.core.metrics.sample import MetricSample
from pystate.core.metrics.slot_metrics import SlotMetrics
from pystate.core.metrics.store import DriverMetrics, OperatorLabel, SubtaskMetricStore, TaskMetricStore
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker
from pystate.runtime.execution.job_engine import EngineMetrics
from pystate.runtime.plan.chain import OperatorSpec
from pystate.runtime.plan.job_plan import JobPlan, vertex_id
from pystate.runtime.plan.task import TaskSpec


class JobMetrics:
    """The metrics of one job in one driver.

    Args:
        engine: The metrics of the job's engine.

    Attributes:
        slots: The metrics reported by slots.
    """

    def __init__(self, engine: EngineMetrics) -> None:
        self.slots = SlotMetrics()
        self._engine = engine
        self._plan: JobPlan | None = None

    def describe(self, plan: JobPlan) -> None:
        """Set the tasks of the job."""
        self._plan = plan

    def io(self, uid: str) -> dict[str, int]:
        """Return the I/O metrics of a task over all subtasks, by the names of a vertex in REST."""
        task = None if self._plan is None else self._plan.task(uid)
        indices = range(0 if task is None else task.parallelism)
        return bytes_and_times(sample for index in indices for sample in self.slots.of(uid, index).samples)

    def event_time(self) -> dict[str, Any]:
        """Return `watermark`, the lowest of all subtasks that have one, and `watermark_task`, its task; else an empty dict.

        For a source it is the output watermark: it has no input, and its timestamp assigner may be a chained operator.
        """
        lowest = min(
            (
                (sample.value, task.name)
                for task in ([] if self._plan is None else self._plan.tasks)
                for index in range(task.parallelism)
                for sample in self.slots.of(task.uid, index).samples
                if sample.name == _watermark_of(task) and sample.operator is None and isinstance(sample.value, int)
            ),
            default=None,
        )
        if lowest is None:
            return {}
        watermark, task_name = lowest
        return {"watermark": watermark, "watermark_task": task_name}

    def backlog(self, of_spark: int | None) -> int | None:
        """Return how many records the job's sources have and nobody has read; None if one of them doesn't tell.

        Args:
            of_spark: How many those have that Spark reads.
        """
        plan = self._plan
        if plan is None:
            return None
        told = [self._pending(task) for task in plan.own_sources] + ([of_spark] if plan.sources else [])
        known = [one for one in told if one is not None]
        return sum(known) if known and len(known) == len(told) else None

    def _pending(self, task: TaskSpec) -> int | None:
        told = [
            sample.value
            for index in range(task.parallelism)
            for sample in self.slots.of(task.uid, index).samples
            if sample.operator is not None and sample.path == [PENDING_RECORDS]
        ]
        known = [one for one in told if isinstance(one, int)]
        return sum(known) if known and len(known) == len(told) else None  # NaN: a reader that doesn't know

    def collect(self, statistics: CheckpointStatsTracker) -> DriverMetrics:
        """Return all metrics.

        Args:
            statistics: Those of the job's checkpoints.
        """
        tasks = [] if self._plan is None else self._tasks(self._plan, statistics.subtask_samples())
        return DriverMetrics(self._engine.job_samples(), statistics.samples(), tasks)

    def _tasks(self, plan: JobPlan, taken: Mapping[tuple[str, int], list[MetricSample]]) -> list[TaskMetricStore]:
        gathered: dict[str, list[SubtaskMetricStore]] = {}
        for (uid, subtask), samples in self._engine.source_samples().items():
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
                [self._subtask(task, index, taken) for index in range(task.parallelism)],
            )
            for task in plan.tasks
        ]
        return sources + tasks

    def _subtask(
        self, task: TaskSpec, index: int, taken: Mapping[tuple[str, int], list[MetricSample]]
    ) -> SubtaskMetricStore:
        told = self.slots.of(task.uid, index)
        return replace(told, samples=[*told.samples, *taken.get((task.uid, index), ())])


def _store(
    uid: str, name: str, parallelism: int, operators: list[OperatorSpec], subtasks: list[SubtaskMetricStore]
) -> TaskMetricStore:
    labels = {operator.uid: OperatorLabel(vertex_id(operator.uid), operator.name) for operator in operators}
    return TaskMetricStore(uid, vertex_id(uid), name, parallelism, labels, subtasks)


def _watermark_of(task: TaskSpec) -> str:
    """Return the watermark metric of a subtask of a task."""
    return "currentOutputWatermark" if task.is_own_source else "currentInputWatermark"
