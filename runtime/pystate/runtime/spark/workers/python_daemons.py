"""Restarts Spark daemons (which fork Python workers) that were lost during their start.

If a task is cancelled while it starts the daemon, Spark may have the process without its socket. All later tasks, of all
later attempts, then fail with a NullPointerException.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystate.runtime.spark.java_fields import private_field, spark_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIX_SOCKETS_KEY = "spark.python.unix.domain.socket.enabled"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"
"""With ports, Spark notices by itself."""
_FACTORY = "org.apache.spark.api.python.PythonWorkerFactory"


class PythonDaemons:
    """The daemons, with their worker factories, of a session whose tasks run on this machine.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm  # noqa: SLF001 - neither Spark nor py4j has another way to them

    def revive(self) -> int:
        """Make Spark forget daemons without a socket; return their number."""
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
        """Return the worker factories."""
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
        """Wait for a task that is starting the daemon, by acquiring the lock that it holds."""
        new_array = self._spark.sparkContext._gateway.new_array  # type: ignore[union-attr]  # noqa: SLF001
        nothing = new_array(self._jvm.java.lang.Class, 0)
        start = self._jvm.java.lang.Class.forName(_FACTORY).getDeclaredMethod("startDaemon", nothing)
        start.setAccessible(True)
        start.invoke(factory, new_array(self._jvm.java.lang.Object, 0))
