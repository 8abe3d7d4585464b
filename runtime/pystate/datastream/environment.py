"""`StreamExecutionEnvironment`: the entry point of a program."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.core.api.job_graph import SourceTransformation
from pystate.datastream.data_stream import DataStream
from pystate.datastream.execution_environment import ExecutionEnvironment


class StreamExecutionEnvironment(ExecutionEnvironment[DataStream]):
    """The context a program builds its job of `DataStream`s in."""

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Return an environment for the place the program was started in: embedded, or under `pystate run`."""
        return StreamExecutionEnvironment(configuration)

    def _stream(self, step: SourceTransformation) -> DataStream:
        return DataStream(self, step)
