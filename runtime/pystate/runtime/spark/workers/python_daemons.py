"""Spark's daemons that fork Python workers: one that was lost half way through its start is started again.

A task that is cancelled while the daemon dies under its start leaves Spark with a process and without its socket. All tasks
from then on want that socket, and fail with a NullPointerException, those of all attempts to come, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystate.runtime.spark.java_fields import private_field, spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIX_SOCKETS_KEY = "spark.python.unix.domain.socket.enabled"
"""With ports instead Spark notices by itself."""
_FACTORY = "org.apache.spark.api.python.PythonWorkerFactory"


class PythonDaemons:
    """The daemons of a session whose tasks run on this machine, each with what makes its workers.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001 - neither Spark nor py4j has another way to them

    def revive(self) -> int:
        """Have Spark forget those that it has no socket of; return how many there were."""
        if str(self._spark.sparkContext.getConf().get(UNIX_SOCKETS_KEY, "false")).lower() != "true":
            return 0
        broken = 0
        for factory in self.factories():
            if self._has_no_socket(factory):
                self._await_start(factory)
                if self._has_no_socket(factory):
                    factory.stop()
                    broken += 1
        return broken

    def factories(self) -> list[Any]:
        """Return what makes workers."""
        context = self._spark.sparkContext
        workers = private_field(context, "org.apache.spark.SparkEnv", "pythonWorkers")
        found = workers.get(spark_environment(context)).valuesIterator()
        factories = []
        while found.hasNext():
            factories.append(found.next())
        return factories

    def _has_no_socket(self, factory: Any) -> bool:
        process, socket = (
            private_field(self._spark.sparkContext, _FACTORY, name).get(factory) for name in ("daemon", "daemonSockPath")
        )
        return process is not None and socket is None

    def _await_start(self, factory: Any) -> None:
        """Wait for a task that starts the daemon just now: it holds the lock that this asks for, to do nothing."""
        new_array = self._spark.sparkContext._gateway.new_array  # type: ignore[union-attr]  # noqa: SLF001
        nothing = new_array(self._jvm.java.lang.Class, 0)
        start = self._jvm.java.lang.Class.forName(_FACTORY).getDeclaredMethod("startDaemon", nothing)
        start.setAccessible(True)
        start.invoke(factory, new_array(self._jvm.java.lang.Object, 0))
