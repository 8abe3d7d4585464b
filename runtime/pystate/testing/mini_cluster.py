"""Whole jobs in the process of a test, on a local Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.files.home import PystateHome
from pystate.core.api.executor import register_executor
from pystate.runtime.driver.embedded import EmbeddedExecutor
from pystate.runtime.spark.sessions.real_time_settings import application_settings
from pystate.runtime.spark.sessions.session import create_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MiniCluster", "local_spark"]

CORES = 16
"""What a local Spark is told it has. A job takes two for each subtask in the widest step, whatever the machine has."""


def local_spark(log: Path, options: Mapping[str, str] | None = None) -> SparkSession:
    """Start a local Spark for the jobs of tests, on either engine.

    Args:
        log: The file of its log.
        options: Options of pystate and Spark that it is to have.

    Raises:
        JavaNotFoundError: No Java is found.
    """
    settings = {"pystate.spark.master": f"local[{CORES},4]", **application_settings(), **(options or {})}
    return create_session(Configuration(settings), "pystate tests", log)


class MiniCluster(EmbeddedExecutor):
    """Runs the jobs of a test in its process; while it is open, `get_execution_environment()` is an environment of it.

    It reads no configuration file. Parallelism is 1, unless it is set.

    Args:
        spark: Where jobs run.
        directory: The folder of its home, checkpoints and savepoints.

    Attributes:
        spark: The same.
        directory: The same.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark, self.directory = spark, directory
        options = {
            CoreOptions.DEFAULT_PARALLELISM.key: "1",
            CheckpointingOptions.CHECKPOINTS_DIRECTORY.key: str(directory / "checkpoints"),
            CheckpointingOptions.SAVEPOINT_DIRECTORY.key: str(directory / "savepoints"),
        }
        super().__init__(PystateHome(directory / "home"), Configuration(options))
        register_executor(self)

    def set(self, key: str, value: str) -> None:
        """Set an option for environments that are made from now on."""
        self._configuration.set_string(key, value)

    def spark_session(self, configuration: Configuration) -> SparkSession:
        """Return the session."""
        return self.spark

    def close(self) -> None:
        """Cancel the jobs that still run, and give up the place of the process's executor."""
        self._jobs.cancel_all()
        register_executor(None)
