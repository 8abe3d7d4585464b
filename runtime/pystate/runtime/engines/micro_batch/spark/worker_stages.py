"""The stages of sources as they live in Spark's Python workers: made and opened once per worker and execution attempt.

Spark hands each of its tasks to any idle worker, and each reads anew from a pickle what the task runs. What a function
acquires in `open()`, a client or a model, must not come and go with every epoch and partition. So the stage is pickled apart
from what it travels with, and a worker that has it open doesn't read it again.
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
        environment: The job.
        level: The first level of tasks.
        report: Takes what each task of Spark's has measured.
    """
    stage = ShippedStage(SourceStageSpec(task, environment, level))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from stage.run(0 if context is None else context.partitionId(), batches, report)

    return with_short_errors(run)


class ShippedStage:
    """A stage on its way to Spark's workers.

    Args:
        spec: What it runs.
    """

    def __init__(self, spec: SourceStageSpec) -> None:
        self._spec = spec

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the stage as bytes, which are read once per worker."""
        data = _PICKLER.dumps(self._spec)
        environment = self._spec.environment
        return _ReceivedStage, ((environment.job_id, environment.attempt), data)

    def run(self, partition: int, batches: Iterator[pa.RecordBatch], report: StageReport | None) -> Iterator[pa.RecordBatch]:
        """Run a stage that has not travelled: its functions live as long as the partition."""
        stage = SourceStage(self._spec)
        stage.open(partition)
        try:
            yield from stage.run(partition, batches, report)
        finally:
            stage.close()


class _ReceivedStage:
    """A stage that has come to a worker; not read yet."""

    def __init__(self, attempt: tuple[str, int], data: bytes) -> None:
        self._attempt = attempt
        self._data = data

    def run(self, partition: int, batches: Iterator[pa.RecordBatch], report: StageReport | None) -> Iterator[pa.RecordBatch]:
        """Run the stage with the functions that this worker has open; else open them.

        What has failed, or was given up half way, is closed and not used again.
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
    """A stage with its open functions, and with the accumulators of Spark's that these hold."""

    def __init__(self, attempt: tuple[str, int], data: bytes) -> None:
        self.attempt = attempt
        known = set(_accumulatorRegistry)
        self.stage = SourceStage(_PICKLER.loads(data))
        self._accumulators = {number: found for number, found in _accumulatorRegistry.items() if number not in known}
        self._is_open = False

    def begin_task(self, partition: int) -> None:
        """Open the functions if they aren't, and let Spark know of their accumulators: it forgets them between two tasks."""
        if not self._is_open:
            self._is_open = True
            self.stage.open(partition)
            return
        for number, accumulator in self._accumulators.items():
            accumulator._value = accumulator.accum_param.zero(accumulator._value)  # noqa: SLF001 - as if it had come anew
            _accumulatorRegistry[number] = accumulator

    def close(self) -> None:
        """Close the functions."""
        self.stage.close()
