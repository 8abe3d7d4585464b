"""The one cache of a value table: what was read, what was read ahead, and what finished epochs have written.

A slot's RocksDB isn't durable before a checkpoint, so the end of an epoch needn't write to it. Values are kept as objects:
reading a hot key needs neither RocksDB nor deserialization, and a key changed by many epochs is written once. A cache
without room for that keeps what the running epoch reads, and nothing else.

RocksDB reads sorted keys together in two thirds of the time of single reads, so the values of the next keys are read ahead.
Unused reads are wasted: as long as most of the values read ahead were used, whole batches are read ahead; else a few keys,
to detect when that changes.
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

TRIAL_KEYS = 64
"""The number of a batch's keys that are read ahead while it isn't known whether reading ahead pays."""

WORTH_SHARE = 0.75
"""Reading ahead pays if this share of it is asked for."""

MAX_KEYS = 20_000
MAX_BYTES = 16 << 20
"""The approximate size of one read-ahead; the rest is read on demand."""

_FIRST_KEYS = 16  # values may be large, so the first get is for a few
_MOST_KEYS = 512
_ROWS_AT_ONCE = 128
_row_of: Callable[[tuple[bytes, Any]], bytes] = itemgetter(0)


class ValueCache:
    """The stored forms of values in two generations: values not used while one generation fills are evicted with it.

    Args:
        limit: The approximate maximum size in bytes of what is kept over epochs; 0 to keep nothing.

    Attributes:
        young: The values that were asked for or written lately; None for absent ones.
        dirty: The values that are not written to RocksDB yet; None for rows to be deleted.
        key_groups: The key groups of the dirty keys, and of others.
    """

    __slots__ = ("_ahead", "_before_visit", "_fetched", "_limit", "_older", "_share", "dirty", "key_groups", "young")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.young: dict[Hashable, Any] = {}
        self._older: dict[Hashable, Any] = {}
        self.dirty: dict[Hashable, Any] = {}
        self.key_groups: dict[Hashable, int] = {}
        self._ahead: dict[Hashable, Any] = {}  # for this epoch, and not asked for yet
        self._fetched = 0  # so many were put into _ahead; those asked for were taken out
        self._share: float | None = None  # of what was read ahead, how much was used
        self._before_visit: frozenset[Hashable] = frozenset()

    def peek(self, key: Hashable) -> Any:
        """Return a value, None if there is none; `MISSING` if it isn't known. What was only read ahead doesn't count."""
        value = self.young.get(key, MISSING)
        return value if value is not MISSING else self._older.get(key, MISSING)

    def recall(self, key: Hashable) -> Any:
        """Make a value young that isn't; return it, None if there is none, and `MISSING` if it isn't known."""
        value = self._ahead.pop(key, MISSING)
        if value is MISSING:
            value = self._older.get(key, MISSING)
            if value is MISSING:
                return MISSING
        self.young[key] = value
        return value

    def unknown(self, keys: set[Hashable]) -> set[Hashable]:
        """Return the keys whose values aren't known."""
        return keys.difference(self.young).difference(self._older)

    def ahead_limit(self) -> int:
        """Return how many keys to read ahead now."""
        return MAX_KEYS if self._share is not None and self._share >= WORTH_SHARE else TRIAL_KEYS

    def add_ahead(self, values: dict[Hashable, Any]) -> None:
        """Add values read ahead, of keys that aren't known."""
        self._ahead = values
        self._fetched = len(values)

    def end_ahead(self) -> None:
        """Drop what was read ahead and not asked for, and learn from how much that is."""
        if self._fetched:
            share = 1 - len(self._ahead) / self._fetched
            self._share = share if self._share is None else (self._share + share) / 2
        self._ahead.clear()
        self._fetched = 0

    def put_all(self, changes: Iterable[tuple[Hashable, Any]], key_groups: Mapping[Hashable, int]) -> None:
        """Add the changes of an epoch; None deletes."""
        young, older, dirty, groups = self.young, self._older, self.dirty, self.key_groups
        for key, stored in changes:
            if stored is None and key not in dirty and young.get(key, older.get(key, MISSING)) is None:
                continue  # RocksDB has none
            young[key] = dirty[key] = stored
            groups[key] = key_groups[key]

    def begin_visit(self) -> None:
        """Note what is known before all keys are visited, so that the visit doesn't evict it."""
        if self._limit:
            self._before_visit = frozenset(self.young).union(self._older)

    def forget(self, key: Hashable) -> None:
        """Drop a value that RocksDB has, unless it was known before the visit of all keys."""
        if key not in self.dirty and key not in self._before_visit:
            self.young.pop(key, None)
            self._older.pop(key, None)

    def turn(self) -> bool:
        """Evict a generation if the cache is full; return whether it has dirty values, which must be written now."""
        if not self._is_full():
            return False
        gone, self._older, self.young = self._older, self.young, {}
        return not self.dirty.keys().isdisjoint(gone)

    def _is_full(self) -> bool:
        return mapping_size(self.young) * 2 > self._limit

    def excess_bytes(self) -> int:
        """Return the approximate size of what is kept beyond the limit for the running epoch."""
        return max(0, mapping_size(self.young, keys=False) - self._limit // 2)

    def take_dirty(self) -> tuple[dict[Hashable, Any], dict[Hashable, int]]:
        """Return the dirty values and the key groups; the caller writes them now."""
        taken = self.dirty, self.key_groups
        self.dirty, self.key_groups = {}, {}
        return taken

    def end_epoch(self) -> None:
        """Keep what fits, and drop what was read ahead."""
        self.end_ahead()
        self._before_visit = frozenset()
        if not self._limit:
            self.young.clear()
        elif self._is_full() and self.dirty.keys().isdisjoint(self._older):  # an epoch that reads much may write nothing
            self._older, self.young = self.young, {}

    def clear(self) -> None:
        """Clear the cache; nothing may be dirty."""
        self.end_ahead()
        self.young.clear()
        self._older.clear()


def read_ahead(rows: list[bytes], get: Callable[[list[bytes]], list[bytes | None]]) -> list[bytes | None]:
    """Return the values of the first rows, None if there is none; fewer than rows where the values are large.

    Args:
        rows: Row keys, sorted.
        get: Reads several rows.
    """
    values: list[bytes | None] = []
    size, step = 0, _FIRST_KEYS
    while len(values) < len(rows) and size < MAX_BYTES:
        part = get(rows[len(values) : len(values) + step])
        values += part
        size += sum(len(value) for value in part if value is not None)
        step = min(2 * step, _MOST_KEYS)
    return values


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
