"""Committed values of one table that stay in memory over epochs, and reach RocksDB late.

Nothing of a slot's RocksDB is durable before a checkpoint, so an epoch's end need not write to it. Values stay as objects:
who reads a warm key neither asks RocksDB nor deserializes, and a key that many epochs change is written once.
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
    """The stored forms of values in two generations: what isn't asked for while one fills goes with it.

    Args:
        limit: About how many bytes both may take.

    Attributes:
        dirty: What RocksDB doesn't have yet; None if it has to remove a row.
        key_groups: Of the dirty keys, and of others.
    """

    __slots__ = ("_limit", "_older", "_young", "dirty", "key_groups")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._young: dict[Hashable, Any] = {}
        self._older: dict[Hashable, Any] = {}
        self.dirty: dict[Hashable, Any] = {}
        self.key_groups: dict[Hashable, int] = {}

    def get(self, key: Hashable) -> Any:
        """Return a value, None if there is none; `MISSING` where that isn't known."""
        value = self._young.get(key, MISSING)
        if value is MISSING:
            value = self._older.get(key, MISSING)
            if value is not MISSING:
                self._young[key] = value
        return value

    def put_all(self, changes: Iterable[tuple[Hashable, Any]], key_groups: Mapping[Hashable, int]) -> None:
        """Take what an epoch has changed; None removes."""
        young, older, dirty, groups = self._young, self._older, self.dirty, self.key_groups
        for key, stored in changes:
            if stored is None and key not in dirty and young.get(key, older.get(key, MISSING)) is None:
                continue  # RocksDB has none
            young[key] = dirty[key] = stored
            groups[key] = key_groups[key]

    def add_read(self, values: Mapping[Hashable, Any]) -> None:
        """Take values as RocksDB has them, of keys that aren't here."""
        self._young.update(values)

    def unknown(self, keys: set[Hashable]) -> set[Hashable]:
        """Return those keys whose values aren't here."""
        return keys.difference(self._young).difference(self._older)

    def turn(self) -> bool:
        """Let a generation go if there is too much; return whether RocksDB doesn't have all of it, and has to get it now."""
        if mapping_size(self._young) * 2 <= self._limit:
            return False
        gone, self._older, self._young = self._older, self._young, {}
        return not self.dirty.keys().isdisjoint(gone)

    def take_dirty(self) -> tuple[dict[Hashable, Any], dict[Hashable, int]]:
        """Return what RocksDB doesn't have yet, and the key groups; the caller writes it now."""
        taken = self.dirty, self.key_groups
        self.dirty, self.key_groups = {}, {}
        return taken

    def clear(self) -> None:
        """Forget all; nothing may be dirty."""
        self._young.clear()
        self._older.clear()


class UnwrittenRows:
    """What RocksDB doesn't have of a state at the moment of a snapshot.

    Args:
        rows: Makes (row, bytes or None) of all that is missing there. Called on the thread that writes the snapshot.
    """

    __slots__ = ("_rows",)

    def __init__(self, rows: Callable[[], Iterable[tuple[bytes, bytes | None]]]) -> None:
        self._rows = rows

    def over(self, batches: Iterable[list[tuple[bytes, bytes]]]) -> Iterator[list[tuple[bytes, bytes]]]:
        """Return rows of RocksDB, which come in their order, some at a time, with these in their places."""
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
