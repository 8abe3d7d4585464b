"""Checks the executors' Python before a job begins: version and packages."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyspark

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.deployment_options import PythonOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.errors import JobExecutionError
from pystate.common.text.java_errors import java_cause
from pystate.runtime.spark.applications.group_tasks import tasks_of_group

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LISTENERS_TIMEOUT_MS = 10_000
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_HINT = "see docs/cluster.md, The Python of the executors"


@dataclass(frozen=True)
class _Found:
    """The findings of a task on an executor: the host, PySpark's version, and the errors of imports by module."""

    host: str
    spark_version: str
    missing: dict[str, str]


def modules_of_workers(configuration: Configuration, engine: Sequence[str] = ()) -> list[str]:
    """Return the modules that the workers of a job import: required dependencies, then pystate's, which are shipped.

    Args:
        configuration: The options in force.
        engine: The modules imported by the stages of the job's engine.
    """
    modules = ["msgpack", "numpy", "pyarrow", "fsspec", "tomli"]
    if StateSettings.of(configuration).backend == "rocksdb":
        modules.append("rocksdict")
    directory = configuration.get(CheckpointingOptions.CHECKPOINTS_DIRECTORY) or ""
    if directory.startswith(("s3://", "s3a://")):
        modules.append("s3fs")
    return [*modules, "pystate.runtime.slot.process", *engine]


def check_executors(spark: SparkSession, modules: Sequence[str]) -> None:
    """Check the Python of each executor by a task.

    Args:
        spark: The session, on a cluster, with executors.
        modules: The modules that must be importable, dependencies first.

    Raises:
        JobExecutionError: An executor can't run the job.
    """
    context = spark.sparkContext
    group = f"pystate-check-{time.time_ns()}"
    executors = _executor_count(context)
    context.setJobGroup(group, "look at the Python of the executors")
    try:
        # Spark gives each free executor a task before it gives one a second task
        found = context.parallelize(range(executors), executors).mapPartitions(_look(list(modules))).collect()
    except Exception as error:  # py4j and PySpark have many classes for a failed job
        failures = _failed_tasks(context, group) or [("an executor", str(error))]
        raise _explained(*failures[0]) from error
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    # a task that failed on one executor may have been run again on another one
    for host, text in _failed_tasks(context, group):
        raise _explained(host, text)
    _check_found([_Found(*seen) for seen in found])


def _look(modules: list[str]) -> Callable[[Iterable[int]], Iterator[tuple[str, str, dict[str, str]]]]:
    """Return the task; it is pickled by value, since this module may be missing on the executor."""

    def look(_: Iterable[int]) -> Iterator[tuple[str, str, dict[str, str]]]:
        import importlib
        import socket

        import pyspark

        missing = {}
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as error:  # a broken package may raise anything
                missing[name] = "" if isinstance(error, ModuleNotFoundError) and error.name == name else repr(error)
        yield socket.gethostname(), pyspark.__version__, missing

    return look


def _check_found(found: list[_Found]) -> None:
    own = pyspark.__version__
    for seen in found:
        if seen.spark_version.split(".")[:2] != own.split(".")[:2]:
            message = f"PySpark on {seen.host} is {seen.spark_version}, the driver's is {own}; both must be the same."
            raise JobExecutionError(message, hint="install the cluster's version of pyspark beside pystate")
    lacking = [seen for seen in found if seen.missing]
    if not lacking:
        return
    seen = lacking[0]
    absent = [name for name, why in seen.missing.items() if not why]
    hosts = sorted({other.host for other in lacking})
    where = hosts[0] if len(hosts) == 1 else f"{', '.join(hosts[:3])}{' and others' if len(hosts) > 3 else ''}"
    if absent:
        message = f"The Python of the executors on {where} lacks {', '.join(absent)}."
        hint = f"install pystate's dependencies there, or ship them with {PythonOptions.PYTHON_ARCHIVES.key}; {_HINT}"
        raise JobExecutionError(message, where=PythonOptions.PYTHON_EXECUTABLE.key, hint=hint)
    name, why = next(iter(seen.missing.items()))
    message = f"The Python of the executors on {where} can't import {name}: {why}."
    raise JobExecutionError(message, where=PythonOptions.PYTHON_EXECUTABLE.key, hint=_HINT)


def reason_of_end(text: str) -> str:
    """Return why Spark ended a job of long-running tasks, in a sentence.

    An executor may be added after the check.
    """
    place = re.search(r"\(([^()\s]+) executor \w+\)", text)
    cause = _cause("an executor" if place is None else place[1], text)
    return cause or (java_cause(text) if text.strip() else "it does not say why")


def _explained(host: str, text: str) -> JobExecutionError:
    """Return the error for a task that failed on an executor before reaching our code."""
    key = PythonOptions.PYTHON_EXECUTABLE.key
    cause = _cause(host, text)
    if cause is not None:
        return JobExecutionError(cause, where=key, hint=f"set {key} to a Python {_VERSION} of the executors; {_HINT}")
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it says nothing"]
    raised = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b", line)]
    message = f"A first task on {host} failed: {(raised or lines)[-1 if raised else 0]}"
    return JobExecutionError(message, where=key, hint=f"see the log of the executor; {_HINT}")


def _cause(host: str, text: str) -> str | None:
    """Return what is wrong with the Python on a host, if the error of a task tells."""
    version = re.search(r"Python in worker has different version:? \(?([\d.]+)", text)
    if version is not None:
        there = version[1].rstrip(".")
        return f"The executors on {host} run Python {there}, the driver runs {_VERSION}; both must be the same."
    program = re.search(r'Cannot run program "([^"]*)"', text)
    if program is not None:
        return f"There is no Python at {program[1]} on {host}."
    module = re.search(r"ModuleNotFoundError: No module named '([^']*)'", text)
    return None if module is None else f"The Python of the executors on {host} lacks {module[1]}."


def _executor_count(context: SparkContext) -> int:
    executors = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 - pyspark has no way to it
    return sum(executors.apply(index).id() != "driver" for index in range(executors.size()))


def _failed_tasks(context: SparkContext, group: str) -> list[tuple[str, str]]:
    """Return (host, error) of each task of a job group that failed."""
    return [
        (str(task.host()), str(task.errorMessage().get()))
        for task in tasks_of_group(context, group, patience_ms=_LISTENERS_TIMEOUT_MS, most=1_000)
        if str(task.status()) == "FAILED" and task.errorMessage().isDefined()
    ]
