"""Streams whose elements the program takes itself."""

from __future__ import annotations

import itertools
from typing import Any, overload

from pystate.api.job_graph import KeyByTransformation, SinkKind, SinkTransformation, Transformation
from pystate.datastream.collected_results import CloseableIterator, ResultQueue
from pystate.datastream.execution_environment import ExecutionEnvironment
from pystate.datastream.step_settings import StepSettings


class CollectableStream(StepSettings):
    """A stream, as far as the program may run the job and take the elements.

    Args:
        environment: Runs the job.
        transformation: The step that makes the stream.
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
        """Run the job in the background, and return the elements of this stream as they come.

        Each element comes once, after failures, too: a job that is restarted hands over what a checkpoint has. The job waits
        while the program is slow to take them.

        Args:
            job_execution_name: What people see.
            limit: With it: wait for so many elements, or for all where they are less, and return them in a list. The job is
                cancelled then.

        Raises:
            PystateError: The job can't be started; or, with a limit, failed.
        """
        queue, step = ResultQueue(), self._transformation
        while isinstance(step, KeyByTransformation):  # a key says nothing where the stream ends
            step = step.parent
        SinkTransformation("Collect", (step,), kind=SinkKind.COLLECT, function=queue)
        job = self._collecting.start(job_execution_name or "DataStream Collect", queue)
        elements: CloseableIterator[Any] = CloseableIterator(queue, job)
        if limit is None:
            return elements
        with elements:
            return list(itertools.islice(elements, limit))
