"""Closes the local ports of Spark's streaming shuffle once all its readers have connected.

Each writing task (`StreamingShuffleWriter`, 4.3.0) listens on all addresses of the machine, whatever Spark's settings say,
and doesn't authenticate clients: the first client that names a reader is sent its rows, and a single unknown message ends
the query. With a local master the readers are threads of the same JVM, and all connect before the first record. After that
no one has to connect any more, and the kernel knows whether anyone else was connected before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobExecutionError
from pystate.runtime.spark.java_fields import private_field, spark_environment
from pystate.runtime.spark.sessions.own_connections import is_own_address

if TYPE_CHECKING:
    from pyspark import SparkContext

_SPARK = "org.apache.spark"
_SHUFFLE = "shuffle.streaming"
_WRITER = f"{_SHUFFLE}.StreamingShuffleWriter"
_GROUP = "spark.jobGroup.id"
_LOCAL_ENDPOINT = "scheduler.local.LocalEndpoint"


class ShuffleServers:
    """The servers of a query's shuffles.

    Args:
        context: The context of an application with a local master.
        count: The number of servers.
        group: The job group of the query: another job's servers may be in the same JVM.
    """

    def __init__(self, context: SparkContext, count: int, group: str) -> None:
        self._context = context
        self._group = group
        self._count = count
        self._closed = count == 0

    def close(self) -> bool:
        """Close the servers to which all readers have connected; return whether all servers are closed.

        Raises:
            JobExecutionError: A connected client is no process of this user.
        """
        if not self._closed:
            writers = list(self._writers())
            self._closed = all([self._close(writer) for writer in writers]) and len(writers) >= self._count
        return self._closed

    def _close(self, writer: Any) -> bool:
        server = self._field(_WRITER, "server", writer)
        channel = self._field("network.server.TransportServer", "channelFuture", server).channel()
        handler = self._field(_WRITER, "transportServerHandler", writer)
        readers = list(self._field(f"{_SHUFFLE}.StreamingShuffleServerHandler", "futureClients", handler))
        if not all(reader.isDone() for reader in readers):
            return False
        channel.close().awaitUninterruptibly()
        for reader in readers:
            connection = reader.get().getChannel()
            here, there = _address(connection.localAddress()), _address(connection.remoteAddress())
            if not is_own_address(here, there):
                message = f"Another user of this machine has connected to Spark's streaming shuffle, from port {there[1]}."
                raise JobExecutionError(message, hint="no record has gone there; see who runs what on this machine")
        return True

    def _writers(self) -> Iterator[Any]:
        """Yield the writers of running tasks: only the listener that ends them with their task refers to them."""
        runners = self._field("executor.Executor", "runningTasks", self._executor())
        jvm: Any = self._context._jvm  # noqa: SLF001 - pyspark has no public way to Java's classes
        # py4j's own `values()` looks up each key again, as a number of another type
        for runner in list(jvm.java.util.Collections.list(runners.elements())):
            task = self._field("executor.Executor$TaskRunner", "task", runner)
            context = None if task is None else self._field("scheduler.Task", "context", task)
            if context is None or context.getLocalProperty(_GROUP) != self._group:
                continue
            for listener in list(self._field("TaskContextImpl", "onCompleteCallbacks", context)):
                writer = self._captured(self._captured(listener))
                if writer is not None and writer.getClass().getName() == f"{_SPARK}.{_WRITER}":
                    yield writer

    def _executor(self) -> Any:
        environment = self._field("SparkEnv", "rpcEnv", spark_environment(self._context))
        dispatcher = self._field("rpc.netty.NettyRpcEnv", "dispatcher", environment)
        endpoints = self._field("rpc.netty.Dispatcher", "endpointRefs", dispatcher).keySet()
        (local,) = (one for one in list(endpoints) if one.getClass().getName() == f"{_SPARK}.{_LOCAL_ENDPOINT}")
        return self._field(_LOCAL_ENDPOINT, f"{_SPARK.replace('.', '$')}$scheduler$local$LocalEndpoint$$executor", local)

    def _captured(self, closure: Any) -> Any:
        """Return the object that a closure refers to, if there is exactly one."""
        if closure is None:
            return None
        fields = list(closure.getClass().getDeclaredFields())
        if len(fields) != 1:
            return None
        fields[0].setAccessible(True)
        found = fields[0].get(closure)
        return found if hasattr(found, "getClass") else None

    def _field(self, owner: str, name: str, of: Any) -> Any:
        return private_field(self._context, f"{_SPARK}.{owner}", name).get(of)


def _address(address: Any) -> tuple[str, int]:
    return str(address.getAddress().getHostAddress()), int(address.getPort())
