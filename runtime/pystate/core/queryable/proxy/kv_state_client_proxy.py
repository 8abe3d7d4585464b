"""The proxy of a job's queryable state, which clients ask (Flink's KvStateClientProxy)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.queryable_state_options import QueryableStateOptions
from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import PystateError
from pystate.common.files.home import PystateHome
from pystate.common.processes.connection_limiter import ConnectionLimiter, places
from pystate.common.processes.control import listening_socket
from pystate.common.processes.length_prefixed_frames import NO_MESSAGE
from pystate.common.time import current_time_ms
from pystate.core.queryable.handshake import ProxyHandshake
from pystate.core.queryable.kv_state_messages import (
    MAX_ANSWER_BYTES,
    Consistency,
    QueryOutcome,
    StateRead,
    reads_from_plain,
)
from pystate.core.queryable.ports import next_free
from pystate.core.queryable.proxy.client_connection import ClientConnection, Hidden
from pystate.core.queryable.proxy.proxy_security import ProxySecurity
from pystate.core.queryable.proxy.read_router import Locations, ReadRouter
from pystate.core.queryable.proxy.turns import Turns
from pystate.core.queryable.rate_limiter import RateLimiter

DEFAULT_UNDER_WAY = 64
_MOST_UNPROVEN = 128
_MOST_UNPROVEN_OF_PEER = 96
_MOST_CLIENTS = 512
_LOOK_SECONDS = 1.0
_KEY_BYTES_OF_A_READ = 1 << 10
"""A read with a longer key counts as several, since hashing takes longer."""
_OF_AN_ANSWER = 64
"""Bytes of an answer beside its value, about."""


class KvStateClientProxy:
    """Serves one job's queryable state on a thread with an event loop of its own.

    Args:
        job_id: The job.
        locations: The locations of its states.
        security: What clients must prove.
        host: The address to bind to.
        ports: The ports to choose from.
        under_way: How many requests are served concurrently; further ones wait.
        reads_per_second: How many reads are allowed per second; 0 for no limit.
        connections_per_slot: How many requests a slot answers concurrently.
        offers_slots: Whether clients get the addresses of slots, and the secret to prove to them.

    Attributes:
        address: Where it listens.

    Raises:
        ControlError: None of the ports is free.
    """

    def __init__(
        self,
        job_id: str,
        locations: Locations,
        security: ProxySecurity,
        *,
        host: str = "127.0.0.1",
        ports: range,
        under_way: int = DEFAULT_UNDER_WAY,
        reads_per_second: int = 0,
        connections_per_slot: int = 1,
        offers_slots: bool = True,
    ) -> None:
        self._job_id = job_id
        self._locations = locations
        self._security = security
        self._connections_per_slot = connections_per_slot
        self._offers_slots = offers_slots and security.tls is None  # slots speak no TLS
        self._rate = RateLimiter(reads_per_second)
        self._under_way = under_way
        self._clients: set[ClientConnection] = set()
        self._unproven: ConnectionLimiter[ClientConnection] = ConnectionLimiter(
            ClientConnection.cut,
            most=places(_MOST_UNPROVEN),
            most_of_peer=places(_MOST_UNPROVEN_OF_PEER),
            grace=0,  # a wait would hold up the loop
        )
        where = QueryableStateOptions.PROXY_PORT_RANGE.key
        self._socket = next_free(ports, where, lambda tried: listening_socket(host, tried))
        self.address = host, int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._ended: asyncio.Event
        self._router: ReadRouter
        self._turns: Turns
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queryable-state-proxy", daemon=True)

    def start(self) -> None:
        """Start serving."""
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Stop serving, and close all connections."""
        if not self._thread.is_alive():
            self._socket.close()
            return
        with contextlib.suppress(RuntimeError):  # it has ended meanwhile
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def ask(self, request: dict[str, Any]) -> Future[dict[str, Any]]:
        """Return the future answer to a request that didn't come over a client connection.

        Args:
            request: As clients send it, without an id.
        """
        return asyncio.run_coroutine_threadsafe(self.serve(request), self._loop)

    async def serve(self, request: dict[str, Any], hidden: Hidden | None = None) -> dict[str, Any]:
        """Answer a request, which may be malformed.

        Args:
            request: The request.
            hidden: Hides a key from all but the client; None for clients that get no slot addresses.
        """
        await self._turns.take()
        try:
            return await self._answer(request, hidden)
        except NO_MESSAGE as error:
            return _outcome(QueryOutcome.BAD_REQUEST, f"This is no request for state: {error}")
        finally:
            self._turns.give()

    def begin(self, request: dict[str, Any], answer: Callable[[dict[str, Any]], object]) -> bool:
        """Start answering a request for one state of one key, without its own task; return False for other requests.

        What isn't as it should be is left to `serve`, which says why.
        """
        if request.get("op") != "read" or request.get("job") != self._job_id:
            return False
        try:
            consistency, (read,) = Consistency(request["consistency"]), reads_from_plain(request["reads"])
        except NO_MESSAGE:
            return False
        if not self._turns.take_now():
            return False
        if not self._rate.take(_cost(read)):
            self._turns.give()
            answer(_overloaded())
            return True

        def answered(answers: list[Any]) -> None:
            self._turns.give()
            answer(self._read_answer(answers))

        self._router.read_one(consistency, read, answered)
        return True

    def handshake(self) -> ProxyHandshake:
        """Return the handshake of a new client."""
        return ProxyHandshake(self._security.tokens)

    def arrived(self, connection: ClientConnection, peer: str) -> None:
        """Add a connection that isn't authenticated yet."""
        self._unproven.add(connection, peer)

    def admits(self, connection: ClientConnection) -> bool:
        """Return whether an authenticated connection is admitted."""
        if not self._unproven.remove(connection) or len(self._clients) >= places(_MOST_CLIENTS):
            return False
        self._clients.add(connection)
        return True

    def gone(self, connection: ClientConnection) -> None:
        """Remove a closed connection."""
        self._unproven.remove(connection)
        self._clients.discard(connection)

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._clients) + len(self._unproven)

    async def _answer(self, request: dict[str, Any], hidden: Hidden | None) -> dict[str, Any]:
        op = request["op"]
        if op not in ("locate", "read"):
            return _outcome(QueryOutcome.BAD_REQUEST, "The proxy of queryable state knows locate and read.")
        if request["job"] != self._job_id:
            return _outcome(QueryOutcome.UNKNOWN_JOB, f"The proxy is that of job {self._job_id}.")
        if op == "locate":
            return self._locate(request["name"], hidden)
        consistency, reads = Consistency(request["consistency"]), reads_from_plain(request["reads"])
        if not self._rate.take(sum(map(_cost, reads))):
            return _overloaded()
        return self._read_answer(await self._router.read(consistency, reads))

    def _locate(self, name: Any, hidden: Hidden | None) -> dict[str, Any]:
        if name is None:
            states = [state.to_plain() for state in self._locations.states()]
            return {**_outcome(QueryOutcome.OK), "states": states}
        if type(name) is not str:
            return _outcome(QueryOutcome.BAD_REQUEST, "The name of a state is a text.")
        found = self._locations.locate(name)
        if isinstance(found, QueryOutcome):
            return _outcome(found)
        reply = {**_outcome(QueryOutcome.OK), "states": [found.state.to_plain()]}
        if hidden is None or not self._offers_slots:
            return reply
        return {**reply, "places": {"attempt": found.attempt, "addresses": found.addresses, **hidden(found.secret)}}

    def _read_answer(self, answers: list[Any]) -> dict[str, Any]:
        if sum(map(_size, answers)) > MAX_ANSWER_BYTES:
            return _outcome(QueryOutcome.TOO_LARGE, f"The answer has more than {MAX_ANSWER_BYTES} bytes.")
        reply = {**_outcome(QueryOutcome.OK), "answers": answers, "now": current_time_ms()}
        return {**reply, "attempt": self._router.attempt} if self._offers_slots else reply

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve_clients())
        finally:
            self._loop.close()

    async def _serve_clients(self) -> None:
        self._ended = asyncio.Event()
        self._turns = Turns(self._under_way)
        self._router = ReadRouter(self._locations, self._connections_per_slot)
        server = await self._loop.create_server(lambda: ClientConnection(self), sock=self._socket, ssl=self._security.tls)
        self._ready.set()
        while not self._ended.is_set():
            self._unproven.cut_expired()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _LOOK_SECONDS)
        server.close()
        for connection in tuple(self._clients):
            connection.cut()
        while self._unproven.cut_oldest():
            pass
        self._router.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


