"""Keeps the stages of sources in Spark's Python workers: created and opened once per worker and execution attempt.

Spark assigns each task to any idle worker, which unpickles the task's code again. A resource that a function acquires in
`open()`, such as a client or a model, must not be reopened for every epoch and partition. So the stage is pickled
separately, and a worker that has it open doesn't unpickle it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import _accumulatorRegistry
from pyspark.serializers import CloudPickleSerializer

from pystate.runtime.engines.micro_batch.spark.level import Level
from pystate.runtime.engines.micro_batch.spark.source_stage import SourceStage, SourceStageSpec
from pystate.runtime.plan.task import JobEnvironment, TaskSpec
from pystate.runtime.spark.source_metrics import StageReport
from pystate.runtime.spark.workers import python_worker
from pystate.runtime.spark.workers.short_errors import BatchStage, with_short_errors

_PICKLER: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]


def chain_stage(task: TaskSpec, environment: JobEnvironment, level: Level, report: StageReport | None = None) -> BatchStage:
    """Return the stage that runs a stateless chain whose outputs are edges to, or through, a level.

    Args:
        task: The source with its chain.
        environment: The job's environment.
        level: The first level of tasks.
        report: Receives the metrics of each Spark task.
    """
    stage = ShippedStage(SourceStageSpec(task, environment, level))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from stage.run(0 if context is None else context.partitionId(), batches, report)

    return with_short_errors(run)


class ShippedStage:
    """A stage that is pickled for Spark's workers.

    Args:
        spec: The chain to run.
    """

    def __init__(self, spec: SourceStageSpec) -> None:
        self._spec = spec

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the stage as bytes that are unpickled once per worker."""
        data = _PICKLER.dumps(self._spec)
        environment = self._spec.environment
        return _ReceivedStage, ((environment.job_id, environment.attempt), data)

    def run(self, partition: int, batches: Iterator[pa.RecordBatch], report: StageReport | None) -> Iterator[pa.RecordBatch]:
        """Run a stage that was not pickled: its functions live as long as the partition."""
        stage = SourceStage(self._spec)
        stage.open(partition)
        try:
            yield from stage.run(partition, batches, report)
        finally:
            stage.close()


class _ReceivedStage:
    """A stage received by a worker and not unpickled yet."""

    def __init__(self, attempt: tuple[str, int], data: bytes) -> None:
        self._attempt = attempt
        self._data = data

    def run(self, partition: int, batches: Iterator[pa.RecordBatch], report: StageReport | None) -> Iterator[pa.RecordBatch]:
        """Run the stage with the functions that this worker has open, or open them.

        After a failure, or a run that was abandoned, they are closed and not used again.
        """
        worker = python_worker.WORKER
        worker.begin_task(self._attempt)
        digest = hashlib.sha256(self._data).hexdigest()
        found = worker.kept.pop(digest, None)
        kept = found if isinstance(found, _KeptStage) else _KeptStage(self._attempt, self._data)
        done = False
        try:
            kept.begin_task(partition)
            yield from kept.stage.run(partition, batches, report)
            done = worker.is_reused
        finally:
            if done:
                worker.kept[digest] = kept
                worker.end_task()
            else:
                kept.close()


class _KeptStage:
    """A stage with its open functions, and with the Spark accumulators that they hold."""

    def __init__(self, attempt: tuple[str, int], data: bytes) -> None:
        self.attempt = attempt
        known = set(_accumulatorRegistry)
        spec: SourceStageSpec = _PICKLER.loads(data)
        self._classes = spec.environment.program_classes
        self.stage = SourceStage(spec)
        self._accumulators = {number: found for number, found in _accumulatorRegistry.items() if number not in known}
        self._is_open = False

    def begin_task(self, partition: int) -> None:
        """Open the functions if they aren't, and let Spark know of their accumulators: it forgets them between two tasks."""
        self._classes.install()
        if not self._is_open:
            self._is_open = True
            self.stage.open(partition)
            return
        for number, accumulator in self._accumulators.items():
            accumulator._value = accumulator.accum_param.zero(accumulator._value)  # noqa: SLF001 - as if newly unpickled
            _accumulatorRegistry[number] = accumulator

    def close(self) -> None:
        """Close the functions."""
        self.stage.close()
