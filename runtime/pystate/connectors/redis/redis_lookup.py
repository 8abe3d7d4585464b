"""Look-ups in Redis, with a cache: `stream.map(RedisLookup(...))`, or asynchronously."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ConfigurationError, ExternalSystemError
from pystate.common.overrides import override
from pystate.common.time import Duration
from pystate.connectors.lookup import AsyncLookupFunction, CacheSettings, Lookup, LookupFunction
from pystate.connectors.redis.redis_connection import RedisConnectionOptions, is_passing, refusal_of_all, words_of
from pystate.connectors.redis.redis_request import RedisStructure

if TYPE_CHECKING:
    import redis

_TIMEOUT = Duration.of_seconds(10)
_FIRST_DELAY_S = 0.2


class _KeyLookup(Lookup):
    """Reads a key: of a string its bytes, of a hash a dict of text to bytes."""

    def __init__(
        self,
        connection: RedisConnectionOptions,
        key: Callable[[Any], str | bytes],
        structure: RedisStructure,
        cache: CacheSettings,
        max_retries: int,
        timeout: Duration,
    ) -> None:
        super().__init__(cache)
        if structure not in (RedisStructure.STRING, RedisStructure.HASH):
            message = f"Strings and hashes are looked up by their keys, not {structure!r}."
            raise ConfigurationError(message, hint="RedisStructure.STRING, or HASH")
        self._connection = connection
        self._key = key
        self._structure = structure
        self._max_retries = max_retries
        self._timeout_s = timeout.to_millis() / 1000

    @override
    def connect(self, connections: int) -> None:
        self._clients = [self._connection.connect(self._timeout_s) for _ in range(connections)]
        self._free: SimpleQueue[redis.Redis] = SimpleQueue()
        for client in self._clients:
            self._free.put(client)

    @override
    def disconnect(self) -> None:
        for client in getattr(self, "_clients", ()):
            client.close()

    @override
    def key_of(self, element: Any) -> str | bytes:
        return self._key(element)

    @override
    def ask(self, key: str | bytes) -> list[Any]:
        tries = 0
        while True:
            try:
                return self._read(key)
            except Exception as error:
                tries += 1
                if not is_passing(error) or tries > self._max_retries:
                    where, message = self._connection.shown(), f"A look-up failed: {words_of(error)}"
                    hint = "see whether Redis answers, and what the key holds: redis-cli TYPE ..."
                    refused = refusal_of_all(error, where) if not is_passing(error) else None
                    raise refused or ExternalSystemError(message, where=where, hint=hint) from None
                time.sleep(_FIRST_DELAY_S * tries)

    def _read(self, key: str | bytes) -> list[Any]:
        client = self._free.get()
        try:
            if self._structure is RedisStructure.STRING:
                value: Any = client.get(key)
                return [] if value is None else [value]
            fields: Any = client.hgetall(key)
            return [{name.decode(): value for name, value in fields.items()}] if fields else []
        finally:
            self._free.put(client)


class _FirstOnly:
    """Hands a `merge` what was found, or None, in the place of a list."""

    def __init__(self, merge: Callable[[Any, Any], Any]) -> None:
        self.merge = merge

    def __call__(self, element: Any, found: list[Any]) -> Any:
        return self.merge(element, found[0] if found else None)


class RedisLookup(LookupFunction):
    """Looks up a key for each element, one element at a time.

    A look-up returns what the key holds now: after a failure that may be something else.

    Args:
        connection: How to connect.
        key: Makes the key from an element: `lambda order: f"product:{order.product}"`.
        merge: Makes the result from an element and what the key holds: bytes of a string, a dict of text to bytes of a hash,
            None if there is no such key.
        structure: What keys hold.
        max_rows: The number of look-ups that each subtask caches, by last use; 0 for no cache.
        expire_after_write: How long a look-up is valid; None for ever.
        cache_missing_key: Whether to cache that there is no such key.
        max_retries: How often a failed look-up is retried.
        timeout: How long Redis may take.
    """

    def __init__(
        self,
        connection: RedisConnectionOptions,
        key: Callable[[Any], str | bytes],
        merge: Callable[[Any, Any], Any],
        *,
        structure: RedisStructure = RedisStructure.STRING,
        max_rows: int = 0,
        expire_after_write: Duration | None = None,
        cache_missing_key: bool = True,
        max_retries: int = 3,
        timeout: Duration = _TIMEOUT,
    ) -> None:
        cache = CacheSettings(max_rows, expire_after_write, cache_missing_key)
        super().__init__(_KeyLookup(connection, key, structure, cache, max_retries, timeout), _FirstOnly(merge))


class AsyncRedisLookup(AsyncLookupFunction):
    """Looks up keys for several elements concurrently: `AsyncDataStream.unordered_wait(stream, AsyncRedisLookup(...), ...)`.

    Args:
        connection: How to connect.
        key: See `RedisLookup`.
        merge: See `RedisLookup`.
        structure: See `RedisLookup`.
        max_rows: See `RedisLookup`.
        expire_after_write: See `RedisLookup`.
        cache_missing_key: See `RedisLookup`.
        max_retries: See `RedisLookup`.
        timeout: See `RedisLookup`.
        connections: The maximum number of concurrent look-ups per subtask, each with a thread and a connection.
    """

    def __init__(
        self,
        connection: RedisConnectionOptions,
        key: Callable[[Any], str | bytes],
        merge: Callable[[Any, Any], Any],
        *,
        structure: RedisStructure = RedisStructure.STRING,
        max_rows: int = 0,
        expire_after_write: Duration | None = None,
        cache_missing_key: bool = True,
        max_retries: int = 3,
        timeout: Duration = _TIMEOUT,
        connections: int = 8,
    ) -> None:
        cache = CacheSettings(max_rows, expire_after_write, cache_missing_key)
        lookup = _KeyLookup(connection, key, structure, cache, max_retries, timeout)
        super().__init__(lookup, _FirstOnly(merge), connections)
