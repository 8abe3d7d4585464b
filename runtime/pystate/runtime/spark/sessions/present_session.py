"""A Spark session that the program has made itself: it is found, checked, and used; its settings stay as they are.

A job runs in a copy of it, which has its application, catalogs, temporary views and settings, and beside them the settings
that the job needs. So there is nothing to put back, however a job ends, and several jobs in one session don't meet.
"""

from __future__ import annotations

import sys
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_target import local_threads
from pystate.common.configuration.groups.execution_options import CoreOptions, ExecutionEngine, ExecutionOptions
from pystate.common.configuration.groups.pystate_options import SparkOptions
from pystate.common.errors import ConfigurationError
from pystate.common.processes.open_files import check_files_of_spark
from pystate.core.api.stream_graph import StreamGraph
from pystate.runtime.spark.applications.application import executor_cores
from pystate.runtime.spark.applications.required_cores import micro_batch_cores, real_time_cores
from pystate.runtime.spark.sessions.authentication import AUTHENTICATE
from pystate.runtime.spark.sessions.session import is_own, settings_of_job
from pystate.runtime.spark.sessions.session_copy import forget_listeners, session_like
from pystate.runtime.spark.sessions.session_requirements import AT_RUN_TIME, MASTER, Missing, missing, refusal
from pystate.runtime.spark.workers.python_files import add_python_files
from pystate.runtime.spark.workers.shipping import ship
from pystate.runtime.spark.workers.workers_of_present_session import WorkersOfPresentSession, check_python

_CONNECT = "pyspark.sql.connect"
_OLDEST = (4, 1)


def present_session() -> Any:
    """Return the session that the program has made and that is active; None if there is none, or we have made it.

    It is one of Spark Connect's if the program has no other.
    """
    context = pyspark.SparkContext._active_spark_context  # noqa: SLF001 - asking in public would start one
    if context is None or context._jsc is None:  # noqa: SLF001 - None once it is stopped
        connect = sys.modules.get(f"{_CONNECT}.session")
        return None if connect is None else connect.SparkSession.getActiveSession()
    if is_own(context):
        return None
    active = SparkSession.getActiveSession() or SparkSession._instantiatedSession  # noqa: SLF001 - the one for all threads
    return SparkSession(context) if active is None else active


def is_present(session: object) -> bool:
    """Whether something is a session of Spark that the program has made itself."""
    if type(session).__module__.startswith(_CONNECT):
        return True
    return isinstance(session, SparkSession) and not is_own(session.sparkContext)


class PresentSession:
    """A session of the program that a job is to run in.

    Args:
        session: The session.
        configuration: The options in force, with the parallelism of the job's widest step.

    Raises:
        ConfigurationError: No job can run in it; the error names all that it lacks.
    """

    def __init__(self, session: SparkSession, configuration: Configuration) -> None:
        check_version(session)
        self._session = session
        self._configuration = configuration
        context = session.sparkContext
        self._application = context.getConf().get
        self._is_local = local_threads(str(context.master)) is not None
        self._workers: WorkersOfPresentSession | None = None
        self._copy: SparkSession | None = None
        self._lacking = lacking_settings(configuration, session)
        if any(one.requirement.grave for one in self._lacking):
            raise refusal(self._lacking)
        if self._is_local:
            check_python(context)

    def notices(self) -> list[str]:
        """Return sentences about what makes jobs slower or less safe there, and about options that have no effect."""
        configuration = self._configuration
        less = [
            f"{one.requirement.key} = {one.requirement.value} ({one.requirement.why})"
            for one in self._lacking
            if one.requirement.key != AUTHENTICATE and one.requirement.engine is not ExecutionEngine.REAL_TIME
        ]  # of the others, the resource manager and the real-time engine tell
        found = []
        if less:
            text = "jobs run there, but not as well; pystate doctor --target session has lines to paste"
            found.append(f"The Spark session that is there was started without {', '.join(less)}: {text}.")
        master = configuration.get(SparkOptions.MASTER)
        without = {key: value for key, value in configuration.spark_properties().items() if not key.startswith(AT_RUN_TIME)}
        if master is not None:
            without[MASTER] = str(master)
        vain = sorted(key for key, value in without.items() if self._application(key) != value)
        if vain:
            found.append(f"The Spark session that is there goes on as it was started, without {', '.join(vain)}.")
        return found

    def cores(self, graph: StreamGraph) -> int:
        """Return how many cores a job takes at most; on the real-time engine each step may be a task of its own."""
        parallelism = int(self._configuration.get(CoreOptions.DEFAULT_PARALLELISM))
        if self._configuration.get(ExecutionOptions.ENGINE) is not ExecutionEngine.REAL_TIME:
            return micro_batch_cores(parallelism).cores
        return real_time_cores(parallelism, [parallelism for _ in graph.transformations()]).cores

    def all_cores(self) -> int:
        """Return the cores of the application."""
        threads = local_threads(str(self._session.sparkContext.master))
        return executor_cores(self._session) if threads is None else threads

    def for_job(self) -> SparkSession:
        """Return a session for one job, whose workers can import what the program can."""
        check_files_of_spark()
        add_python_files(self._configuration)
        context = self._session.sparkContext
        if self._is_local:
            self._workers = WorkersOfPresentSession(context)
        else:
            ship(self._session, self._configuration)
        present: Any = self._session.conf
        settings = settings_of_job(self._configuration, str(context.master), lambda key: present.get(key, None))
        self._copy = session_like(self._session, settings)
        return self._copy

    def job_ended(self) -> None:
        """Take back what workers on this machine were told for the job; files that a cluster got stay there."""
        copy, self._copy = self._copy, None
        if copy is not None:
            forget_listeners(copy)
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.job_ended()


def lacking_settings(configuration: Configuration, session: SparkSession) -> list[Missing]:
    """Return what the application of a session lacks for a job, see `missing`.

    Args:
        configuration: The options in force, with the parallelism of the job's widest step.
        session: The session.
    """
    parallelism, engine = configuration.get(CoreOptions.DEFAULT_PARALLELISM), configuration.get(ExecutionOptions.ENGINE)
    settings: Any = session.sparkContext.getConf()
    return missing(int(parallelism), engine, lambda key: settings.get(key, None))


def check_version(session: SparkSession) -> None:
    """Reject a session that has no slots, or whose Spark isn't that of this Python.

    Raises:
        ConfigurationError: It is one of Spark Connect, of another version, or stopped.
    """
    where = "spark session"
    if type(session).__module__.startswith(_CONNECT):
        message = "A session of Spark Connect can't run jobs: it has no SparkContext, whose tasks the slots are."
        hint = "make a classic one where Spark runs: SparkSession.builder.master(...).getOrCreate(), without .remote(...), "
        raise ConfigurationError(message, where=where, hint=f"{hint}SPARK_REMOTE and spark.api.mode = connect")
    if session.sparkContext._jsc is None:  # noqa: SLF001 - pyspark's own mark
        message = "The Spark session has been stopped."
        raise ConfigurationError(message, where=where, hint="make another one: SparkSession.builder.getOrCreate()")
    there, here = str(session.version), str(pyspark.__version__)
    if _version(there) != _version(here):
        message = f"The session's Spark is {there}, PySpark is {here}; both must be the same."
        raise ConfigurationError(message, where=where, hint="unset SPARK_HOME, or install the PySpark of that version")
    if _version(here) < _OLDEST:
        message = f"The session's Spark is {there}, which is too old."
        raise ConfigurationError(message, where=where, hint="install pyspark 4.1 or newer")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
