"""Look-up joins with a database, with a cache: `stream.map(SqlLookup(...))`, or asynchronously."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pystate.common.bounded_dict import BoundedDict
from pystate.common.row import Row
from pystate.common.time import Duration
from pystate.connectors.sql.connection import SqlConnectionOptions
from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, words_of
from pystate.connectors.sql.sql_parameters import driver_sql
from pystate.connectors.sql.values import for_driver
from pystate.core.api.async_function import AsyncFunction
from pystate.core.api.functions import MapFunction, RuntimeContext

if TYPE_CHECKING:
    from sqlalchemy import Engine

_FIRST_DELAY_S = 0.2

Parameters = Callable[[Any], Sequence[Any]]
Merge = Callable[[Any, list[Row]], Any]


class LookupCache:
    """A cache of look-ups. Names and meaning are those of Flink's `lookup.partial-cache.*`.

    Args:
        max_rows: The number of look-ups to keep, by last use; 0 for none.
        expire_after_write: How long a look-up is valid; None for ever.
        cache_missing_key: Whether to cache empty results.
        clock: Returns seconds.
    """

    def __init__(
        self,
        max_rows: int = 0,
        expire_after_write: Duration | None = None,
        *,
        cache_missing_key: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        seconds = None if expire_after_write is None else expire_after_write.to_millis() / 1000
        self._cache_missing_key = cache_missing_key
        self._kept: BoundedDict[Any, list[Row]] = BoundedDict(max_rows, seconds, clock)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of look-ups."""
        return len(self._kept)

    def get(self, key: Any) -> list[Row] | None:
        """Return the cached result; None if missing or expired."""
        with self._lock:
            return self._kept.get(key, renew=True)

    def put(self, key: Any, rows: list[Row]) -> None:
        """Add a result."""
        if rows or self._cache_missing_key:
            with self._lock:
                self._kept.put(key, rows)


class LookupQuery:
    """A query and its cache; pickled into the slots.

    Args:
        connection: How to connect to the database.
        query: A SELECT with a `?` for each parameter.
        parameters: Makes them from an element.
        max_rows: See `LookupCache`.
        expire_after_write: See `LookupCache`.
        cache_missing_key: See `LookupCache`.
        max_retries: How often a look-up is retried after a lost connection or a deadlock.
    """

    def __init__(
        self,
        connection: SqlConnectionOptions,
        query: str,
        parameters: Parameters,
        *,
        max_rows: int,
        expire_after_write: Duration | None,
        cache_missing_key: bool,
        max_retries: int,
    ) -> None:
        self._connection = connection
        self._query = query
        self._parameters = parameters
        self._max_retries = max_retries
        self._cache_settings = (max_rows, expire_after_write, cache_missing_key)
        self._engine: Engine | None = None

    def open(self, context: RuntimeContext, connections: int) -> None:
        """Create the engine."""
        max_rows, ttl, missing = self._cache_settings
        self._cache = LookupCache(max_rows, ttl, cache_missing_key=missing)
        self._engine = self._connection.create_engine(connections)
        self._sql = driver_sql(self._query, self._engine.dialect.name, self._engine.dialect.paramstyle)
        group = context.get_metrics_group()
        self._hits, self._misses = group.counter("lookupCacheHits"), group.counter("lookupCacheMisses")

    def close(self) -> None:
        """Close the connections."""
        if self._engine is not None:
            self._engine.dispose()

    def key_of(self, element: Any) -> tuple[Any, ...]:
        """Return the parameters of an element."""
        return tuple(self._parameters(element))

    def cached(self, key: tuple[Any, ...]) -> list[Row] | None:
        """Return the cached result."""
        found = self._cache.get(key)
        (self._misses if found is None else self._hits).inc()
        return found

    def ask(self, key: tuple[Any, ...]) -> list[Row]:
        """Query the database.

        Raises:
            SqlError: It rejects the query, or doesn't answer.
        """
        from sqlalchemy import exc

        assert self._engine is not None  # noqa: S101 - it is open
        tries = 0
        while True:
            try:
                with self._engine.connect() as connection:
                    found = connection.exec_driver_sql(self._sql, for_driver(list(key), self._engine.dialect.name))
                    names = list(found.keys())
                    rows = [Row.of_fields(tuple(names), list(row)) for row in found]
                break
            except exc.SQLAlchemyError as error:
                tries += 1
                if failure_of(error) not in (Failure.LOST, Failure.CONFLICT) or tries > self._max_retries:
                    message = f"A look-up failed: {words_of(error, self._connection.password())}"
                    raise SqlError(message, where=self._query, hint="try the query by hand") from None
                time.sleep(_FIRST_DELAY_S * tries)
        self._cache.put(key, rows)
        return rows


