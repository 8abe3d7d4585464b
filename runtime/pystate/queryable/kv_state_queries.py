"""Queries of one proxy: connects, locates, queries, and retries across restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pystate.common.errors import ControlError, PystateError
from pystate.common.processes.length_prefixed_frames import NO_MESSAGE
from pystate.core.queryable.immutable_states import ImmutableState
from pystate.core.queryable.kv_state_codec import PAGED, KvStateCodec
from pystate.core.queryable.kv_state_messages import (
    MAX_READS,
    Consistency,
    QueryableState,
    QueryOutcome,
    StateAnswer,
    StateRead,
)
from pystate.core.queryable.query_errors import (
    BadQueryError,
    ProxyUnreachableError,
    QueriesOverloadedError,
    UnknownLocationError,
    VersionGoneError,
    query_error,
)
from pystate.queryable.client_access import ClientAccess, NoTokenError
from pystate.queryable.client_channel import ClientChannel, no_proxy, open_channel
from pystate.queryable.direct_reads import DirectReads, location_of
from pystate.queryable.requests import KvStateRequest

T = TypeVar("T")

_AGAIN = (NoTokenError, UnknownLocationError, ProxyUnreachableError, QueriesOverloadedError, VersionGoneError)
_OF_THE_REQUEST = frozenset(
    {QueryOutcome.NOT_SERVING, QueryOutcome.VERSION_GONE, QueryOutcome.UNKNOWN_STATE, QueryOutcome.OVERLOADED}
)
"""What one read is told and ends all of them."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


@dataclass(frozen=True)
class _Answered:
    """An answer of the proxy.

    Attributes:
        answers: The answers, in the order of the reads.
        now: The time there, ms since 1970.
    """

    answers: list[StateAnswer]
    now: int


class _TimeOver:
    """Cancels the task that creates it at the deadline; cheaper per query than `wait_for`, by a task and a future.

    Args:
        deadline: In the time of the event loop.

    Attributes:
        is_over: Whether it has cancelled the task.
    """

    def __init__(self, deadline: float) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - called by a coroutine
        self._task = task
        self._timer = asyncio.get_running_loop().call_at(deadline, self._end)
        self.is_over = False

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _end(self) -> None:
        self.is_over = True
        self._task.cancel()


