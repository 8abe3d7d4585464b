"""The SparkSession a job runs in."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_target import execution_target, local_threads
from pystate.common.configuration.groups.deployment_options import ExecutionTarget
from pystate.common.configuration.groups.execution_options import CoreOptions, ExecutionEngine, ExecutionOptions
from pystate.common.configuration.groups.job_manager_options import JobManagerOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions, SparkOptions
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.configuration.sensitive_keys import REDACTED
from pystate.common.errors import ConfigurationError
from pystate.common.files.home import write_file_atomically
from pystate.common.processes.java import find_java
from pystate.common.processes.open_files import check_files_of_spark
from pystate.connectors.installed_connectors import spark_formats
from pystate.runtime.logs.pipes import descriptor_into, log_bounds
from pystate.runtime.slot.output_buffer import BYTES_PER_BATCH
from pystate.runtime.spark import worker_site
from pystate.runtime.spark.applications.cluster_settings import archive_settings, cluster_settings, worker_python
from pystate.runtime.spark.applications.kubernetes import delete_earlier_pods
from pystate.runtime.spark.applications.kubernetes_pods import KUBERNETES
from pystate.runtime.spark.applications.required_cores import micro_batch_cores
from pystate.runtime.spark.applications.yarn_resource_manager import hadoop_variables
from pystate.runtime.spark.sessions.authentication import encryption_settings, local_settings
from pystate.runtime.spark.sessions.class_data_archive import archive_options
from pystate.runtime.spark.sessions.local_dir import private_local_dir
from pystate.runtime.spark.sessions.real_time_settings import application_settings, real_time_threads
from pystate.runtime.spark.sessions.secret_settings import secret_settings, secrets_by_file
from pystate.runtime.spark.sessions.session_requirements import (
    AT_RUN_TIME,
    HEARTBEATS,
    HEARTBEATS_THAT_FAIL,
    LEAST,
    REFUSED,
    WORKER_SILENCE,
    WORKER_SILENCE_S,
    is_at_least,
)
from pystate.runtime.spark.sessions.submitted import GATEWAY
from pystate.runtime.spark.workers.python_files import add_python_files
from pystate.runtime.spark.workers.shipping import ship

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"
_CHECKSUMS = (f"{_CHECKSUM}.enabled", f"{_CHECKSUM}.enableFullRetryOnMismatch")
_SHUFFLES = "spark.sql.shuffle.partitions"
_SHUFFLES_OF_SPARK = "200"
_DISCOVERY = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_OF_QUERIES = {
    "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
    # a rerun task that writes different rows fails its stage; the default of 4.3
    **dict.fromkeys(_CHECKSUMS, "true"),
    # Spark's own bound is 10,000 rows, whatever their size: past 2 GiB a batch fails, each time it is tried
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BYTES_PER_BATCH),
}
"""What every query of a job needs, also in a session that the program has made."""

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.allowlist.name = org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist
logger.allowlist.level = error
logger.writer.name = org.apache.spark.shuffle.streaming.StreamingShuffleWriter
logger.writer.level = error
"""
"""Left out: warnings of the stages and the memory that the real-time engine means to use, in each attempt, and those that
connectors name."""

_LOCAL_DIR = "spark.local.dir"
_DAEMON = "spark.python.daemon.module"
_OUR_DAEMON = "pystate.runtime.engines.worker_daemon"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_OWN: weakref.WeakSet[SparkContext] = weakref.WeakSet()
"""The applications that this process has started for jobs."""


def python_path() -> str:
    """Return the module search path of this process in the form of `PYTHONPATH`."""
    return os.pathsep.join(dict.fromkeys(path for path in sys.path if path))


