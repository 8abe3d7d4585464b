"""The Spark application of a job: its cores, and whether it is alive."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pystate.common.configuration.execution_target import local_threads
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.errors import ConfigurationError, ExternalSystemError, JobExecutionError, SparkLostError
from pystate.runtime.spark.applications.application_state import (
    ApplicationState,
    ClusterView,
    application_state,
    cores_sentence,
    is_blocked,
    lost_sentence,
)
from pystate.runtime.spark.applications.kubernetes import look_at_kubernetes
from pystate.runtime.spark.applications.kubernetes_pods import KUBERNETES
from pystate.runtime.spark.applications.required_cores import RequiredCores
from pystate.runtime.spark.applications.standalone_master import (
    DEFAULT_MASTER_PORT,
    MASTER_PORT_KEY,
    fetch_json,
    look_at_master,
    masters_in,
)
from pystate.runtime.spark.applications.yarn_resource_manager import YARN, look_at_yarn, yarn_addresses, yarn_conf_dirs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_S = 0.1
_FIRST_LOOK_S = 3.0
_LOOK_EVERY_S = 3.0
_SLOW_S = 15.0
"""Waits for executors shorter than this aren't reported."""


class Executors(Protocol):
    """The executors of an application, and the other applications in its cluster."""

    application_id: str
    master: str

    def cores(self) -> int:
        """Return how many tasks the present executors run concurrently."""

    def view(self) -> ClusterView | None:
        """Return what the cluster says; None if unknown."""


class SparkExecutors:
    """The executors of a session.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.application_id = str(spark.sparkContext.applicationId)
        self.master = str(spark.sparkContext.master)
        self._port = int(spark.sparkContext.getConf().get(MASTER_PORT_KEY, str(DEFAULT_MASTER_PORT)) or DEFAULT_MASTER_PORT)

    def cores(self) -> int:
        """Return how many tasks the present executors run concurrently."""
        return executor_cores(self._spark)

    def view(self) -> ClusterView | None:
        """Return what the standalone master, YARN or Kubernetes says; None if unknown."""
        if self.master == YARN:
            return look_at_yarn(yarn_addresses(yarn_conf_dirs()).pages, self.application_id, fetch_json)
        if self.master.startswith(KUBERNETES):
            return look_at_kubernetes(self._spark)
        if not masters_in(self.master):
            return None
        return look_at_master(self.master, self._port, worker_pages(self._spark), fetch_json)


def check_cores(
    spark: SparkSession,
    required: RequiredCores,
    timeout_s: float,
    *,
    restart: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> None:
    """Reject a job that could never run: slots hold their cores permanently, so epochs or relays would wait forever.

    Args:
        spark: The session.
        required: What the job needs.
        timeout_s: How long to wait for the executors of a cluster.
        restart: Whether the job has run before.
        say: Is called with sentences for users: what is waited for.

    Raises:
        JobExecutionError: There are too few cores.
        SparkLostError: This application will never get any.
    """
    threads = local_threads(str(spark.sparkContext.master))
    if threads is None:
        CoreWatch(SparkExecutors(spark), required, timeout_s, restart=restart, say=say).wait()
    elif threads < required.cores:
        raise _too_few(required, threads, "", f"the Spark master {spark.sparkContext.master} has {threads}")


class CoreWatch:
    """Checks whether an application has the cores that a job needs, and reports after some seconds why it hasn't.

    Args:
        executors: The application's.
        required: What the job needs.
        timeout_s: How long to wait for the cores.
        restart: Whether the job has run before: then fewer cores are enough, at lower speed.
        say: Is called with sentences for users: what is waited for.
        clock: Seconds.
    """

    def __init__(
        self,
        executors: Executors,
        required: RequiredCores,
        timeout_s: float,
        *,
        restart: bool,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._executors = executors
        self._required = required
        self._needed = required.cores
        self._least = required.least if restart else required.cores
        self._timeout_s = timeout_s
        self._restart = restart
        self._say = say
        self._clock = clock
        self._began = clock()
        self._look_again_s = _FIRST_LOOK_S
        self._said = ""

    def wait(self, given_up: Callable[[], bool] = lambda: False, pause: Callable[[float], object] = time.sleep) -> None:
        """Wait until the cores are available.

        Args:
            given_up: Returns whether the wait is given up.
            pause: Sleeps for a number of seconds.

        Raises:
            JobExecutionError: They haven't come in time.
            SparkLostError: They will never come.
        """
        while not self.enough() and not given_up():
            pause(_POLL_S)

    def enough(self) -> bool:
        """Return whether the cores are available.

        Raises:
            JobExecutionError: They haven't come in time.
            SparkLostError: They will never come.
        """
        cores = self._executors.cores()
        if cores >= self._needed:
            return True
        waited = self._clock() - self._began
        if cores >= self._least and waited >= min(_SLOW_S, self._timeout_s):
            self._say(f"The job goes on with {cores} of {self._needed} cores, and more slowly.")
            return True
        timed_out = waited >= self._timeout_s
        if not timed_out and waited < self._look_again_s:
            return False
        self._look_again_s = waited + _LOOK_EVERY_S
        view = self._executors.view()
        application, master = self._executors.application_id, self._executors.master
        state = application_state(application, cores, view, timed_out=timed_out, restart=self._restart)
        if state is ApplicationState.LOST:
            raise SparkLostError(lost_sentence(application, master, view, self._timeout_s), where=SparkOptions.MASTER.key)
        found = cores_sentence(application, master, cores, view)
        if state is ApplicationState.TOO_FEW:
            raise _too_few(self._required, cores, master, found)
        worth_telling = waited >= _SLOW_S or is_blocked(application, view)
        if worth_telling and found != self._said:
            self._say(f"Waiting for {self._needed} cores: {found}.")
            self._said = found
        return False


def _too_few(required: RequiredCores, cores: int, master: str, found: str) -> JobExecutionError:
    fitting, missing = required.fitting(cores), required.cores - cores
    more = f"give Spark more cores{_where_cores_come_from(master)}"
    hint = f"run with -p {fitting} or {more}" if fitting is not None else more
    formula = f" ({required.formula})" if required.formula else ""
    needs = f"Parallelism {required.parallelism} needs {required.cores} cores{formula}"
    message = f"{needs}; {found}; {missing} {'is' if missing == 1 else 'are'} missing."
    return JobExecutionError(message, where=SparkOptions.MASTER.key, hint=hint)


def worker_pages(spark: SparkSession) -> list[str]:
    """Return the web UI addresses of the workers on which executors of the application run or ran, the newest first."""
    found = []
    for executor in reversed(_executors(spark, active=False)):
        log = executor.executorLogs().get("stdout")
        if log.isDefined() and "/logPage" in str(log.get()):
            found.append(str(log.get()).partition("/logPage")[0])
    return list(dict.fromkeys(found))


def end_in_cluster(spark: SparkSession) -> str | None:
    """Return how the cluster has forgotten or ended the session's application, as the end of a sentence; else None."""
    try:
        executors = SparkExecutors(spark)
        view = executors.view()
    except Exception:  # py4j has several ways to say that the JVM is gone
        return None
    if view is None or view.knows(executors.application_id):
        return None
    return view.end(executors.application_id)