class KvStateQueries:
    """Queries one proxy. Only for the event loop's thread.

    Args:
        host: The host of the proxy.
        port: The port of the proxy.
        access: Returns token and TLS options; called for each connection.
        timeout: The timeout of a query in seconds.
        direct: Whether to query slots directly where possible.
    """

    def __init__(
        self, host: str, port: int, access: Callable[[], ClientAccess], timeout: float, *, direct: bool = True
    ) -> None:
        self._host = host
        self._port = port
        self._access = access
        self._timeout = timeout
        self._channel: ClientChannel | None = None
        self._connecting: asyncio.Task[ClientChannel] | None = None
        self._codecs: dict[tuple[str, str], KvStateCodec] = {}
        self._asks_slots = direct
        self._direct = DirectReads()
        self._learning: asyncio.Task[None] | None = None
        self._closed = False

    async def states(self, job_id: str) -> list[QueryableState]:
        """Return all queryable states of a job."""
        return await self._persist(lambda: self._locate(job_id, None))

    async def one(self, job_id: str, request: KvStateRequest, consistency: Consistency) -> ImmutableState:
        """Return a complete state."""

        async def attempt() -> ImmutableState:
            codec = await self._codec(job_id, request)
            read = codec.read(request.key, request.namespace, prefix=request.prefix)
            pages, now = await self._pages(job_id, codec, read, consistency)
            return codec.decode(pages, now, request.descriptor)

        return await self._persist(attempt)

    async def page(
        self, job_id: str, request: KvStateRequest, consistency: Consistency, limit: int, cursor: bytes | None
    ) -> ImmutableState:
        """Return a page of a state."""

        async def attempt() -> ImmutableState:
            codec = await self._codec(job_id, request)
            read = codec.read(request.key, request.namespace, limit=limit, prefix=request.prefix, cursor=cursor)
            answered = await self._read(job_id, consistency, [read])
            return codec.decode(answered.answers, answered.now, request.descriptor)

        return await self._persist(attempt, begins_anew=cursor is None)

    async def many(
        self, job_id: str, requests: Sequence[KvStateRequest], consistency: Consistency
    ) -> list[ImmutableState | None]:
        """Return several states in one version; None for those without a value."""
        if not requests:
            return []
        if len(requests) > MAX_READS:
            message = f"A request has 1 to {MAX_READS} reads, not {len(requests)}."
            raise BadQueryError(message, hint="ask in several requests")

        async def attempt() -> list[ImmutableState | None]:
            codecs = [await self._codec(job_id, request) for request in requests]
            reads = [
                codec.read(request.key, request.namespace, prefix=request.prefix)
                for codec, request in zip(codecs, requests, strict=True)
            ]
            answered = await self._read(job_id, consistency, reads)
            found: list[ImmutableState | None] = []
            for codec, request, read, answer in zip(codecs, requests, reads, answered.answers, strict=True):
                if answer.outcome is QueryOutcome.NO_VALUE:
                    found.append(None)
                    continue
                pages, now = await self._rest(job_id, codec, read, consistency, answer, answered.now)
                found.append(codec.decode(pages, now, request.descriptor))
            return found

        return await self._persist(attempt)

    async def close(self) -> None:
        """Close the connection."""
        self._closed = True
        self._direct.forget()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _persist(self, attempt: Callable[[], Awaitable[T]], *, begins_anew: bool = True) -> T:
        """Retry until success, a permanent failure, or the timeout."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        time = _TimeOver(loop.time() + self._timeout)
        last: PystateError | None = None
        try:
            while True:
                try:
                    return await attempt()
                except _AGAIN as error:
                    if isinstance(error, VersionGoneError) and not begins_anew:
                        raise
                    last = error
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        except asyncio.CancelledError as error:
            if not time.is_over:
                raise  # the client is closed, or nobody is waiting any more
            raise last or self._no_answer() from error
        finally:
            time.stop()

    def _no_answer(self) -> PystateError:
        if self._connecting is not None:
            return no_proxy(self._host, self._port)
        message = f"The job has not answered within {self._timeout:g} s."
        return query_error(QueryOutcome.NOT_SERVING, message, f"{self._host}:{self._port}")

    async def _codec(self, job_id: str, request: KvStateRequest) -> KvStateCodec:
        if not isinstance(request.name, str) or not request.name.isascii() and _has_half(request.name):
            message = f"The name of a state is a text, not {request.name!r}."
            raise BadQueryError(message, hint="give the name that set_queryable was given")
        known = self._codecs.get((job_id, request.name))
        if known is None or self._channel is None or not self._channel.is_open:
            (state,) = await self._locate(job_id, request.name)
            known = self._codecs[job_id, request.name] = KvStateCodec(state)
        if request.key_type is not None or request.descriptor is not None:
            known.check(request.key_type, request.descriptor)
        return known

    async def _locate(self, job_id: str, name: str | None) -> list[QueryableState]:
        channel = await self._connected()
        reply = await self._ask_over(channel, {"op": "locate", "job": job_id, "name": name})
        try:
            found = [QueryableState.from_plain(plain) for plain in reply["states"]]
            if self._asks_slots and "places" in reply:
                places = reply["places"]
                self._direct.learn(location_of(found[0], places, channel.shown(places)), channel.peer)
        except NO_MESSAGE as error:
            raise _unreadable(error) from error
        if name is not None and len(found) != 1:
            raise query_error(QueryOutcome.UNKNOWN_STATE, "", f"state {name!r}")
        return found

    async def _pages(
        self, job_id: str, codec: KvStateCodec, read: StateRead, consistency: Consistency
    ) -> tuple[list[StateAnswer], int]:
        answered = await self._read(job_id, consistency, [read])
        return await self._rest(job_id, codec, read, consistency, answered.answers[0], answered.now)

    async def _rest(
        self,
        job_id: str,
        codec: KvStateCodec,
        read: StateRead,
        consistency: Consistency,
        first: StateAnswer,
        now: int,
    ) -> tuple[list[StateAnswer], int]:
        """Return an answer, completed by the requests for its continuation."""
        pages = [first]
        while codec.kind in PAGED and pages[-1].cursor is not None:
            answered = await self._read(job_id, consistency, [replace(read, cursor=pages[-1].cursor)])
            pages.append(answered.answers[0])
            now = answered.now
        return pages, now

    async def _read(self, job_id: str, consistency: Consistency, reads: list[StateRead]) -> _Answered:
        try:
            plain, now = await self._direct.read(consistency, reads) or await self._read_by_proxy(job_id, consistency, reads)
            answers = [StateAnswer.from_plain(one) for one in plain]
        except NO_MESSAGE as error:
            raise _unreadable(error) from error
        if len(answers) != len(reads):
            raise _unreadable((len(answers), len(reads)))
        for answer, read in zip(answers, reads, strict=True):
            if answer.outcome is QueryOutcome.UNKNOWN_STATE:
                self._codecs.pop((job_id, read.name), None)
            if answer.outcome is QueryOutcome.NOT_SERVING:
                self._direct.forget()
            if answer.outcome in _OF_THE_REQUEST:
                raise query_error(answer.outcome, answer.message, f"state {read.name!r}")
        return _Answered(answers, now)

    async def _read_by_proxy(self, job_id: str, consistency: Consistency, reads: list[StateRead]) -> tuple[list[Any], int]:
        request = {"op": "read", "job": job_id, "consistency": consistency.value, "reads": [one.to_plain() for one in reads]}
        reply = await self._ask_over(await self._connected(), request)
        if self._asks_slots and "attempt" in reply:
            self._direct.follow(reply["attempt"])
            if self._learning is None and not self._direct.knows(reads[0].name):
                self._learning = asyncio.ensure_future(self._learn(job_id, reads[0].name))
        return reply["answers"], int(reply["now"])

    async def _learn(self, job_id: str, name: str) -> None:
        """Ask for the current location of a state, concurrently with queries."""
        with contextlib.suppress(PystateError):
            await self._locate(job_id, name)
        self._learning = None

    async def _ask_over(self, channel: ClientChannel, request: dict[str, Any]) -> dict[str, Any]:
        reply = await channel.ask(request)
        try:
            outcome = QueryOutcome(reply["outcome"])
        except NO_MESSAGE as error:
            raise _unreadable(error) from error
        if outcome is not QueryOutcome.OK:
            where = request.get("name")
            raise query_error(outcome, str(reply.get("message", "")), None if where is None else f"state {where!r}")
        return reply

    async def _connected(self) -> ClientChannel:
        if self._closed:
            raise closed()
        if self._channel is not None and self._channel.is_open:
            return self._channel
        if self._connecting is None:
            self._direct.forget()
            self._codecs.clear()  # the process that has the port now may run another job
            access = self._access()
            self._connecting = asyncio.ensure_future(open_channel(self._host, self._port, access.token, access.tls))
            self._connecting.add_done_callback(self._connection_made)
        return await asyncio.shield(self._connecting)

    def _connection_made(self, done: asyncio.Task[ClientChannel]) -> None:
        self._connecting = None
        if not done.cancelled() and done.exception() is None:
            self._channel = done.result()


def closed() -> ControlError:
    """Return the error of a closed client."""
    message = "The client is closed."
    return ControlError(message, hint="make another QueryableStateClient")


def _unreadable(error: object) -> BadQueryError:
    message = f"The answer can't be read: {error!r}"
    return BadQueryError(message, hint=BadQueryError.remedy)


def _has_half(text: str) -> bool:
    """Return whether a string has a lone surrogate, which UTF-8 can't encode."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)
