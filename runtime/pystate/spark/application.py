"""What must be known of the Spark application before and while a job runs in it: its cores, and whether it lives."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from pystate.common.errors import JobExecutionError
from pystate.common.options import SparkOptions
from pystate.spark.session import needed_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
_POLL_S = 0.1


def local_threads(master: str) -> int | None:
    """Return how many tasks a local master runs at once; None for a cluster."""
    match = _LOCAL.fullmatch(master.strip())
    if match is None:
        return None
    if match[1] == "*":
        return os.cpu_count() or 1
    return int(match[1] or 1)


def check_cores(spark: SparkSession, parallelism: int, timeout_s: float) -> None:
    """Refuse a job that could never run: slots hold their cores for good, and epochs would wait for ever.

    Args:
        spark: The session.
        parallelism: Of the job.
        timeout_s: How long the executors of a cluster may take to come.

    Raises:
        JobExecutionError: There are too few cores.
    """
    needed = needed_cores(parallelism)
    master = str(spark.sparkContext.master)
    threads = local_threads(master)
    cores = executor_cores(spark) if threads is None else threads
    deadline = time.monotonic() + timeout_s
    while threads is None and cores < needed and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        cores = executor_cores(spark)
    if cores >= needed:
        return
    message = f"Parallelism {parallelism} needs {needed} cores (2 x parallelism + 2); the Spark master {master} has {cores}."
    fitting = (cores - 2) // 2
    hint = f"run with -p {fitting} or give Spark more cores" if fitting >= 1 else "give Spark more cores"
    raise JobExecutionError(message, where=SparkOptions.MASTER.key, hint=hint)


def executor_cores(spark: SparkSession) -> int:
    """Return the number of cores of all executors that are there."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)  # noqa: SLF001
    found = [executors.apply(index) for index in range(executors.size())]
    return sum(int(executor.totalCores()) for executor in found if executor.id() != "driver")


def is_alive(spark: SparkSession) -> bool:
    """Return whether the session's Spark application can still run jobs."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001
    except Exception:  # py4j has several ways to say that the JVM is gone
        return False