def executor_cores(spark: SparkSession) -> int:
    """Return how many tasks the present executors run concurrently.

    That is what Spark has asked for (`maxTasks`: cores, divided by `spark.task.cpus`), or less where an executor came with
    fewer cores, as Spark's recovery mode on Kubernetes makes them.
    """
    executors = _executors(spark, active=True)
    return sum(min(int(executor.maxTasks()), int(executor.totalCores())) for executor in executors)


def _executors(spark: SparkSession, *, active: bool) -> list[Any]:
    """Return Spark's summaries of the present executors, optionally with lost ones."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(active)  # noqa: SLF001
    found = [executors.apply(index) for index in range(executors.size())]
    return [executor for executor in found if executor.id() != "driver"]


def _where_cores_come_from(master: str) -> str:
    if master.startswith("spark://"):
        return " (workers of the cluster, and spark.cores.max where it is set)"
    if master.startswith((YARN, KUBERNETES)):
        return " (spark.executor.instances x spark.executor.cores)"
    return ""


def driver_address(spark: SparkSession) -> str:
    """Return the address at which slots on other hosts reach the driver: the one that Spark uses.

    Raises:
        ConfigurationError: It is not an address of this machine.
        ExternalSystemError: The name can't be resolved.
    """
    host = str(spark.conf.get("spark.driver.host"))
    try:
        # the IP address, since the name may resolve differently on another machine
        address = str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
        with socket.create_server((address, 0)):
            return address
    except socket.gaierror as error:
        message = f"Nobody knows the host {host}: {error.strerror}."
        raise ExternalSystemError(message, where="spark.driver.host", hint="set it to this machine's address") from error
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
