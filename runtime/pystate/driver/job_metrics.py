"""All that a driver knows of its job's metrics, in the form it answers the job manager with."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pystate.metrics.sample import MetricSample, counter, gauge, samples_to_plain
from pystate.metrics.slot_metrics import SlotMetrics
from pystate.metrics.view import latest_completed
from pystate.plan.chain import OperatorSpec
from pystate.plan.job_plan import JobPlan, vertex_id
from pystate.plan.task import TaskSpec
from pystate.spark.source_metrics import SourceMetrics

if TYPE_CHECKING:
    from pyspark import SparkContext

    from pystate.checkpoint.checkpoint_coordinator import CheckpointCoordinator

_RECENT_EPOCHS = 120
_RECORDS = {"numRecordsIn": "read-records", "numRecordsOut": "write-records"}
_IO = {
    "numBytesIn": "read-bytes",
    "numBytesOut": "write-bytes",
    "accumulateIdleTimeMs": "accumulated-idle-time",
    "accumulateBusyTimeMs": "accumulated-busy-time",
}


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
        samples = [
            sample
            for index in range(0 if task is None else task.parallelism)
            for sample in self.slots.of(uid, index).samples
        ]
        return {**dict.fromkeys(_IO.values(), 0), **_totals(samples, _IO)}

    def to_plain(self, coordinator: CheckpointCoordinator) -> dict[str, Any]:
        """Return everything as plain data.

        Returns:
            `job`: the samples of the job as a whole, but for those of its status and its checkpoints; `checkpoints`: the
            statistics of its checkpoints as REST has them; `tasks`: per task `uid`, `vertex_id`, `name`, `parallelism`,
            `operators` (uid -> id, name) and `subtasks` (`index`, `host`, `samples`).
        """
        statistics = coordinator.statistics()
        tasks = [] if self._plan is None else self._tasks(self._plan, coordinator, statistics)
        checkpoints = {"counts": statistics["counts"], "latest": statistics["latest"]}
        return {"job": samples_to_plain(self._job()), "checkpoints": checkpoints, "tasks": tasks}

    def _job(self) -> list[MetricSample]:
        with self._lock:
            return [
                counter("numberOfFinishedEpochs", self._epochs),
                gauge("lastFinishedEpoch", self._last_epoch),
                gauge("lastEpochDuration", self._last_duration_ms),
            ]

    def _tasks(
        self, plan: JobPlan, coordinator: CheckpointCoordinator, statistics: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        gathered: dict[str, list[dict[str, Any]]] = {}
        for (uid, subtask), samples in self.sources.samples().items():
            told = {"index": subtask, "host": None, "samples": samples_to_plain(samples)}
            gathered.setdefault(uid, []).append(told)
        sources = [
            _described(source.uid, f"Source: {source.step.name}", plan.parallelism, operators)
            | {"subtasks": gathered.get(source.uid, [])}
            for source in plan.sources
            if (operators := [] if source.chain is None else source.chain.all_operators()) or source.uid in gathered
        ]
        sizes = _state_sizes(plan, coordinator, statistics)
        tasks = [
            _described(task.uid, task.name, task.parallelism, task.operators)
            | {"subtasks": [self._subtask(task, index, sizes) for index in range(task.parallelism)]}
            for task in plan.tasks
        ]
        return sources + tasks

    def _subtask(self, task: TaskSpec, index: int, sizes: Mapping[tuple[str, int], int]) -> dict[str, Any]:
        report = self.slots.of(task.uid, index)
        samples = list(report.samples)
        if (task.uid, index) in sizes:
            samples.append(gauge("lastCheckpointStateSize", sizes[task.uid, index]))
        return {"index": index, "host": report.host, "samples": samples_to_plain(samples)}


def io_figures(samples: Iterable[MetricSample]) -> dict[str, int]:
    """Return what subtasks have read, written and done in all, by REST's names; what isn't known is missing.

    Args:
        samples: Those of one subtask, or of several.
    """
    return _totals(samples, {**_RECORDS, **_IO})


def _totals(samples: Iterable[MetricSample], names: Mapping[str, str]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for sample in samples:
        if sample.operator is None and sample.name in names and isinstance(sample.value, int):
            name = names[sample.name]
            totals[name] = totals.get(name, 0) + sample.value
    return totals


def _described(uid: str, name: str, parallelism: int, operators: list[OperatorSpec]) -> dict[str, Any]:
    named = {operator.uid: {"id": vertex_id(operator.uid), "name": operator.name} for operator in operators}
    return {"uid": uid, "vertex_id": vertex_id(uid), "name": name, "parallelism": parallelism, "operators": named}


def _state_sizes(
    plan: JobPlan, coordinator: CheckpointCoordinator, statistics: Mapping[str, Any]
) -> dict[tuple[str, int], int]:
    """Return the size of each subtask's state in the last completed checkpoint, where there is one."""
    last = latest_completed(statistics)
    sizes: dict[tuple[str, int], int] = {}
    if last is None:
        return sizes
    for task in plan.tasks:
        found = coordinator.statistics_of_subtasks(int(last["id"]), task.vertex_id)
        for subtask in [] if found is None else found["subtasks"]:
            if "state_size" in subtask:
                sizes[task.uid, subtask["index"]] = subtask["state_size"]
    return sizes
