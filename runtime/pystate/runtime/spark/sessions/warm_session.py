"""A Spark session that is created before its job is known, and is used for the job if it has the required settings."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_target import execution_target
from pystate.common.configuration.groups.job_manager_options import JobManagerOptions
from pystate.runtime.spark.applications.cluster_settings import worker_python
from pystate.runtime.spark.sessions.session import create_session, python_path, session_settings
from pystate.runtime.spark.workers.python_files import add_python_files

if TYPE_CHECKING:
    from subprocess import Popen

    from pyspark.sql import SparkSession

_PACKAGES = ("site-packages", "dist-packages")
_CONFIGURATION_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


class WarmSession:
    """A session without a job.

    PySpark has one session per process. Until this one becomes the job's, it is hidden from PySpark, so that a program that
    creates its own session with its own settings gets its own JVM.

    Args:
        spark: The session.
        traits: What it was created with, see `session_traits`.

    Attributes:
        jvm: The process id of its JVM.
    """

    def __init__(self, spark: SparkSession, traits: Mapping[str, str]) -> None:
        self._spark = spark
        self._traits = dict(traits)
        self._path = list(sys.path)
        gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - nobody else knows the process
        self.jvm: Popen[bytes] = gateway.proc
        self._known: dict[tuple[type, str], Any] = {}

    @classmethod
    def make(cls, configuration: Configuration, folder: Path) -> WarmSession:
        """Create a session whose JVM prints to this process's stderr.

        Args:
            configuration: The configuration of its settings.
            folder: For files that are needed while its JVM starts.

        Raises:
            PystateError: A setting is refused, or there is no Java.
        """
        spark = create_session(configuration, "pystate", folder / "log", output=sys.stderr.fileno())
        return cls(spark, session_traits(configuration))

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark

    def hide(self) -> None:
        """Hide the session from PySpark."""
        self._known = {(owner, name): getattr(owner, name) for owner, name in _places()}
        for owner, name in self._known:
            setattr(owner, name, None)

    def unlike(self, configuration: Configuration) -> list[str]:
        """Return the differences to the session that a job needs, in words; empty if there are none.

        Args:
            configuration: The job's configuration.

        Raises:
            PystateError: A setting is refused.
        """
        needed = session_traits(configuration)
        different = sorted(key for key in {*needed, *self._traits} if needed.get(key) != self._traits.get(key))
        return different if self.jvm.poll() is None else [*different, "its JVM has ended"]

    def become(self, configuration: Configuration) -> SparkSession:
        """Return the session for a job, whose modules its workers can import.

        Args:
            configuration: The job's configuration.
        """
        for (owner, name), value in self._known.items():
            setattr(owner, name, value)
        add_python_files(configuration)  # the program itself may have named some
        # for processes that the program starts; the workers of this session have their path from the JVM's start
        os.environ["PYTHONPATH"] = python_path()
        context: Any = self._spark.sparkContext
        added = [path for path in sys.path if path and path not in self._path]
        context._python_includes.extend(reversed(added))  # noqa: SLF001 - each goes before the earlier ones
        return self._spark

    def end(self) -> None:
        """End its JVM, which deletes what it has on disk. Returns at once."""
        context: Any = self._spark.sparkContext

        def end() -> None:
            # else it would write a stack trace of the connection that breaks; it looks once a second
            context._accumulatorServer.shutdown()  # noqa: SLF001 - `stop()` would take away the session that follows
            with contextlib.suppress(OSError):
                if self.jvm.stdin is not None:
                    self.jvm.stdin.close()

        threading.Thread(target=end, name="warm-session-end", daemon=True).start()


def session_traits(configuration: Configuration) -> dict[str, str]:
    """Return all traits that a session created now would have; sessions with equal traits are interchangeable.

    Raises:
        PystateError: A setting is refused.
    """
    add_python_files(configuration)
    settings = session_settings(configuration)
    traits = {
        **settings,
        "the Python of its workers": worker_python(configuration, execution_target(configuration), settings),
        JobManagerOptions.CLASS_DATA_ARCHIVE.key: str(configuration.get(JobManagerOptions.CLASS_DATA_ARCHIVE)),
    }
    for path in _files(settings):
        with contextlib.suppress(OSError):
            facts = os.stat(path)
            if stat.S_ISREG(facts.st_mode):
                traits[f"the file {path}"] = f"{facts.st_size} {facts.st_mtime_ns}"
    for path in sys.path:
        if os.path.basename(path) in _PACKAGES:
            with contextlib.suppress(OSError):
                traits[f"the packages in {path}"] = str(os.stat(path).st_mtime_ns)  # each installation makes a folder there
    return traits


def _files(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that a session or its workers have read, whose changes would matter."""
    for value in settings.values():
        for word in value.split(","):
            path = word.strip().removeprefix("file://").removeprefix("file:").partition("#")[0]
            if os.path.isabs(path):
                yield path
    homes = [os.path.join(os.environ["SPARK_HOME"], "conf")] if "SPARK_HOME" in os.environ else []
    for folder in (*homes, *(os.environ[name] for name in _CONFIGURATION_FOLDERS if name in os.environ)):
        with contextlib.suppress(OSError):
            yield from (entry.path for entry in os.scandir(folder))
    for folder, _, names in os.walk(os.path.dirname(pystate.__file__)):
        yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _places() -> list[tuple[type, str]]:
    """Return the attributes in which PySpark keeps the session of a process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    of_context = ("_gateway", "_jvm", "_active_spark_context")
    return [(SparkContext, name) for name in of_context] + [
        (SparkSession, name) for name in ("_instantiatedSession", "_activeSession")
    ]
