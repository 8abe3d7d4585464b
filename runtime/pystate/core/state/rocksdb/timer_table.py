"""Timers as rows ordered by time within their key group; the first ones of each group are kept in memory.

A row key is the key group (2 bytes, big-endian), the time (8 bytes, see `timer_schema`), the length of the key (4 bytes,
big-endian), the key's bytes, and the namespace. Its value is empty.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

from pystate.common.key_groups import KeyGroupRange
from pystate.common.overrides import override
from pystate.core.state.base.priority_queue import Change
from pystate.core.state.base.timer_schema import TIME_BYTES, Timer, time_from_bytes
from pystate.core.state.files.canonical import Entry, StateMetaInfoSnapshot
from pystate.core.state.rocksdb.rows import KEY_GROUP_BYTES, KEYED_ROWS, RocksDBRows, RowLayout, RowsOf

_TIMER_BYTES = 400
_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">HQI")  # key group, time as `time_to_bytes` has it, length of the key
_LAST_TIME = (1 << 63) - 1
_TIME_END = KEY_GROUP_BYTES + TIME_BYTES
_HEAD_END = _TIME_END + _LENGTH.size


class TimerRows(RowLayout):
    """The layout of rows of timers."""

    @override
    def restored(self, key_group: int, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
        group = _group_prefix(key_group)
        for key, sub_key, value in entries:
            namespace, time = sub_key[:-TIME_BYTES], sub_key[-TIME_BYTES:]
            yield group + time + _LENGTH.pack(len(key)) + key + namespace, value

    def split(self, row: bytes) -> tuple[int, bytes, bytes]:
        """Return (key group, key's bytes, sub-key)."""
        end = _HEAD_END + _LENGTH.unpack_from(row, _TIME_END)[0]
        key_group = int.from_bytes(row[:KEY_GROUP_BYTES], "big")
        return key_group, row[_HEAD_END:end], row[end:] + row[KEY_GROUP_BYTES:_TIME_END]


TIMER_ROWS = TimerRows()


def layout_of(info: StateMetaInfoSnapshot) -> RowLayout:
    """Return the layout of the rows of a state in a snapshot."""
    return KEYED_ROWS if info.timers is None else TIMER_ROWS


class _Cache:
    """The cache of the first flushed timers of a key group.

    Attributes:
        rows: (row key, timer), ordered.
        known_to: The row key up to which all rows are in `rows`.
        complete: Whether all rows are.
        position: The position before which rows were removed by the running epoch.
    """

    __slots__ = ("complete", "known_to", "position", "rows")

    def __init__(self) -> None:
        self.rows: list[tuple[bytes, Timer]] = []
        self.known_to = b""
        self.complete = False
        self.position = 0

    def change(self, row: bytes, timer: Timer, added: bool) -> None:
        """Apply a flushed change."""
        rows = self.rows
        head: Any = (row,)  # which sorts before all pairs that begin with it
        place = bisect_left(rows, head)
        is_there = place < len(rows) and rows[place][0] == row
        if is_there and not added:
            del rows[place]
        elif added and not is_there and (self.complete or row <= self.known_to):
            rows.insert(place, (row, timer))

    def end_epoch(self, size: int) -> None:
        """Go back to the beginning, and drop what is beyond the bound."""
        self.position = 0
        if len(self.rows) > size:
            del self.rows[size:]
            self.known_to, self.complete = self.rows[-1][0], False


class RocksDBTimerTable(RocksDBRows):
    """The flushed timers of one service.

    Args:
        of: Of which state.
        cache_size: How many timers of each key group are kept in memory, the first ones.
        key_groups: Those of the subtask.

    Attributes:
        generation: See `TimerStore`.
    """

    __slots__ = (
        "_cache_size",
        "_caches",
        "_encode_key",
        "_encode_namespace",
        "_key_groups",
        "_moved",
        "_used",
        "generation",
    )

    layout = TIMER_ROWS

    def __init__(
        self,
        of: RowsOf,
        cache_size: int,
        key_groups: KeyGroupRange,
    ) -> None:
        super().__init__(of)
        self._encode_key = of.addresses.encode_key
        self._encode_namespace = of.addresses.encode_namespace
        self._key_groups = range(key_groups.start, key_groups.end + 1)
        self.generation = 0
        self._cache_size = cache_size
        self._caches: dict[int, _Cache] = {}
        self._used: set[_Cache] = set()  # by the running epoch
        self._moved = False  # what the running epoch had spilled

    def check(self, changes: list[Change]) -> None:
        """Accept everything: timers are small."""

    def put_all(self, changes: list[Change]) -> None:
        """Write the changes."""
        rows: list[tuple[bytes, bytes | None]] = []
        for timer, added in changes:
            row = self._row(timer)
            rows.append((row, b"" if added else None))
            cache = self._caches.get(timer.key_group)
            if cache is not None:
                cache.change(row, timer, added)
                self._used.add(cache)
        rows.sort(key=itemgetter(0))
        self._write(rows)

    def first(self, key_group: int, changes: Mapping[Timer, bool]) -> Timer | None:
        """Return a timer of the lowest time that the running epoch hasn't removed."""
        cache = self._caches.get(key_group)
        if cache is None:
            cache = self._caches[key_group] = _Cache()
        rows = cache.rows
        while True:
            while cache.position < len(rows):
                timer = rows[cache.position][1]
                if changes.get(timer) is not False:
                    return timer
                cache.position += 1
                self._used.add(cache)
            if cache.complete:
                return None
            self._extend(key_group, cache)

    def _extend(self, key_group: int, cache: _Cache) -> None:
        """Read the next timers of a key group."""
        self._used.add(cache)
        start = cache.known_to + b"\x00" if cache.known_to else _group_prefix(key_group)
        scan = self.scan_between(start, _group_prefix(key_group + 1))
        try:
            found = [(row, self._timer(row)) for row, _ in islice(scan, self._cache_size)]
        finally:
            scan.close()
        cache.rows += found
        cache.complete = len(found) < self._cache_size
        if found:
            cache.known_to = found[-1][0]

    def timers(self, key_group: int) -> Iterator[Timer]:
        """Iterate over the timers of a key group in the order of their times."""
        return (self._timer(row) for row in self.scan_keys(_group_prefix(key_group)))

    def last_time(self) -> int | None:
        """Return a time after which no timer is stored."""
        if self._spilled is not None:
            return _LAST_TIME
        groups = self._key_groups
        rows = (self._database.last(self._family(), _group_prefix(one), _group_prefix(one + 1)) for one in groups)
        return max((time_from_bytes(row[KEY_GROUP_BYTES:_TIME_END]) for row in rows if row is not None), default=None)

    def _row(self, timer: Timer) -> bytes:
        timestamp, key, key_group, namespace = timer
        data = self._encode_key(key)
        return _HEAD.pack(key_group, timestamp + _LAST_TIME + 1, len(data)) + data + self._encode_namespace(namespace)

    def _timer(self, row: bytes) -> Timer:
        key_group, key, sub_key = TIMER_ROWS.split(row)
        address, end = self._addresses.decode(key, sub_key)
        internal, namespace = self._addresses.split(address)
        return Timer(time_from_bytes(sub_key[end:]), internal, key_group, namespace)

    def kept_bytes(self) -> int:
        """Return the approximate memory of timers kept beyond the bound."""
        return _TIMER_BYTES * sum(max(0, len(cache.rows) - self._cache_size) for cache in self._used)

    def end_epoch(self) -> None:
        """Drop what the epoch read beyond the bound."""
        super().end_epoch()
        for cache in self._used:
            cache.end_epoch(self._cache_size)
        self._used.clear()

    @override
    def move_spilled(self) -> None:
        super().move_spilled()
        self._moved = self._spilled is not None

    @override
    def end_spill(self) -> None:
        rolled_back = self._spilled is not None and not self._moved
        super().end_spill()
        self._moved = False
        if rolled_back:  # else all is as in the caches, and removed rows at the front aren't scanned again
            self._caches.clear()
            self._used.clear()
            self.generation += 1


def _group_prefix(key_group: int) -> bytes:
    return key_group.to_bytes(KEY_GROUP_BYTES, "big")