def session_settings(configuration: Configuration) -> dict[str, str]:
    """Return the settings of the session, except for logging; the user's override ours.

    Raises:
        ConfigurationError: A setting would lose or duplicate state, or the settings of the cluster are wrong.
        ExternalSystemError: The cluster doesn't answer.
    """
    parallelism = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM))
    target = execution_target(configuration)
    is_real_time = configuration.get(ExecutionOptions.ENGINE) is ExecutionEngine.REAL_TIME
    cores = real_time_threads(parallelism) if is_real_time else micro_batch_cores(parallelism).cores
    master = str(configuration.get(SparkOptions.MASTER) or f"local[{cores},{1 if is_real_time else 4}]")
    users = configuration.spark_properties()
    for key, reason in REFUSED.items():
        if users.get(key, "false").lower() == "true":
            message = f"{key} = true can't be used: {reason}."
            raise ConfigurationError(message, where=key, hint=f"leave {key} out")
    _check_least(users)
    _check_checksums(users)
    if users.get("spark.submit.deployMode", "client").lower() == "cluster":
        message = "spark.submit.deployMode = cluster can't be used: the driver runs under the job manager."
        raise ConfigurationError(message, where="spark.submit.deployMode", hint="leave it out")
    if "spark.remote" in users:
        message = "spark.remote can't be used: Spark Connect has no SparkContext, whose tasks the slots are."
        raise ConfigurationError(message, where="spark.remote", hint=f"set {SparkOptions.MASTER.key}")
    settings = {
        # a second number above 1: a lost Python worker costs a retry of its task, not the query
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        _SHUFFLES: str(parallelism),
        "spark.sql.session.timeZone": "UTC",
        **_OF_QUERIES,
        "spark.python.udf.pipelined.enabled": "true",
        # an epoch counts when the status store has the ends of its tasks: no event may be dropped
        "spark.scheduler.listenerbus.eventqueue.appStatus.capacity": "100000",
        # a worker ends when its JVM is silent for so long: the default of 15 s is too short on a busy machine
        WORKER_SILENCE: f"{WORKER_SILENCE_S}s",
        # Spark's event log and web UI hide what we hide
        "spark.redaction.regex": REDACTED,
        # clusters turn them on for everybody, in a spark-defaults.conf
        **dict.fromkeys(REFUSED, "false"),
    }
    if is_real_time:
        # the rest is its query's: one row a batch would be any other's ruin
        settings.update(application_settings(one_machine=target is not ExecutionTarget.SPARK))
    if target is ExecutionTarget.SPARK:
        if configuration.get(SecurityOptions.SSL_INTERNAL_ENABLED):
            settings.update(encryption_settings())
        settings.update(
            cluster_settings(configuration, master, users, configuration.get(PystateOptions.SLOT_STARTUP_TIMEOUT) / 1000)
        )
    else:
        settings.update(archive_settings(configuration, master, users))
        settings.update({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", **local_settings(users)})
        # workers have this process's path, and with it this pystate; executors have what is shipped to them later
        settings[_DAEMON] = _OUR_DAEMON
        # lost shuffle files cost a local master its only executor, which needs no heartbeat: 60 that fail end the JVM
        settings[HEARTBEATS] = str(HEARTBEATS_THAT_FAIL)
        # more than 32 files are looked at in a job of their own first, with a task for each of them
        settings[_DISCOVERY] = str(local_threads(master) or parallelism)
        if _LOCAL_DIR not in users and "SPARK_LOCAL_DIRS" not in os.environ:  # which counts for more than the setting
            settings[_LOCAL_DIR] = private_local_dir()
    settings.update(users)
    return settings


def spark_settings(configuration: Configuration, log: Path) -> dict[str, str]:
    """Return the settings of the session, with logging; see `session_settings`.

    Raises:
        ConfigurationError: A setting would lose or duplicate state, or the settings of the cluster are wrong.
        ExternalSystemError: The cluster doesn't answer.
    """
    settings = session_settings(configuration)
    log4j = log.with_name("log4j2.properties")
    quiet = (logger for one in spark_formats() for logger in one.quiet_loggers)
    lines = [f"logger.q{number}.name = {name}\nlogger.q{number}.level = error\n" for number, name in enumerate(quiet)]
    write_file_atomically(log4j, "".join([_LOG4J, *lines]).encode())
    java_options = f'"-Dlog4j2.configurationFile={log4j.as_uri()}"'  # quoted for Spark, which splits at spaces
    settings[_JAVA_OPTIONS] = " ".join(part for part in (settings.get(_JAVA_OPTIONS), java_options) if part)
    return settings


def settings_of_job(configuration: Configuration, master: str, present: Callable[[str], str | None]) -> dict[str, str]:
    """Return what a job sets in a copy of a session that was there already; all of it can be set at any time.

    Args:
        configuration: The options in force, with the job's highest parallelism.
        master: The master of the session.
        present: Returns a setting of the session; None if it isn't set.
    """
    settings = dict(_OF_QUERIES)
    settings.update({key: "false" for key in REFUSED if key.startswith(AT_RUN_TIME)})
    for key, (least, _) in LEAST.items():
        if key.startswith(AT_RUN_TIME) and not is_at_least(present(key), least):
            settings[key] = str(least)
    parallelism = int(configuration.get(CoreOptions.DEFAULT_PARALLELISM))
    if present(_SHUFFLES) in (None, _SHUFFLES_OF_SPARK):
        settings[_SHUFFLES] = str(parallelism)
    threads = local_threads(master)
    if threads is not None:
        settings[_DISCOVERY] = str(threads)
    settings.update({key: value for key, value in configuration.spark_properties().items() if key.startswith(AT_RUN_TIME)})
    return settings


def is_own(context: SparkContext) -> bool:
    """Whether this process has started the application for jobs, with all settings that they need."""
    return context in _OWN


def check_session(spark: SparkSession) -> None:
    """Reject wrong settings that the program, or a Spark file, has set in the session; see `spark_settings`.

    Raises:
        ConfigurationError: A setting would lose or duplicate state.
    """
    for key, reason in REFUSED.items():
        if str(spark.conf.get(key, "false")).lower() == "true":
            message = f"{key} = true can't be used: {reason}."
            raise ConfigurationError(message, where=key, hint=f"leave {key} out, in the program and in spark-defaults.conf")
    known = {key: value for key in (*LEAST, *_CHECKSUMS) if (value := spark.conf.get(key, None)) is not None}
    _check_least(known)
    _check_checksums(known)


def _check_checksums(settings: Mapping[str, str]) -> None:
    """Require that Spark detects a rerun task that writes different rows: they would reach two subtasks, or none.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    for key in _CHECKSUMS:
        if settings.get(key, "true").lower() != "true":
            message = (
                f"{key} = {settings[key]} can't be used: rows that a task writes otherwise when it is run again get lost."
            )
            raise ConfigurationError(message, where=key, hint=f"leave {key} out")


def _check_least(settings: Mapping[str, str]) -> None:
    """Require that Spark retains long enough what a checkpoint, a restore, or the proof of an epoch reads.

    Raises:
        ConfigurationError: The setting is wrong.
    """
    for key, (least, reason) in LEAST.items():
        text = settings.get(key)
        if not is_at_least(text, least):
            message = f"{key} = {text} can't be used: {reason}."
            raise ConfigurationError(message, where=key, hint=f"leave it out, or set {least} or more")


def create_session(configuration: Configuration, app_name: str, log: Path, output: int | None = None) -> SparkSession:
    """Return a session whose workers run this Python and whose output goes to `log`.

    Args:
        configuration: The options in force.
        app_name: Its name in Spark.
        log: The file.
        output: A descriptor for the output instead of the file; the file's folder then only holds settings for a while.

    Raises:
        ConfigurationError: A setting is refused, or too few files may be open.
        JavaNotFoundError: No Java is found.
        ExternalSystemError: The cluster doesn't answer.
    """
    check_files_of_spark()
    add_python_files(configuration)  # the program itself may have named some
    settings = spark_settings(configuration, log)
    target = execution_target(configuration)
    java = find_java()
    os.environ.update(java.environment)
    os.environ.update(hadoop_variables(configuration))
    if configuration.get(JobManagerOptions.CLASS_DATA_ARCHIVE):
        options = settings[_JAVA_OPTIONS]
        settings[_JAVA_OPTIONS] = f"{archive_options(java, os.environ, options)} {options}".strip()
    os.environ["PYSPARK_PYTHON"] = worker_python(configuration, target, settings)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # workers on this machine must find the job's modules, which are in the folder of its file
    os.environ["PYTHONPATH"] = f"{worker_site.FOLDER}{os.pathsep}{python_path()}"
    from pyspark.sql import SparkSession  # late: the import of pyspark takes longer than the checks above

    from pystate.runtime.spark.sessions.own_connections import guard_listeners

    builder = SparkSession.builder.appName(app_name)
    # a JVM that is there gets them by its socket; otherwise they must not be in the command line of the one to start
    submitted = GATEWAY in os.environ
    secrets = {} if submitted else secret_settings(settings)
    if submitted and target is not ExecutionTarget.SPARK:  # the environment of that JVM is none of ours
        builder = builder.config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
    for key, value in settings.items():
        if key not in secrets:
            builder = builder.config(key, value)
    output = descriptor_into(log, log_bounds(configuration)) if output is None else output
    with _output_of_children(output), secrets_by_file(secrets, log.parent):
        guard_listeners()
        session = builder.getOrCreate()
    _OWN.add(session.sparkContext)
    _leave_no_socket(session)
    _end_without_children(session)
    if settings["spark.master"].startswith(KUBERNETES):
        delete_earlier_pods(session, lambda sentence: sys.stderr.write(f"{sentence}\n"))
    if target is ExecutionTarget.SPARK:
        ship(session, configuration)
    return session


def _leave_no_socket(session: SparkSession) -> None:
    """Let the JVM, which always ends after this process, delete the accumulator socket, which PySpark doesn't delete."""
    address = session.sparkContext._accumulatorServer.server_address  # noqa: SLF001 - there is no public way to it
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    if isinstance(address, str):
        jvm.java.io.File(address).deleteOnExit()


def _end_without_children(session: SparkSession) -> None:
    """Let the JVM end with this process, though children that it has forked live on.

    The JVM ends when its standard input is closed, of which forked children have a copy.
    """
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - there is no public way to it
    if gateway.proc is not None:
        os.register_at_fork(after_in_child=gateway.proc.stdin.close)


@contextlib.contextmanager
def _output_of_children(log: int) -> Iterator[None]:
    """Redirect stdout and stderr of processes started within this context to a descriptor.

    The JVM and all its Python workers inherit the two, and keep them.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        for descriptor, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
