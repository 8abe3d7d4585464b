"""A TCP proxy that delays, cuts and half-closes connections on demand."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Trouble(Enum):
    """What happens to a connection."""

    CUT = "cut"  # half of what was read is passed on, then both sides see the end
    HALF_CLOSE = "half close"  # half of it is passed on, then the receiver sees the end; the other direction stays open
    DELAY = "delay"  # it is passed on later


@dataclass
class Ambush:
    """Waits for bytes to pass.

    Attributes:
        trouble: What it makes.
        pattern: It strikes where these bytes pass; empty for any.
        to_server: In which direction.
        seconds: How long a delay is.
        times: How often it strikes.
        struck: How often it has.
    """

    trouble: Trouble
    pattern: bytes = b""
    to_server: bool = True
    seconds: float = 0.0
    times: int = 1
    struck: int = 0


class Proxy:
    """Stands in front of a server; one ambush at a time.

    Args:
        target: The server's host and port.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._ambush: Ambush | None = None
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = ("127.0.0.1", self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def lay(self, ambush: Ambush | None) -> None:
        """Wait for bytes to pass from now on; None for no more."""
        with self._lock:
            self._ambush = ambush

    def close(self) -> None:
        """Accept nobody any more."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            for source, sink, to_server in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._forward, args=(source, sink, to_server), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                ambush = self._sprung(data, to_server)
                if ambush is None:
                    sink.sendall(data)
                elif ambush.trouble is Trouble.DELAY:
                    time.sleep(ambush.seconds)
                    sink.sendall(data)
                else:
                    sink.sendall(data[: len(data) // 2])
                    if ambush.trouble is Trouble.CUT:
                        _end(source, sink)
                    break
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _sprung(self, data: bytes, to_server: bool) -> Ambush | None:
        with self._lock:
            ambush = self._ambush
            if ambush is None or ambush.to_server is not to_server or ambush.struck >= ambush.times:
                return None
            if ambush.pattern not in data:
                return None
            ambush.struck += 1
            return ambush


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


class Network:
    """Proxies between the slots of in-process jobs and all who speak with them, over TCP as on a cluster.

    Attributes:
        exchanges: Before the slots' exchange addresses; those of the newest attempt stand last.
        coordinators: Before the coordinator, one per attempt.
    """

    def __init__(self, monkeypatch: Any) -> None:
        from pystate.runtime.execution.slots import slot_pool
        from pystate.runtime.spark import spark_resource_manager as resource_manager
        from pystate.runtime.spark.applications.application import driver_address

        self.exchanges: list[Proxy] = []
        self.coordinators: list[Proxy] = []
        manager = resource_manager.SparkResourceManager
        monkeypatch.setattr(manager, "host", property(lambda self: driver_address(self._spark)))
        # no Unix sockets; each of them sets it for itself
        monkeypatch.setattr(manager, "one_machine", property(lambda _: False, lambda *_: None), raising=False)
        monkeypatch.setattr(manager, "check_slots", lambda *_, **__: None)  # there are no executors
        monkeypatch.setattr(manager, "watch", lambda *_, **__: None)
        register, description = slot_pool.SlotPool._register, slot_pool.SlotDescription

        def behind_proxy(pool: Any, index: int, *, data: Any, **arguments: Any) -> None:
            self.exchanges.append(Proxy((str(data[0]), int(data[1]))))
            register(pool, index, data=list(self.exchanges[-1].address), **arguments)

        def with_proxy(*, coordinator: tuple[str, int], **arguments: Any) -> Any:
            self.coordinators.append(Proxy(coordinator))
            return description(coordinator=self.coordinators[-1].address, **arguments)

        monkeypatch.setattr(slot_pool.SlotPool, "_register", behind_proxy)
        monkeypatch.setattr(slot_pool, "SlotDescription", with_proxy)

    def lay(self, proxies: list[Proxy], ambush: Ambush) -> Ambush:
        """Lay one ambush for all connections through some proxies, in the place of earlier ones."""
        self.clear()
        for proxy in proxies:
            proxy.lay(ambush)
        return ambush

    def clear(self) -> None:
        """Take all ambushes away."""
        for proxy in [*self.exchanges, *self.coordinators]:
            proxy.lay(None)

    def close(self) -> None:
        """Accept nobody any more."""
        for proxy in [*self.exchanges, *self.coordinators]:
            proxy.close()
