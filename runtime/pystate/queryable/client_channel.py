"""A client's connection to a proxy: proves the token, then carries concurrent requests."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.processes.length_prefixed_frames import NO_MESSAGE, FrameReader, FrameTooLargeError
from pystate.common.text.bounded_text import first_line
from pystate.core.queryable.handshake import MAX_HANDSHAKE_BYTES, ClientHandshake, HandshakeError
from pystate.core.queryable.kv_state_frames import pack_frame, unpack_answer
from pystate.core.queryable.kv_state_messages import MAX_ANSWER_BYTES, MAX_REQUEST_BYTES, QueryOutcome
from pystate.core.queryable.query_errors import ProxyUnreachableError, query_error

_OF_THE_FRAME = 1 << 20
"""What an answer has beside the bytes of values."""

_GREETING_SECONDS = 10.0
_SILENT = "who listens there says nothing, or speaks TLS where we don't."


class ClientChannel(asyncio.Protocol):
    """One connection. Only for the event loop's thread.

    Args:
        token: The token to prove.

    Attributes:
        proven: Done when both sides have proven the token; fails with an error for users.
    """

    def __init__(self, token: str) -> None:
        self._handshake = ClientHandshake(token)
        self._greeted = False
        self._reader = FrameReader(MAX_HANDSHAKE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0
        self.proven: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def peer(self) -> str:
        """The address of the proxy."""
        return "" if self._transport is None else str(self._transport.get_extra_info("peername")[0])

    def shown(self, hidden: dict[str, Any]) -> bytes:
        """Decrypt a key that the proxy has encrypted for this client.

        Raises:
            ValueError, TypeError, LookupError: It isn't one.
        """
        return self._handshake.shown(hidden)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the greeting."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a TCP connection's
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        self._reader.feed(data)
        try:
            while (payload := self._reader.next_frame()) is not None:
                self._receive(unpack_answer(payload))
        except HandshakeError as error:
            if not self.proven.done():
                self.proven.set_exception(query_error(error.outcome, error.message))
            self.close()
        except (FrameTooLargeError, *NO_MESSAGE):
            message = "who listens there doesn't speak as a proxy of queryable state does."
            self._fail(ProxyUnreachableError(message))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending requests."""
        self._transport = None
        message = "The connection was lost" + ("." if exc is None else f": {first_line(exc)}")
        self._fail(ProxyUnreachableError(message))

    def ask(self, request: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Send a request; return the future of its answer.

        Raises:
            ProxyUnreachableError: The connection is lost.
            AnswerTooLargeError: The request is too large.
        """
        if self._transport is None or self._transport.is_closing():
            message = "The connection was lost."
            raise ProxyUnreachableError(message)
        self._last_id += 1
        number = self._last_id
        frame = pack_frame({"id": number, **request})
        if len(frame) > MAX_REQUEST_BYTES:
            message = f"The request has {len(frame)} bytes; it may have {MAX_REQUEST_BYTES}."
            raise query_error(QueryOutcome.TOO_LARGE, message)
        answer = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        answer.add_done_callback(lambda _: self._pending.pop(number, None))
        self._transport.write(frame)
        return answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _receive(self, message: dict[str, Any]) -> None:
        if self.proven.done() and message["id"] is None:
            # the proxy can't read our data, and closes the connection
            self._fail(query_error(QueryOutcome(message["outcome"]), str(message["message"])))
        elif self.proven.done():
            answer = self._pending.get(message["id"])
            if answer is not None and not answer.done():
                answer.set_result(message)
        elif not self._greeted:
            self._greeted = True
            assert self._transport is not None  # noqa: S101 - data has come over it
            self._transport.write(pack_frame(self._handshake.proof(message)))
        else:
            self._handshake.check(message)
            self._reader.most = MAX_ANSWER_BYTES + _OF_THE_FRAME
            self.proven.set_result(None)

    def _fail(self, error: PystateError) -> None:
        waiting: list[asyncio.Future[Any]] = [self.proven, *self._pending.values()]
        for one in waiting:
            if not one.done():
                one.set_exception(error)


async def open_channel(host: str, port: int, token: str, tls: ssl.SSLContext | None) -> ClientChannel:
    """Connect to a proxy.

    Args:
        host: The host of the proxy.
        port: The port of the proxy.
        token: The token that both sides prove.
        tls: The TLS options; None for no TLS.

    Raises:
        ProxyUnreachableError: No proxy listens there.
        QueryForbiddenError: It has another token.
    """
    loop = asyncio.get_running_loop()
    try:
        _, channel = await loop.create_connection(lambda: ClientChannel(token), host, port, ssl=tls)
        try:
            await asyncio.wait_for(channel.proven, _GREETING_SECONDS)
        except BaseException:
            channel.close()
            raise
    except asyncio.TimeoutError as error:
        raise no_proxy(host, port, _SILENT) from error
    except (OSError, ProxyUnreachableError) as error:
        raise no_proxy(host, port, error.message if isinstance(error, ProxyUnreachableError) else str(error)) from error
    return channel


def no_proxy(host: str, port: int, why: str = "") -> ProxyUnreachableError:
    """Return the error for an address at which no proxy answers."""
    message = f"No proxy of queryable state answers at {host}:{port}: {why or _SILENT}"
    hint = "the job's log says where: Started Queryable State Proxy Server @ HOST:PORT (queryable-state.enable = true)"
    return ProxyUnreachableError(message, hint=hint)
