"""Look-up joins with a system outside, with a cache: `stream.map(...)`, or asynchronously."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pystate.common.bounded_dict import BoundedDict
from pystate.common.time import Duration
from pystate.core.api.async_function import AsyncFunction
from pystate.core.api.functions import MapFunction, RuntimeContext

Merge = Callable[[Any, list[Any]], Any]


@dataclass(frozen=True)
class CacheSettings:
    """How look-ups are cached.

    Attributes:
        max_rows: The number of look-ups that each subtask caches, by last use; 0 for no cache.
        expire_after_write: How long a look-up is valid; None for ever.
        cache_missing_key: Whether to cache empty results.
    """

    max_rows: int = 0
    expire_after_write: Duration | None = None
    cache_missing_key: bool = True


class LookupCache:
    """A cache of look-ups. Names and meaning are those of Flink's `lookup.partial-cache.*`.

    Args:
        settings: What it keeps.
        clock: Returns seconds.
    """

    def __init__(self, settings: CacheSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        lasts = settings.expire_after_write
        seconds = None if lasts is None else lasts.to_millis() / 1000
        self._cache_missing_key = settings.cache_missing_key
        self._kept: BoundedDict[Any, list[Any]] = BoundedDict(settings.max_rows, seconds, clock)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of look-ups."""
        return len(self._kept)

    def get(self, key: Any) -> list[Any] | None:
        """Return the cached result; None if missing or expired."""
        with self._lock:
            return self._kept.get(key, renew=True)

    def put(self, key: Any, rows: list[Any]) -> None:
        """Add a result."""
        if rows or self._cache_missing_key:
            with self._lock:
                self._kept.put(key, rows)


class Lookup(ABC):
    """Asks a system for what belongs to a key, unless the cache has it; pickled into the slots.

    Args:
        cache: How look-ups are cached.
    """

    def __init__(self, cache: CacheSettings) -> None:
        self._cache_settings = cache

    @abstractmethod
    def connect(self, connections: int) -> None:
        """Prepare this many concurrent connections."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connections, if there are some."""

    @abstractmethod
    def key_of(self, element: Any) -> Any:
        """Return what is looked up for an element, as a key of the cache."""

    @abstractmethod
    def ask(self, key: Any) -> list[Any]:
        """Ask the system, with retries; the list is empty if nothing is found.

        Raises:
            PystateError: It rejects what is asked, or doesn't answer.
        """

    def open(self, context: RuntimeContext, connections: int) -> None:
        """Make the cache, and connect."""
        self._cache = LookupCache(self._cache_settings)
        self.connect(connections)
        group = context.get_metrics_group()
        self._hits, self._misses = group.counter("lookupCacheHits"), group.counter("lookupCacheMisses")

    def cached(self, key: Any) -> list[Any] | None:
        """Return the cached result."""
        found = self._cache.get(key)
        (self._misses if found is None else self._hits).inc()
        return found

    def find(self, key: Any) -> list[Any]:
        """Ask the system, and cache the result."""
        found = self.ask(key)
        self._cache.put(key, found)
        return found


class LookupFunction(MapFunction):
    """Looks up what belongs to each element, one element at a time.

    Args:
        lookup: Asks the system.
        merge: Makes the result from an element and what was found.
    """

    def __init__(self, lookup: Lookup, merge: Merge) -> None:
        self._lookup = lookup
        self._merge = merge

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect."""
        self._lookup.open(runtime_context, 1)

    def close(self) -> None:
        """Close the connection."""
        self._lookup.disconnect()

    def map(self, value: Any) -> Any:
        """Return the element merged with what was found."""
        key = self._lookup.key_of(value)
        found = self._lookup.cached(key)
        return self._merge(value, self._lookup.find(key) if found is None else found)


class AsyncLookupFunction(AsyncFunction[Any, Any]):
    """Looks up what belongs to several elements concurrently.

    Args:
        lookup: Asks the system, from several threads.
        merge: Makes the result from an element and what was found.
        connections: The maximum number of concurrent look-ups per subtask, each with a thread and a connection.
    """

    def __init__(self, lookup: Lookup, merge: Merge, connections: int) -> None:
        self._lookup = lookup
        self._merge = merge
        self._connections = connections

    def open(self, runtime_context: RuntimeContext) -> None:
        """Connect."""
        self._lookup.open(runtime_context, self._connections)
        self._threads = ThreadPoolExecutor(self._connections, thread_name_prefix="lookup")

    def close(self) -> None:
        """Close threads and connections."""
        threads: ThreadPoolExecutor | None = getattr(self, "_threads", None)
        if threads is not None:
            threads.shutdown(cancel_futures=True)
        self._lookup.disconnect()

    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the element merged with what was found."""
        key = self._lookup.key_of(value)
        found = self._lookup.cached(key)
        if found is None:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._lookup.find, key)
        return [self._merge(value, found)]