class ProxiedJob(Protocol):
    """What a proxy needs to know about its job."""

    @property
    def job_id(self) -> str:
        """The job."""

    @property
    def configuration(self) -> Configuration:
        """The options in force."""

    @property
    def kv_states(self) -> Locations:
        """The locations of its queryable states."""

    @property
    def say(self) -> Callable[[str], None]:
        """Is called with sentences for users."""


def start_proxy(job: ProxiedJob, home: PystateHome) -> KvStateClientProxy | None:
    """Start a job's proxy; None unless `queryable-state.enable` is true.

    Args:
        job: The job.
        home: Its installation, whose token clients must prove.

    Raises:
        PystateError: No port is free, or a token or certificate can't be used.
    """
    get, options = job.configuration.get, QueryableStateOptions
    if not get(options.ENABLE_QUERYABLE_STATE_PROXY_SERVER):
        return None
    host, security = get(options.PROXY_BIND_HOST), ProxySecurity.of(home, job.configuration)
    warning = security.warning(host)
    if warning is not None:
        job.say(f"WARNING: {warning}")
    try:
        proxy = KvStateClientProxy(
            job.job_id,
            job.kv_states,
            security,
            host=host,
            ports=get(options.PROXY_PORT_RANGE),
            under_way=get(options.PROXY_ASYNC_QUERY_THREADS) or DEFAULT_UNDER_WAY,
            reads_per_second=get(options.MAX_READS_PER_SECOND),
            connections_per_slot=max(1, get(options.SERVER_ASYNC_QUERY_THREADS)),
            offers_slots=get(options.DIRECT_READS) and not get(SecurityOptions.SSL_INTERNAL_ENABLED),
        )
    except OSError as error:
        message = f"The proxy of queryable state can't listen on {host}: {error}"
        raise PystateError(message, where=options.PROXY_BIND_HOST.key, hint="give an address of this machine") from error
    proxy.start()
    host, port = proxy.address
    job.say(f"Started Queryable State Proxy Server @ {host}:{port}")
    return proxy


