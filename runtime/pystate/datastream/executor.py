"""The interface between a job's program and what runs it.

The program is written against `datastream`, which must not import the driver. Whoever starts the program registers an
executor; a program started as plain `python job.py` gets the embedded one.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobExecutionError
from pystate.common.options import CoreOptions

if TYPE_CHECKING:
    from pystate.api.job_graph import StreamGraph
    from pystate.common.configuration import Configuration

_EMBEDDED = ("pystate.driver.embedded", "EmbeddedExecutor")


class JobExecutionResult:
    """What `execute` returns: the id and the run time of a job that has ended well."""

    def __init__(self, job_id: str, net_runtime_ms: int) -> None:
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms

    def get_job_id(self) -> str:
        """Return the job id, 32 hex digits."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return the run time in milliseconds."""
        return self._net_runtime_ms


class Executor(ABC):
    """Runs one program's job."""

    @abstractmethod
    def base_configuration(self) -> Configuration:
        """Return what file and command line say; the program's own settings go above it."""

    @abstractmethod
    def spark_session(self, configuration: Configuration) -> Any:
        """Return the `SparkSession` the job runs in; the first call makes it."""

    @abstractmethod
    def execute(self, graph: StreamGraph, configuration: Configuration, job_name: str) -> JobExecutionResult:
        """Run the job to its end.

        Raises:
            PystateError: The job could not be started, failed, or was cancelled.
        """


def for_widest_step(configuration: Configuration, graph: StreamGraph) -> Configuration:
    """Return the configuration to make a Spark session with: for the step with the most subtasks known by now."""
    wide = configuration.copy()
    default = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM))
    wide.set(CoreOptions.DEFAULT_PARALLELISM, graph.widest_step(default))
    return wide


class _Registry:
    executor: Executor | None = None


def register_executor(executor: Executor | None) -> None:
    """Make `executor` run the jobs of this process; None goes back to the embedded one."""
    _Registry.executor = executor


def current_executor() -> Executor:
    """Return the registered executor, making the embedded one where there is none."""
    if _Registry.executor is None:
        module, name = _EMBEDDED
        made = getattr(importlib.import_module(module), name)()
        if not isinstance(made, Executor):
            message = f"{module}.{name} is no Executor."
            raise JobExecutionError(message)
        _Registry.executor = made
    return _Registry.executor
