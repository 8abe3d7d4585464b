"""The interface between a job's program and what runs it.

The program is written against `datastream`, which must not import the driver. The launcher registers an executor; a program
started as plain `python job.py` gets the embedded one.
"""

from __future__ import annotations

import importlib
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.groups.execution_options import CoreOptions
from pystate.common.errors import JobExecutionError
from pystate.common.job_client import JobClient
from pystate.common.job_execution_result import JobExecutionResult

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.core.api.collected_results import ResultQueue
    from pystate.core.api.stream_graph import StreamGraph

_EMBEDDED = ("pystate.runtime.driver.embedded", "EmbeddedExecutor")


class Executor(ABC):
    """Runs one program's job."""

    @abstractmethod
    def base_configuration(self) -> Configuration:
        """Return the configuration of the file and the command line; the program's own settings override it."""

    @abstractmethod
    def spark_session(self, configuration: Configuration) -> Any:
        """Return the `SparkSession` the job runs in; the first call makes it."""

    @abstractmethod
    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> JobExecutionResult:
        """Run the job to its end.

        Raises:
            PystateError: The job could not be started, failed, or was cancelled.
        """

    def execute_async(
        self, graph: StreamGraph, configuration: Configuration, job_name: str, results: ResultQueue | None = None
    ) -> JobClient:
        """Start the job in the background, queued after those that still run: one job runs at a time.

        Args:
            graph: The program's steps, which no later job changes: a copy.
            configuration: The options in force.
            job_name: The displayed name.
            results: Where the program takes the job's results from; ended with the job.

        Raises:
            PystateError: The job can't be started.
        """
        message = f"{type(self).__name__} runs no jobs in the background."
        raise JobExecutionError(message, hint="use execute()")


def for_widest_step(configuration: Configuration, graph: StreamGraph) -> Configuration:
    """Return the configuration for the Spark session, sized for the highest parallelism known so far."""
    wide = configuration.copy()
    default = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM))
    wide.set(CoreOptions.DEFAULT_PARALLELISM, graph.widest_step(default))
    return wide


class _Registry:
    executor: Executor | None = None
    lock = threading.Lock()


def register_executor(executor: Executor | None) -> None:
    """Make `executor` run the jobs of this process; None restores the embedded one."""
    _Registry.executor = executor


def registered_executor() -> Executor | None:
    """Return what runs the jobs of this process; None if nothing is registered or was needed so far."""
    return _Registry.executor


def current_executor() -> Executor:
    """Return the registered executor; creates the embedded one if there is none."""
    with _Registry.lock:  # a program may build its jobs in several threads
        if _Registry.executor is None:
            module, name = _EMBEDDED
            made = getattr(importlib.import_module(module), name)()
            if not isinstance(made, Executor):
                message = f"{module}.{name} is no Executor."
                raise JobExecutionError(message)
            _Registry.executor = made
        return _Registry.executor
