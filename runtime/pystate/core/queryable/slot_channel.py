"""A connection to one slot's server of queryable state, for an event loop: the proxy's, or a client's."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from pystate.common.errors import ControlError
from pystate.common.processes.control import Address, connect, socket_of
from pystate.common.processes.length_prefixed_frames import NO_MESSAGE, FrameReader, FrameTooLargeError
from pystate.common.processes.tls_session import TlsSession
from pystate.core.queryable.kv_state_messages import MAX_ANSWER_BYTES, QueryOutcome

_HEAD = struct.Struct("!i")
_OF_THE_ANSWER = 4 << 20
"""The size of an answer besides the bytes of values."""
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_MOST_TOGETHER = 256
"""The most reads, of several requests, that are sent together."""
_MOST_BYTES_TOGETHER = 1 << 20
"""The most bytes of their keys."""
_KEY = 1
"""The position of the key in a read as plain data."""

Answers = list[Any]
"""`StateAnswer`s as plain data."""


Answered = Callable[[Answers | None], object]
"""Takes the answers, in the order of the reads; None if the slot doesn't answer: it is gone, or going."""


class _UnreadableError(Exception):
    """The slot's answer is malformed."""


@dataclass(frozen=True)
class _Asked:
    consistency: str
    reads: list[Any]
    answered: Answered
    alone: bool = False

    @property
    def size(self) -> int:
        """The size of its keys in bytes."""
        return sum(len(read[_KEY]) for read in self.reads)


class SlotChannel(asyncio.Protocol):
    """One connection, with one pending request at a time, as slots answer them sequentially.

    Reads that arrive meanwhile are combined in the next request, so that a busy slot gets fewer requests.

    Args:
        address: The address of the slot.
        secret: The secret that both sides prove.
        lost: Called with the channel when it is lost.

    Attributes:
        address: The same.
        is_lost: Whether the connection was lost, or could not be established.
        now: The time of the last answers, ms since 1970, by the slot's clock.
    """

    def __init__(
        self, address: Address, secret: bytes, lost: Callable[[SlotChannel], object] = lambda channel: None
    ) -> None:
        self.address = address
        self._secret = secret
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._session: TlsSession | None = None
        self._reader = FrameReader(MAX_ANSWER_BYTES + _OF_THE_ANSWER)
        self._waiting: deque[_Asked] = deque()
        self._asked: list[_Asked] = []
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.is_lost = False
        self.now = 0
        self._opening = self._loop.create_task(self._open())

    @property
    def is_open(self) -> bool:
        """Whether the connection is authenticated and open."""
        return self._transport is not None and not self.is_lost

    @property
    def was_open(self) -> bool:
        """Whether the connection was ever open."""
        return self._transport is not None

    @property
    def load(self) -> int:
        """The number of waiting requests."""
        return len(self._waiting) + len(self._asked)

    def ask(self, consistency: str, reads: list[Any], answered: Answered) -> None:
        """Enqueue a read.

        Args:
            consistency: A value of `Consistency`.
            reads: `StateRead`s as plain data.
            answered: Called with the answers.
        """
        if self.is_lost:
            answered(None)
            return
        self._waiting.append(_Asked(consistency, reads, answered))
        self._send()

    def close(self) -> None:
        """Close the connection; waiting requests fail."""
        if self._transport is not None:
            self._transport.abort()
        self._lose()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the waiting requests."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream socket
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        try:
            if self._session is not None:
                self._session.feed(data)
                data = self._session.take_all()
            self._reader.feed(data)
            while (payload := self._reader.next_frame()) is not None:
                self._receive(msgpack.unpackb(payload, strict_map_key=False, unicode_errors="surrogatepass"))
        except (OSError, EOFError, FrameTooLargeError, _UnreadableError, *NO_MESSAGE):
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting requests."""
        self._lose()

    async def _open(self) -> None:
        try:
            connecting, session = await self._loop.run_in_executor(None, self._connect)
            if self.is_lost:
                connecting.close()
            else:
                self._session = session
                await self._loop.create_connection(lambda: self, sock=connecting)
        except (ControlError, OSError):
            self._lose()
        if self.is_lost and self._transport is not None:
            self._transport.abort()

    def _connect(self) -> tuple[socket.socket, TlsSession | None]:
        with connect(self.address, self._secret, timeout=_CONNECT_SECONDS) as connection:
            connecting = socket_of(connection)
        connecting.setblocking(False)
        return connecting, connection.session

    def _send(self) -> None:
        """Send the waiting reads, unless a request is pending."""
        if self._transport is None or self._asked or self.is_lost:
            return
        count = size = 0
        while self._waiting:
            asked = self._waiting[0]
            count += len(asked.reads)
            size += asked.size
            if self._asked and not self._go_together(self._asked[0], asked, count, size):
                break
            self._asked.append(self._waiting.popleft())
        if not self._asked:
            return
        reads = [read for asked in self._asked for read in asked.reads]
        payload = msgpack.packb({"op": "read", "consistency": self._asked[0].consistency, "reads": reads})
        frame = _HEAD.pack(len(payload)) + payload
        self._transport.write(frame if self._session is None else self._session.encrypt(frame))
        self._deadline = self._loop.call_later(_ANSWER_SECONDS, self.close)

    @staticmethod
    def _go_together(first: _Asked, next_one: _Asked, count: int, size: int) -> bool:
        if first.alone or next_one.alone or first.consistency != next_one.consistency:
            return False
        return count <= _MOST_TOGETHER and size <= _MOST_BYTES_TOGETHER

    def _receive(self, reply: Any) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        asked = self._asked
        if not reply["ok"] or len(reply["value"]) != sum(len(one.reads) for one in asked):
            raise _UnreadableError
        self._asked, self.now = [], int(reply["now"])
        answers, start = reply["value"], 0
        for one in asked:
            mine = answers[start : start + len(one.reads)]
            start += len(one.reads)
            if len(asked) > 1 and any(map(_lacks_room, mine)):
                self._waiting.appendleft(replace(one, alone=True))  # others may have taken its room
            else:
                one.answered(mine)
        self._send()

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._lost(self)
        if self._deadline is not None:
            self._deadline.cancel()
        lost = [*self._asked, *self._waiting]
        self._asked = []
        self._waiting.clear()
        for one in lost:
            one.answered(None)


def _lacks_room(answer: Any) -> bool:
    """Return whether a plain answer was shortened by others in the request: no value, or no entry of a map or list."""
    outcome, value, cursor = answer[:3]
    return outcome == QueryOutcome.TOO_LARGE.value or value == [] and cursor is not None