class SqlLookup(MapFunction):
    """Looks up rows for each element, one element at a time.

    A look-up returns the current rows of the database: after a failure they may differ.

    Args:
        connection: How to connect to the database.
        query: A SELECT with a `?` for each parameter.
        parameters: Makes them from an element: `lambda order: (order.product,)`.
        merge: Makes the result from an element and the rows found.
        max_rows: The number of look-ups that each subtask caches, by last use; 0 for no cache.
        expire_after_write: How long a look-up is valid; None for ever.
        cache_missing_key: Whether to cache empty results.
        max_retries: How often a failed look-up is retried.
    """

    def __init__(
        self,
        connection: SqlConnectionOptions,
        query: str,
        parameters: Parameters,
        merge: Merge,
        *,
        max_rows: int = 0,
        expire_after_write: Duration | None = None,
        cache_missing_key: bool = True,
        max_retries: int = 3,
    ) -> None:
        self._merge = merge
        self._query = LookupQuery(
            connection,
            query,
            parameters,
            max_rows=max_rows,
            expire_after_write=expire_after_write,
            cache_missing_key=cache_missing_key,
            max_retries=max_retries,
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        """Create the engine."""
        self._query.open(runtime_context, 1)

    def close(self) -> None:
        """Close the connection."""
        self._query.close()

    def map(self, value: Any) -> Any:
        """Return the element merged with the rows found."""
        key = self._query.key_of(value)
        rows = self._query.cached(key)
        return self._merge(value, self._query.ask(key) if rows is None else rows)


class AsyncSqlLookup(AsyncFunction[Any, Any]):
    """Looks up rows for several elements concurrently: `AsyncDataStream.unordered_wait(stream, AsyncSqlLookup(...), ...)`.

    Args:
        connection: How to connect to the database.
        query: See `SqlLookup`.
        parameters: See `SqlLookup`.
        merge: See `SqlLookup`.
        max_rows: See `SqlLookup`.
        expire_after_write: See `SqlLookup`.
        cache_missing_key: See `SqlLookup`.
        max_retries: See `SqlLookup`.
        connections: The maximum number of concurrent look-ups per subtask, each with a thread and a connection.
    """

    def __init__(
        self,
        connection: SqlConnectionOptions,
        query: str,
        parameters: Parameters,
        merge: Merge,
        *,
        max_rows: int = 0,
        expire_after_write: Duration | None = None,
        cache_missing_key: bool = True,
        max_retries: int = 3,
        connections: int = 8,
    ) -> None:
        self._merge = merge
        self._connections = connections
        self._query = LookupQuery(
            connection,
            query,
            parameters,
            max_rows=max_rows,
            expire_after_write=expire_after_write,
            cache_missing_key=cache_missing_key,
            max_retries=max_retries,
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        """Create the engine."""
        self._query.open(runtime_context, self._connections)
        self._threads = ThreadPoolExecutor(self._connections, thread_name_prefix="sql-lookup")

    def close(self) -> None:
        """Close threads and connections."""
        threads: ThreadPoolExecutor | None = getattr(self, "_threads", None)
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        self._query.close()

    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the element merged with the rows found."""
        key = self._query.key_of(value)
        rows = self._query.cached(key)
        if rows is None:
            rows = await asyncio.get_running_loop().run_in_executor(self._threads, self._query.ask, key)
        return [self._merge(value, rows)]
