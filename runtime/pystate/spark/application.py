"""What must be known of the Spark application before and while a job runs in it: its cores, and whether it lives."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from pystate.common.errors import ConfigurationError, JobExecutionError
from pystate.common.execution_target import local_threads
from pystate.common.options import SparkOptions
from pystate.spark.session import needed_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.1


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
    more = f"give Spark more cores{_where_cores_come_from(master)}"
    hint = f"run with -p {fitting} or {more}" if fitting >= 1 else more
    raise JobExecutionError(message, where=SparkOptions.MASTER.key, hint=hint)


def executor_cores(spark: SparkSession) -> int:
    """Return how many tasks all executors that are there run at once: their cores, over `spark.task.cpus`."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)  # noqa: SLF001
    found = [executors.apply(index) for index in range(executors.size())]
    return sum(int(executor.maxTasks()) for executor in found if executor.id() != "driver")


def _where_cores_come_from(master: str) -> str:
    if master.startswith("spark://"):
        return " (workers of the cluster, and spark.cores.max where it is set)"
    if master.startswith(("yarn", "k8s://")):
        return " (spark.executor.instances x spark.executor.cores)"
    return ""


def driver_address(spark: SparkSession) -> str:
    """Return the address of this machine at which slots on other hosts reach the driver: the one that Spark uses.

    Raises:
        ConfigurationError: It is not an address of this machine.
    """
    host = str(spark.conf.get("spark.driver.host"))
    try:
        # the number, for the name may mean something else on another machine
        address = str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        with socket.create_server((address, 0)):
            return address
    except OSError as error:
        message = f"spark.driver.host = {host} is not an address of this machine: {error.strerror}."
        hint = "set it to an address at which the executors reach this machine; a translated one (NAT) can't be used"
        raise ConfigurationError(message, where="spark.driver.host", hint=hint) from error


def is_alive(spark: SparkSession) -> bool:
    """Return whether the session's Spark application can still run jobs."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001
    except Exception:  # py4j has several ways to say that the JVM is gone
        return False
