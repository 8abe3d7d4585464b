"""Reads the state of running jobs from outside (Flink's QueryableStateClient)."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from pystate.common.configuration.groups.queryable_state_options import QueryableStateOptions
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
    """Queries state through the proxy of a job's driver. Thread-safe; a `with` block closes it.

    All calls return a `concurrent.futures.Future`; their `..._async` variants are awaited. While the job restarts, or a new
    driver has not yet bound the port of the old one, a call waits until its timeout.

    Args:
        remote_hostname: The host of the job's driver.
        remote_port: The port of its proxy, which the job logs.
        token: The token to prove; None for that of `pystate.rest.token-file` or PYSTATE_HOME, as in commands. With a token,
            `tls` alone determines TLS.
        tls: The TLS options; without it and a token, those of the settings.
        timeout: The timeout of a call in seconds.
        direct: Whether to query slots directly, if the job supports that and they are reachable; else the proxy.

    Raises:
        UsageError: The port is invalid, or the timeout isn't positive.
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
        """Return the future of a key's state: an immutable state of its kind, with its version.

        Args:
            job_id: 32 hex digits.
            queryable_state_name: The name given to `set_queryable`.
            key: The key.
            key_type_info: The type of the key; None for that of the job.
            state_descriptor: The descriptor of the state; None for that of the job. Without it an aggregating state is its
                accumulator.
            namespace: For window state the window: a pair (start, end), ms since 1970.
            prefix: For a map: only entries whose key, a string or bytes, has this prefix.
            consistency: Which version to read.

        Raises:
            QueryableStateError: From the future: there is no value, or the job rejects the query; a class for each case.
            ProxyUnreachableError: From the future: no proxy answers.
        """
        request = KvStateRequest(queryable_state_name, key, key_type_info, state_descriptor, namespace, prefix)
        return self._run(self._queries.one(job_id, request, _consistency(consistency)))

    async def get_kv_state_async(self, *args: Any, **kwargs: Any) -> Any:
        """Await the result of `get_kv_state`."""
        return await asyncio.wrap_future(self.get_kv_state(*args, **kwargs))

    def get_kv_states(
        self, job_id: str, requests: Sequence[KvStateRequest], *, consistency: Consistency = Consistency.CHECKPOINTED
    ) -> Future[list[ImmutableState | None]]:
        """Return the future of several states, in the order of the requests; None for those without a value.

        The answer of one subtask always has one version. Subtasks whose versions differ are queried again until they agree,
        for up to half a second; if they still don't, the `version` of each state shows it.

        Args:
            job_id: 32 hex digits.
            requests: The keys and states.
            consistency: Which version to read.

        Raises:
            QueryableStateError, ProxyUnreachableError: From the future, like `get_kv_state`.
        """
        return self._run(self._queries.many(job_id, list(requests), _consistency(consistency)))

    async def get_kv_states_async(self, *args: Any, **kwargs: Any) -> list[ImmutableState | None]:
        """Await the result of `get_kv_states`."""
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
        """Return the future of a page of a map or list; its `cursor` is the start of the next page, None at the end.

        All pages have the version of the first one, as long as the job keeps that; after that there is a `VersionGoneError`.

        Args:
            job_id: 32 hex digits.
            request: The key and state.
            limit: The maximum number of entries or elements; there are fewer if an answer is full or some have expired.
            cursor: The cursor of the previous page, for the same state, key, namespace and prefix.
            consistency: Which version to read for the first page.

        Raises:
            QueryableStateError, ProxyUnreachableError: From the future, like `get_kv_state`.
        """
        return self._run(self._queries.page(job_id, request, _consistency(consistency), limit, cursor))

    async def get_kv_state_page_async(self, *args: Any, **kwargs: Any) -> Any:
        """Await the result of `get_kv_state_page`."""
        return await asyncio.wrap_future(self.get_kv_state_page(*args, **kwargs))

    def get_queryable_states(self, job_id: str) -> Future[list[QueryableState]]:
        """Return the future of the queryable states of a job, with their types.

        Raises:
            QueryableStateError, ProxyUnreachableError: From the future, like `get_kv_state`.
        """
        return self._run(self._queries.states(job_id))

    async def get_queryable_states_async(self, job_id: str) -> list[QueryableState]:
        """Await the result of `get_queryable_states`."""
        return await asyncio.wrap_future(self.get_queryable_states(job_id))

    def shutdown_and_wait(self) -> None:
        """Close the connection; pending calls fail. Flink's name for `close`."""
        self.close()

    def close(self) -> None:
        """Close the connection; pending calls fail."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            asyncio.run_coroutine_threadsafe(self._queries.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> QueryableStateClient:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._closed:
            work.close()
            raise closed()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _consistency(value: Consistency) -> Consistency:
    """Return a consistency, which may be given by name."""
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
