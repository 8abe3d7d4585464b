"""Reads the state of running jobs from outside (Flink's QueryableStateClient)."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from pystate.common.configuration.queryable_state_options import QueryableStateOptions
from pystate.common.errors import UsageError
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateDescriptor
from pystate.core.queryable.immutable_states import ImmutableState
from pystate.core.queryable.kv_state_messages import MAX_ENTRIES, Consistency, QueryableState
from pystate.core.queryable.query_errors import BadQueryError
from pystate.queryable.client_access import ClientAccess
from pystate.queryable.kv_state_queries import KvStateQueries, closed
from pystate.queryable.requests import KvStateRequest

T = TypeVar("T")

DEFAULT_PROXY_PORT = QueryableStateOptions.PROXY_PORT_RANGE.default[0]
DEFAULT_TIMEOUT_SECONDS = 30.0
_PORTS = 1 << 16


class QueryableStateClient:
    """Asks the proxy of a job's driver. Safe to share between threads; a `with` block closes it.

    All calls return a `concurrent.futures.Future`; their `..._async` twins are awaited. While the job restarts, or a new
    driver has not yet taken the port of the old one, a call waits until its timeout.

    Args:
        remote_hostname: Where the job's driver runs.
        remote_port: Its proxy's port, as the job's log says.
        token: What is proven; None for that of `pystate.rest.token-file` or PYSTATE_HOME, as commands do. With a token TLS
            is as `tls` says.
        tls: How to speak TLS; without it and a token as the settings say.
        timeout: Seconds that a call may take.
        direct: Whether slots are asked themselves, where the job offers that and they can be reached; else the proxy is.

    Raises:
        UsageError: The port is none, or the timeout isn't more than 0.
    """

    def __init__(
        self,
        remote_hostname: str = "127.0.0.1",
        remote_port: int = DEFAULT_PROXY_PORT,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        direct: bool = True,
    ) -> None:
        if not 0 < int(remote_port) < _PORTS:
            message = f"A port is a number from 1 to {_PORTS - 1}, not {remote_port}."
            raise UsageError(message, hint="the job's log says it: Started Queryable State Proxy Server @ HOST:PORT")
        if not timeout > 0:
            message = f"A client's timeout is more than 0 seconds, not {timeout}."
            raise UsageError(message, hint=f"leave it out for {DEFAULT_TIMEOUT_SECONDS:g} s")
        self._queries = KvStateQueries(
            remote_hostname, int(remote_port), lambda: _access(token, tls), timeout, direct=direct
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="queryable-state-client", daemon=True)
        self._thread.start()
        self._closing = threading.Lock()
        self._closed = False

    def get_kv_state(
        self,
        job_id: str,
        queryable_state_name: str,
        key: Any,
        key_type_info: TypeInformation | None = None,
        state_descriptor: StateDescriptor | None = None,
        *,
        namespace: Any = None,
        prefix: str | bytes | None = None,
        consistency: Consistency = Consistency.CHECKPOINTED,
    ) -> Future[Any]:
        """Return the future of a key's state: an immutable state of its kind, which says its version.

        Args:
            job_id: 32 hex digits.
            queryable_state_name: What `set_queryable` named it.
            key: The key.
            key_type_info: Its type; None for what the job says.
            state_descriptor: Of the state; None for what the job says. An aggregating state is its accumulator without it.
            namespace: Of window state the window: a pair (start, end), ms since 1970.
            prefix: Of a map: only entries whose key, a text or bytes, begins so.
            consistency: Which version is read.

        Raises:
            QueryableStateError: By the future: there is no value, or the job refuses; a class for each outcome.
            ProxyUnreachableError: By the future: no proxy answers there.
        """
        request = KvStateRequest(queryable_state_name, key, key_type_info, state_descriptor, namespace, prefix)
        return self._run(self._queries.one(job_id, request, _consistency(consistency)))

    async def get_kv_state_async(self, *args: Any, **kwargs: Any) -> Any:
        """Await what `get_kv_state` returns the future of."""
        return await asyncio.wrap_future(self.get_kv_state(*args, **kwargs))

    def get_kv_states(
        self, job_id: str, requests: Sequence[KvStateRequest], *, consistency: Consistency = Consistency.CHECKPOINTED
    ) -> Future[list[ImmutableState | None]]:
        """Return the future of several states, of one key or many, in the order asked for; None for what has no value.

        What a subtask answers is of one version, always. Subtasks whose versions differ are asked again until they
        agree, for half a second; where they still don't, each state's `version` says so.

        Args:
            job_id: 32 hex digits.
            requests: Keys and states.
            consistency: Which version is read.

        Raises:
            QueryableStateError, ProxyUnreachableError: By the future, as `get_kv_state`.
        """
        return self._run(self._queries.many(job_id, list(requests), _consistency(consistency)))

    async def get_kv_states_async(self, *args: Any, **kwargs: Any) -> list[ImmutableState | None]:
        """Await what `get_kv_states` returns the future of."""
        return await asyncio.wrap_future(self.get_kv_states(*args, **kwargs))

    def get_kv_state_page(
        self,
        job_id: str,
        request: KvStateRequest,
        *,
        limit: int = MAX_ENTRIES,
        cursor: bytes | None = None,
        consistency: Consistency = Consistency.CHECKPOINTED,
    ) -> Future[Any]:
        """Return the future of a part of a map or list; its `cursor` is where the next one begins, None at the end.

        All pages are of the version of the first one, as long as the job keeps that: a `VersionGoneError` says that it
        doesn't any more.

        Args:
            job_id: 32 hex digits.
            request: Key and state.
            limit: How many entries or elements at most; fewer come where an answer is full, or where some have expired.
            cursor: That of the page before, of the same state, key, namespace and prefix.
            consistency: Which version the first page is of.

        Raises:
            QueryableStateError, ProxyUnreachableError: By the future, as `get_kv_state`.
        """
        return self._run(self._queries.page(job_id, request, _consistency(consistency), limit, cursor))

    async def get_kv_state_page_async(self, *args: Any, **kwargs: Any) -> Any:
        """Await what `get_kv_state_page` returns the future of."""
        return await asyncio.wrap_future(self.get_kv_state_page(*args, **kwargs))

    def get_queryable_states(self, job_id: str) -> Future[list[QueryableState]]:
        """Return the future of what can be read of a job, with its types.

        Raises:
            QueryableStateError, ProxyUnreachableError: By the future, as `get_kv_state`.
        """
        return self._run(self._queries.states(job_id))

    async def get_queryable_states_async(self, job_id: str) -> list[QueryableState]:
        """Await what `get_queryable_states` returns the future of."""
        return await asyncio.wrap_future(self.get_queryable_states(job_id))

    def shutdown_and_wait(self) -> None:
        """Hang up; calls that wait for an answer fail. Flink's name for `close`."""
        self.close()

    def close(self) -> None:
        """Hang up; calls that wait for an answer fail."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            asyncio.run_coroutine_threadsafe(self._queries.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> QueryableStateClient:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Hang up."""
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._closed:
            work.close()
            raise closed()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _consistency(value: Consistency) -> Consistency:
    """Return a consistency that may be given as its word, too."""
    try:
        return Consistency(value)
    except ValueError:
        message = f"The consistency {value!r} is not known; it must be one of {', '.join(one.value for one in Consistency)}."
        raise BadQueryError(message, hint="say Consistency.CHECKPOINTED or Consistency.LIVE") from None


def _access(token: str | None, tls: ssl.SSLContext | None) -> ClientAccess:
    if token is not None:
        return ClientAccess(token, tls)
    usual = ClientAccess.usual()
    return usual if tls is None else ClientAccess(usual.token, tls)
