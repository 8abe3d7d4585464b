"""Look-up joins with a database, with a cache: `stream.map(SqlLookup(...))`, or asynchronously."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.common.row import Row
from pystate.common.time import Duration
from pystate.connectors.lookup import AsyncLookupFunction, CacheSettings, Lookup, LookupFunction, Merge
from pystate.connectors.sql.connection import SqlConnectionOptions
from pystate.connectors.sql.sql_errors import Failure, SqlError, failure_of, words_of
from pystate.connectors.sql.sql_parameters import driver_sql
from pystate.connectors.sql.values import for_driver

if TYPE_CHECKING:
    from sqlalchemy import Engine

_FIRST_DELAY_S = 0.2

Parameters = Callable[[Any], Sequence[Any]]


class LookupQuery(Lookup):
    """A query; pickled into the slots.

    Args:
        connection: How to connect to the database.
        query: A SELECT with a `?` for each parameter.
        parameters: Makes them from an element.
        cache: How look-ups are cached.
        max_retries: How often a look-up is retried after a lost connection or a deadlock.
    """

    def __init__(
        self,
        connection: SqlConnectionOptions,
        query: str,
        parameters: Parameters,
        *,
        cache: CacheSettings,
        max_retries: int,
    ) -> None:
        super().__init__(cache)
        self._connection = connection
        self._query = query
        self._parameters = parameters
        self._max_retries = max_retries
        self._engine: Engine | None = None

    @override
    def connect(self, connections: int) -> None:
        self._engine = self._connection.create_engine(connections)
        self._sql = driver_sql(self._query, self._engine.dialect.name, self._engine.dialect.paramstyle)

    @override
    def disconnect(self) -> None:
        if self._engine is not None:
            self._engine.dispose()

    @override
    def key_of(self, element: Any) -> tuple[Any, ...]:
        return tuple(self._parameters(element))

    @override
    def ask(self, key: tuple[Any, ...]) -> list[Row]:
        from sqlalchemy import exc

        assert self._engine is not None  # noqa: S101 - it is open
        tries = 0
        while True:
            try:
                with self._engine.connect() as connection:
                    found = connection.exec_driver_sql(self._sql, for_driver(list(key), self._engine.dialect.name))
                    names = list(found.keys())
                    return [Row.of_fields(tuple(names), list(row)) for row in found]
            except exc.SQLAlchemyError as error:
                tries += 1
                if failure_of(error) not in (Failure.LOST, Failure.CONFLICT) or tries > self._max_retries:
                    message = f"A look-up failed: {words_of(error, self._connection.password())}"
                    raise SqlError(message, where=self._query, hint="try the query by hand") from None
                time.sleep(_FIRST_DELAY_S * tries)


class SqlLookup(LookupFunction):
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
        cache = CacheSettings(max_rows, expire_after_write, cache_missing_key)
        super().__init__(LookupQuery(connection, query, parameters, cache=cache, max_retries=max_retries), merge)


class AsyncSqlLookup(AsyncLookupFunction):
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
        cache = CacheSettings(max_rows, expire_after_write, cache_missing_key)
        query_of = LookupQuery(connection, query, parameters, cache=cache, max_retries=max_retries)
        super().__init__(query_of, merge, connections)
