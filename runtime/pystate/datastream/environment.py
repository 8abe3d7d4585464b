"""`StreamExecutionEnvironment`: the entry point of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobGraphError
from pystate.core.api.transformations import SourceTransformation
from pystate.datastream.data_stream import DataStream
from pystate.datastream.execution_environment import ExecutionEnvironment
from pystate.datastream.wrong_functions import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StreamExecutionEnvironment(ExecutionEnvironment[DataStream]):
    """The context in which a program builds a job from `DataStream`s."""

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | SparkSession | None = None, spark: SparkSession | None = None
    ) -> StreamExecutionEnvironment:
        """Return the environment of the program: embedded, or under `pystate run`.

        Args:
            configuration: Options, which override those of the file; a Spark session may be given in this place, too.
            spark: The session that jobs run in; None for the one that the program has made, or else one of their own.

        Raises:
            JobGraphError: What is given is no session.
        """
        if configuration is not None and not isinstance(configuration, Configuration):
            configuration, spark = None, configuration
        if spark is not None and not hasattr(spark, "readStream"):
            message = f"get_execution_environment() takes a Configuration or a SparkSession, not {shown(spark)}."
            raise JobGraphError(message, hint="get_execution_environment(), or get_execution_environment(spark)")
        return StreamExecutionEnvironment(configuration, spark)

    def _stream(self, step: SourceTransformation) -> DataStream:
        return DataStream(self, step)
