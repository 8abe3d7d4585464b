"""`StreamExecutionEnvironment`: the entry point of a program."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.core.api.job_graph import SourceTransformation
from pystate.datastream.data_stream import DataStream
from pystate.datastream.execution_environment import ExecutionEnvironment


class StreamExecutionEnvironment(ExecutionEnvironment[DataStream]):
    """The context in which a program builds a job from `DataStream`s."""

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Return the environment of the program: embedded, or under `pystate run`."""
        return StreamExecutionEnvironment(configuration)

    def _stream(self, step: SourceTransformation) -> DataStream:
        return DataStream(self, step)
