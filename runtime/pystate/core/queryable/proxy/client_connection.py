"""The connection of one client to the proxy: the client proves a token, then sends requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pystate.common.processes.connection_limiter import peer_name
from pystate.common.processes.length_prefixed_frames import NO_MESSAGE, FrameReader, FrameTooLargeError
from pystate.common.text.bounded_text import shown
from pystate.core.queryable.handshake import MAX_HANDSHAKE_BYTES, HandshakeError, ProxyHandshake
from pystate.core.queryable.kv_state_frames import pack_frame, unpack_request
from pystate.core.queryable.kv_state_messages import MAX_REQUEST_BYTES, QueryOutcome

_MOST_UNDER_WAY = 32
"""The most requests of one connection that are served at once; further ones aren't read."""

Hidden = Callable[[bytes], dict[str, bytes]]
"""Hides a key from all but the client."""


class Clients(Protocol):
    """The set of client connections."""

    def handshake(self) -> ProxyHandshake:
        """Return the handshake of a new client."""

    def arrived(self, connection: ClientConnection, peer: str) -> None:
        """Add a connection that isn't authenticated yet."""

    def admits(self, connection: ClientConnection) -> bool:
        """Return whether an authenticated connection is admitted."""

    def gone(self, connection: ClientConnection) -> None:
        """Remove a closed connection."""

    def begin(self, request: dict[str, Any], answer: Callable[[dict[str, Any]], object]) -> bool:
        """Start answering a simple request; return False for other requests."""

    async def serve(self, request: dict[str, Any], hidden: Hidden | None = None) -> dict[str, Any]:
        """Answer a request."""


class ClientConnection(asyncio.Protocol):
    """Reads requests and writes answers, each as soon as it is there.

    Args:
        clients: The set of client connections.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._handshake = clients.handshake()
        self._reader = FrameReader(MAX_HANDSHAKE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._proven = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._is_slow = False
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a TCP connection's
        self._transport = transport
        self._clients.arrived(self, peer_name(transport.get_extra_info("peername")))
        self._send(self._handshake.greeting())

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop its pending requests."""
        self._transport = None
        for task in tuple(self._tasks):
            task.cancel()
        self._clients.gone(self)

    def pause_writing(self) -> None:
        """Stop reading while the client doesn't take its answers."""
        self._is_slow = True
        self._regulate()

    def resume_writing(self) -> None:
        """Resume reading."""
        self._is_slow = False
        self._regulate()

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        self._reader.feed(data)
        self._take()

    def cut(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection after pending writes."""
        if self._transport is not None:
            self._transport.close()

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def _has_room(self) -> bool:
        return self._is_open and not self._is_slow and self._under_way < _MOST_UNDER_WAY

    def _take(self) -> None:
        try:
            while self._has_room and (payload := self._reader.next_frame()) is not None:
                if self._proven:
                    self._begin(payload)
                else:
                    self._prove(payload)
        except FrameTooLargeError:
            message = f"A request may have {self._reader.most} bytes."
            self._refuse(QueryOutcome.TOO_LARGE, message)
        except HandshakeError as error:
            self._refuse(error.outcome, error.message)
        except NO_MESSAGE as error:
            self._refuse(QueryOutcome.BAD_REQUEST, f"This is no request: {shown(str(error))}")
        self._regulate()

    def _refuse(self, outcome: QueryOutcome, message: str) -> None:
        """Send the reason, and close: what follows can't be parsed."""
        self._send({"id": None, "outcome": outcome.value, "message": message})
        self.close()

    def _prove(self, payload: bytes) -> None:
        answer = self._handshake.answer(unpack_request(payload))
        if not self._clients.admits(self):
            self._refuse(QueryOutcome.OVERLOADED, "Too many clients are connected to the job's proxy.")
            return
        self._proven = True
        self._reader.most = MAX_REQUEST_BYTES
        self._send(answer)

    def _begin(self, payload: bytes) -> None:
        request = unpack_request(payload)
        if type(request.get("id")) is not int:
            text = "a request has an id"
            raise ValueError(text)
        self._under_way += 1
        answer = partial(self._answer, request["id"])
        if not self._clients.begin(request, answer):
            task = asyncio.get_running_loop().create_task(self._serve(request, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, request: dict[str, Any], answer: Callable[[dict[str, Any]], object]) -> None:
        answer(await self._clients.serve(request, self._handshake.hidden))

    def _answer(self, number: int, reply: dict[str, Any]) -> None:
        self._under_way -= 1
        self._send({"id": number, **reply})
        if self._is_paused:
            self._take()

    def _send(self, message: dict[str, Any]) -> None:
        if self._transport is not None and self._is_open:
            self._transport.write(pack_frame(message))

    def _regulate(self) -> None:
        """Pause or resume reading, by the number of pending requests."""
        if self._transport is None or not self._is_open:
            return
        if self._is_paused is self._has_room:
            self._is_paused = not self._is_paused
            (self._transport.pause_reading if self._is_paused else self._transport.resume_reading)()