def not_queryable() -> dict[str, Any]:
    """Return the answer of a job without a proxy."""
    key = QueryableStateOptions.ENABLE_QUERYABLE_STATE_PROXY_SERVER.key
    return _outcome(QueryOutcome.UNKNOWN_STATE, f"No state of the job can be queried: it was started without {key} = true.")


def not_running() -> dict[str, Any]:
    """Return the answer of a job that hasn't begun."""
    return _outcome(QueryOutcome.NOT_SERVING)


def _outcome(outcome: QueryOutcome, message: str = "") -> dict[str, Any]:
    return {"outcome": outcome.value, "message": message}


def _overloaded() -> dict[str, Any]:
    return _outcome(QueryOutcome.OVERLOADED, "More is asked of the job's state than it answers a second.")


def _cost(read: StateRead) -> int:
    return 1 + len(read.key) // _KEY_BYTES_OF_A_READ


def _size(answer: list[Any]) -> int:
    """Return about how many bytes an answer has, as plain data."""
    value = answer[1]
    if type(value) is bytes:
        return len(value) + _OF_AN_ANSWER
    if type(value) is not list:
        return _OF_AN_ANSWER
    return _OF_AN_ANSWER + sum(len(one) + 5 if type(one) is bytes else sum(map(len, one)) + 11 for one in value)
