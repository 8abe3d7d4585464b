"""The connections of the REST endpoint, bounded in number and in time.

Each is in one of three stages: without a request yet, receiving a body, or being served. Each stage has a total limit and
    one per peer; at a limit the oldest connection is closed for the next one. So idle peers can't block others.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from pystate.common.processes.connection_limiter import (
    HANDSHAKE_SECONDS,
    ConnectionLimiter,
    cut_descriptor,
    peer_name,
    places,
)
from pystate.common.processes.control import OUT_OF_DESCRIPTORS
from pystate.ops.jobmanager.web.request_guard import BODY_SECONDS

logger = logging.getLogger(__name__)

_SERVING_SECONDS = 600.0
"""How long an answer may take, with a large log to a slow reader; what asks a driver takes 30 s."""
_LATE_SECONDS = 5.0
"""After its deadline a body is answered with 408; then the connection is cut."""
_PAUSE_SECONDS = 0.5
"""How long nothing is accepted while no file can be opened; the event loop itself waits for a second."""
_SAID_EVERY_SECONDS = 60.0


class Stage(Enum):
    """The stage of a connection."""

    SILENT = "no request yet"
    BODY = "a body on its way"
    SERVING = "a request being served"


class Accepted(socket.socket):
    """A connection that reports when it is closed."""

    connections: RestConnections
    stage: Stage | None
    peer: str

    def close(self) -> None:
        """Close it."""
        self.connections.forget(self)
        super().close()


class RestConnections:
    """Keeps the connections of one server, on the thread of its event loop.

    Args:
        most: The maximum number of connections without a request, and of those being served.
        clock: Returns monotonic seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        most = places(most)
        self._clock = clock
        self._limiters = {
            Stage.SILENT: self._limiter(most, HANDSHAKE_SECONDS),
            Stage.BODY: self._limiter(max(most // 2, 1), BODY_SECONDS + _LATE_SECONDS),
            Stage.SERVING: self._limiter(most, _SERVING_SECONDS),
        }
        self._by_descriptor: dict[int, Accepted] = {}
        self._paused_until = 0.0
        self._exhausted = False
        self._said_at = -_SAID_EVERY_SECONDS
        self._said_count = 0

    def __len__(self) -> int:
        return len(self._by_descriptor)

    def accept(self, accept: Callable[[], tuple[socket.socket, Any]]) -> tuple[Accepted, Any]:
        """Accept a connection and register it.

        Raises:
            BlockingIOError: No connection is accepted at the moment.
            OSError: As raised by `accept`; too many open files are logged once, and there is a pause before the next try.
        """
        if self._clock() < self._paused_until:
            raise BlockingIOError
        try:
            plain, address = accept()
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                self._back_off(error)
            raise
        if self._exhausted:
            self._exhausted = False
            logger.info("connections are accepted again")
        accepted = Accepted(plain.family, plain.type, plain.proto, fileno=plain.detach())
        accepted.connections, accepted.stage, accepted.peer = self, None, peer_name(address)
        self._by_descriptor[accepted.fileno()] = accepted
        self.move(accepted, Stage.SILENT)
        return accepted, address

    def of_descriptor(self, descriptor: int) -> Accepted | None:
        """Return the connection of a descriptor."""
        return self._by_descriptor.get(descriptor)

    def move(self, accepted: Accepted, stage: Stage) -> None:
        """Move a connection to another stage, which has its own timeout."""
        if accepted.stage is not None:
            if not self._limiters[accepted.stage].remove(accepted):
                return  # it is closed
            accepted.stage = None
        accepted.stage = stage
        self._limiters[stage].add(accepted, accepted.peer)

    def forget(self, accepted: Accepted) -> None:
        """Remove a connection that is about to be closed."""
        if accepted.stage is not None:
            self._limiters[accepted.stage].remove(accepted)
        if self._by_descriptor.get(accepted.fileno()) is accepted:
            del self._by_descriptor[accepted.fileno()]

    def look(self) -> None:
        """Close connections that have timed out."""
        for limiter in self._limiters.values():
            limiter.cut_expired()
        cut = sum(limiter.cut_count for limiter in self._limiters.values())
        if cut > self._said_count and self._clock() - self._said_at >= _SAID_EVERY_SECONDS:
            self._said_count, self._said_at = cut, self._clock()
            logger.warning("%d connections were cut so far that took too long or too many places", cut)

    def _back_off(self, error: OSError) -> None:
        if not self._exhausted:
            self._exhausted = True
            logger.warning("connections can't be accepted, and wait: %s", error)
        self._paused_until = self._clock() + _PAUSE_SECONDS
        self._limiters[Stage.SILENT].cut_oldest()

    def _limiter(self, most: int, seconds: float) -> ConnectionLimiter[Accepted]:
        return ConnectionLimiter(
            lambda accepted: cut_descriptor(accepted.fileno()),
            most=most,
            # the rest is left for other machines
            most_of_peer=max(most * 3 // 4, 1),
            seconds=seconds,
            grace=0.0,  # the event loop can't wait for one
            clock=self._clock,
        )


class RestListener(socket.socket):
    """A listening socket whose connections are registered.

    Args:
        listener: A listening socket, which this takes ownership of.
        connections: Registers the connections.
    """

    def __init__(self, listener: socket.socket, connections: RestConnections) -> None:
        super().__init__(listener.family, listener.type, listener.proto, fileno=listener.detach())
        self._connections = connections

    def accept(self) -> tuple[Accepted, Any]:
        """Accept a connection; see `RestConnections.accept`."""
        return self._connections.accept(super().accept)
