"""Streams whose elements the program can collect."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from pystate.common.errors import JobGraphError
from pystate.core.api.collected_results import CloseableIterator, ResultQueue
from pystate.core.api.notebook_steps import copied_upstream, detach_unread
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    SinkKind,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    element_type,
    without_key,
)
from pystate.core.records.codec import RecordCodec
from pystate.datastream.execution_environment import ExecutionEnvironment
from pystate.datastream.preview import Preview, PreviewEnd
from pystate.datastream.step_settings import StepSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class CollectableStream(StepSettings):
    """A stream whose elements the program can collect.

    Args:
        environment: Runs the job.
        transformation: The step that produces the stream.
    """

    def __init__(self, environment: ExecutionEnvironment[Any], transformation: Transformation) -> None:
        super().__init__(transformation)
        self._collecting = environment

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None) -> CloseableIterator[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[Any] | list[Any]:
        """Run the job in the background, and iterate over the elements of this stream.

        Each element is returned once, also after failures: results are part of checkpoints. The job waits while the program
            is slow to read them.

        Args:
            job_execution_name: The name of the job.
            limit: If given, wait for this many elements, or for all if there are fewer, cancel the job, and return them in a
                list.

        Raises:
            PystateError: The job can't be started; or, with a limit, failed.
        """
        queue, step = ResultQueue(), without_key(self._transformation)  # a key has no effect at the end of a stream
        SinkTransformation("Collect", (step,), kind=SinkKind.COLLECT, function=queue)
        job = self._collecting.start(job_execution_name or "DataStream Collect", queue)
        elements: CloseableIterator[Any] = CloseableIterator(queue, job)
        if limit is None:
            return elements
        with elements:
            return list(itertools.islice(elements, limit))

    def preview(self, n: int = 10, *, seconds: float = 60.0) -> Preview:
        """Run the stream alone until it has given some elements, end the job, and return the elements as a table.

        The program's other steps and its sinks don't run, and stay for `execute()`; what was built for the preview alone
        doesn't. The job takes no checkpoints, starts from no savepoint and isn't restarted.

        Args:
            n: The maximum number of elements.
            seconds: How long to wait for them once Spark runs and the job is started.

        Raises:
            JobGraphError: A limit isn't positive.
            PystateError: The job can't be started, or failed.
        """
        if n < 1 or seconds <= 0:
            message = f"preview({n}, seconds={seconds}): both limits are positive numbers."
            raise JobGraphError(message)
        queue = ResultQueue()
        read = without_key(self._transformation)
        step, sources = copied_upstream(read)
        SinkTransformation("Preview", (step,), kind=SinkKind.COLLECT, function=queue)
        detach_unread(self._transformation)
        name = f"preview of {read.name}"
        elements: list[Any] = []
        ended = PreviewEnd.ENOUGH
        with CloseableIterator[Any](queue, self._collecting.start_trial(StreamGraph(sources), name, queue)):
            deadline = time.monotonic() + seconds
            while len(elements) < n:
                try:
                    batch = queue.take(deadline)
                except TimeoutError:
                    ended = PreviewEnd.TIME_IS_OVER
                    break
                if batch is None:
                    ended = PreviewEnd.END_OF_INPUT
                    break
                elements += batch
        return Preview(elements[:n], element_type(step.output_type), ended, seconds)

    def to_data_frame(self) -> DataFrame:
        """Run the job over its bounded input, and return the elements of this stream as a DataFrame, for Spark SQL.

        The program holds all of them in memory. For large or unbounded streams use `for_each_batch`.

        Raises:
            JobGraphError: The type of the elements isn't declared, or a source is unbounded.
            PystateError: The job can't be started, or failed.
        """
        step = self._transformation
        elements_type = element_type(step.output_type)
        if elements_type is None:
            message = f"to_data_frame(): the elements of {step.name!r} have no declared type, so no columns."
            raise JobGraphError(message, hint="give the step an output_type, for example Types.ROW_NAMED([...], [...])")
        endless = next((source for source in _sources_of(step) if not source.bounded), None)
        if endless is not None:
            message = f"to_data_frame() waits for the end of the job, and its source {endless.name!r} has none."
            hint = "give it an end (from_data_frame(..., bounded=True), a source that doesn't watch for more), or use "
            hint += "for_each_batch(lambda frame, epoch: ...), which gets a DataFrame per epoch"
            raise JobGraphError(message, hint=hint)
        codec = RecordCodec(elements_type, step.name)
        elements = list(self.execute_and_collect("to_data_frame"))
        prepared = elements if codec.prepare is None else [codec.prepare(element) for element in elements]
        arrays = codec.encode(prepared) if prepared else [pa.array([], field.type) for field in codec.schema]
        return self._collecting.spark.createDataFrame(pa.Table.from_arrays(arrays, schema=codec.schema))


def _sources_of(step: Transformation) -> Iterator[SourceTransformation]:
    if isinstance(step, SourceTransformation):
        yield step
    for parent in step.parents:
        yield from _sources_of(parent)
