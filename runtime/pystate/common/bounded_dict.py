"""A dict of a bounded number of entries, which may also expire."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(Generic[K, V]):
    """The latest entries by key: those set first make room for others. Not thread-safe.

    Args:
        most: The number of entries to keep; 0 for none.
        seconds: How long an entry is valid; None for ever.
        clock: Returns monotonic seconds.
    """

    def __init__(self, most: int, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def put(self, key: K, value: V) -> list[K]:
        """Set an entry, which becomes the newest; return the keys of those that made room for it."""
        self._entries[key] = 0.0 if self._seconds is None else self._clock(), value
        self._entries.move_to_end(key)
        gone: list[K] = []
        while len(self._entries) > self._most:
            gone.append(self._entries.popitem(last=False)[0])
        return gone

    def replace(self, key: K, value: V) -> None:
        """Set the value of an entry, which gets no newer and no older; an unknown one stays unknown."""
        found = self._entries.get(key)
        if found is not None:
            self._entries[key] = found[0], value

    def get(self, key: K, *, renew: bool = False) -> V | None:
        """Return a value; None if it is unknown or has expired.

        Args:
            key: The key.
            renew: Whether the entry becomes the newest, so that those that aren't asked for make room first. It expires as
                before.
        """
        found = self._entries.get(key)
        if found is None:
            return None
        since, value = found
        if self._seconds is not None and self._clock() - since >= self._seconds:
            del self._entries[key]
            return None
        if renew:
            self._entries.move_to_end(key)
        return value

    def pop(self, key: K) -> V | None:
        """Remove an entry and return its value; None if it is unknown."""
        found = self._entries.pop(key, None)
        return None if found is None else found[1]

    def __contains__(self, key: K) -> bool:
        """Return whether there is an entry that hasn't expired."""
        return self.get(key) is not None

    def __len__(self) -> int:
        """Return the number of entries, including expired ones that nobody has asked for."""
        return len(self._entries)

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over the entries, the oldest first."""
        return ((key, value) for key, (_, value) in self._entries.items())
