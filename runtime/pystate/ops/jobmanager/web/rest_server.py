"""The web server of the REST endpoint: uvicorn with limits and timeouts for connections."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from typing import Any

import uvicorn
from h11 import LocalProtocolError
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pystate.common.processes.control import OUT_OF_DESCRIPTORS
from pystate.ops.jobmanager.web.request_guard import MAX_HEADER_BYTES, MAX_TARGET_BYTES, WATCH
from pystate.ops.jobmanager.web.request_heads import StrictHeads
from pystate.ops.jobmanager.web.rest_connections import Accepted, RestConnections, Stage

_GRACE_SECONDS = 2
_HEAD_BYTES = MAX_TARGET_BYTES + MAX_HEADER_BYTES + (8 << 10)
"""What is read of a request's head before it is refused unread."""
_SAID_EVERY_SECONDS = 60.0


class _NotAgainAtOnce(logging.Filter):
    """Passes a warning once a minute: anybody can send invalid requests."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        if record.levelno != logging.WARNING:
            return True
        now, text = time.monotonic(), str(record.msg)
        if now - self._said.get(text, -_SAID_EVERY_SECONDS) < _SAID_EVERY_SECONDS:
            return False
        self._said[text] = now
        return True


_requests = logging.getLogger(f"{__name__}.requests")
_requests.addFilter(_NotAgainAtOnce())


class RestConfig(uvicorn.Config):
    """The server configuration.

    Args:
        app: The application.
        connections: Registers the connections.
        options: The TLS options.
    """

    def __init__(self, app: ASGIApp, connections: RestConnections, **options: Any) -> None:
        super().__init__(
            app,
            # other implementations would accept on their own
            loop="asyncio",
            http=BoundedProtocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            **options,
        )
        self.connections = connections

    def load(self) -> None:
        """Load the configuration."""
        super().load()
        if self.ssl is not None:
            self.ssl.options |= ssl.OP_NO_RENEGOTIATION  # a client could cause work repeatedly


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, which reports its stage."""

    def __init__(
        self,
        config: RestConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn._receive_buffer = StrictHeads()  # noqa: SLF001 - h11 has no setting for it
        self._places = config.connections
        self._accepted: Accepted | None = None
        self._stands: tuple[Stage, Any] = (Stage.SILENT, None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        self.logger = _requests
        self._accepted = self._places.of_descriptor(transport.get_extra_info("socket").fileno())

    def data_received(self, data: bytes) -> None:
        """Read."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Continue with the next request."""
        super().on_response_complete()
        self._look()

    def shutdown(self) -> None:
        """End the connection when its answer is complete; at once where that would never be."""
        super().shutdown()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle.scope["path"].endswith(WATCH):
            cycle.disconnected = True
            cycle.message_event.set()
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP; if an answer has already begun, just close the connection."""
        cycle = self.cycle
        begun = cycle is not None and not cycle.response_complete
        if begun:
            begun = cycle.response_started
            # the handler of the request must not write after this answer
            cycle.disconnected = True
            cycle.message_event.set()
        try:
            if not begun:
                super().send_400_response(msg)
        except LocalProtocolError:
            pass
        finally:
            self.transport.close()

    def _look(self) -> None:
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            stands: tuple[Stage, Any] = (Stage.SILENT, cycle)
        else:
            stands = (Stage.BODY if cycle.more_body else Stage.SERVING, cycle)
        if stands != self._stands and self._accepted is not None:
            self._stands = stands
            self._places.move(self._accepted, stands[0])


class RestServer(uvicorn.Server):
    """The server, which also checks the timeouts of connections."""

    def __init__(self, config: RestConfig) -> None:
        super().__init__(config)
        self._connections = config.connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        asyncio.get_running_loop().set_exception_handler(_say)
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Check timeouts, ten times a second."""
        self._connections.look()
        return await super().on_tick(counter)


def _say(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
        return  # logged once, where connections are accepted
    loop.default_exception_handler(context)
