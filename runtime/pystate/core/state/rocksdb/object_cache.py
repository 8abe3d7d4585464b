"""A write-back cache of committed values of one table, which are kept in memory over several epochs.

A slot's RocksDB isn't durable before a checkpoint, so the end of an epoch needn't write to it. Values are kept as objects:
reading a hot key needs neither RocksDB nor deserialization, and a key changed by many epochs is written once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from pystate.core.state.kinds.epoch_size import mapping_size

MISSING = object()
"""Stands for a key that the cache doesn't know."""

MAX_DIRTY = 5_000
"""With incremental checkpoints no more values than this wait to be written: each barrier writes all of them, which takes
some 10 ms of its synchronous part. Other snapshots take them from memory."""

_ROWS_AT_ONCE = 128
_row_of: Callable[[tuple[bytes, Any]], bytes] = itemgetter(0)


class ObjectCache:
    """The stored forms of values in two generations: values not used while one generation fills are evicted with it.

    Args:
        limit: The approximate maximum size of both in bytes.

    Attributes:
        dirty: The values that are not written to RocksDB yet; None for rows to be deleted.
        key_groups: The key groups of the dirty keys, and of others.
    """

    __slots__ = ("_limit", "_older", "_young", "dirty", "key_groups")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: dict[Hashable, Any] = {}
        self._older: dict[Hashable, Any] = {}
        self.dirty: dict[Hashable, Any] = {}
        self.key_groups: dict[Hashable, int] = {}

    def get(self, key: Hashable) -> Any:
        """Return a value, None if there is none; `MISSING` if it isn't cached."""
        value = self._young.get(key, MISSING)
        if value is MISSING:
            value = self._older.get(key, MISSING)
            if value is not MISSING:
                self._young[key] = value
        return value

    def put_all(self, changes: Iterable[tuple[Hashable, Any]], key_groups: Mapping[Hashable, int]) -> None:
        """Add the changes of an epoch; None deletes."""
        young, older, dirty, groups = self._young, self._older, self.dirty, self.key_groups
        for key, stored in changes:
            if stored is None and key not in dirty and young.get(key, older.get(key, MISSING)) is None:
                continue  # RocksDB has none
            young[key] = dirty[key] = stored
            groups[key] = key_groups[key]

    def add_read(self, values: Mapping[Hashable, Any]) -> None:
        """Add values read from RocksDB, of keys that aren't cached."""
        self._young.update(values)

    def unknown(self, keys: set[Hashable]) -> set[Hashable]:
        """Return the keys whose values aren't cached."""
        return keys.difference(self._young).difference(self._older)

    def turn(self) -> bool:
        """Evict a generation if the cache is full; return whether it has dirty values, which must be written now."""
        if mapping_size(self._young) * 2 <= self._limit:
            return False
        gone, self._older, self._young = self._older, self._young, {}
        return not self.dirty.keys().isdisjoint(gone)

    def take_dirty(self) -> tuple[dict[Hashable, Any], dict[Hashable, int]]:
        """Return the dirty values and the key groups; the caller writes them now."""
        taken = self.dirty, self.key_groups
        self.dirty, self.key_groups = {}, {}
        return taken

    def clear(self) -> None:
        """Clear the cache; nothing may be dirty."""
        self._young.clear()
        self._older.clear()


class UnwrittenRows:
    """The rows of a state that are not written to RocksDB at the moment of a snapshot.

    Args:
        rows: Returns (row, bytes or None) of these rows. Called on the thread that writes the snapshot.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Callable[[], Iterable[tuple[bytes, bytes | None]]]) -> None:
        self._rows = rows

    def over(self, batches: Iterable[list[tuple[bytes, bytes]]]) -> Iterator[list[tuple[bytes, bytes]]]:
        """Merge these rows into ordered batches of rows from RocksDB."""
        newer = sorted(self._rows(), key=_row_of)
        place, count = 0, len(newer)
        for batch in batches:
            end = bisect_right(newer, batch[-1][0], place, count, key=_row_of)
            merged = batch if end == place else _merged(batch, newer[place:end])
            place = end
            if merged:
                yield merged
        while place < count:
            rest = _merged([], newer[place : place + _ROWS_AT_ONCE])
            place += _ROWS_AT_ONCE
            if rest:
                yield rest


def _merged(rows: list[tuple[bytes, bytes]], newer: list[tuple[bytes, bytes | None]]) -> list[tuple[bytes, bytes]]:
    values: dict[bytes, bytes | None] = dict(rows)
    values.update(newer)
    return sorted((row, value) for row, value in values.items() if value is not None)
