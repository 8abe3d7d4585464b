"""The stored values of a state with one value per key, one row each."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from pystate.common.errors import CorruptSnapshotError, StateError
from pystate.common.overrides import override
from pystate.core.state.rocksdb import database as rocksdb
from pystate.core.state.rocksdb.rows import RocksDBRows, RowsOf, pack_head, too_large
from pystate.core.state.rocksdb.value_cache import MISSING, UnwrittenRows, ValueCache, read_ahead
from pystate.core.state.values.serializers import TypeSerializer

ROWS_PER_WRITE = 20_000
"""The number of rows that are made at a time: those of a large epoch take more memory than the epoch."""

_BYTES_OF_A_CHARACTER = 4
_row_of = itemgetter(0)


class RocksDBTable(RocksDBRows):
    """The flushed values of one state.

    What an epoch reads is kept in a cache until it ends, absent values included, so that a key is looked up and its value
    made an object once per epoch. A cache with room for more keeps values longer, and what epochs change reaches RocksDB
    with `write_back`. While the epoch is spilled, the cache has only what that reads.

    Args:
        of: Of which state.
        serializer: Of the values.
        cache_bytes: What values may take that stay in memory over epochs; 0 for none.
    """

    __slots__ = (
        "_all_key_bytes",
        "_cache",
        "_deserialize",
        "_deserialize_all",
        "_is_void",
        "_key_bytes",
        "_to_bytes",
    )

    def __init__(
        self,
        of: RowsOf,
        serializer: TypeSerializer,
        cache_bytes: int = 0,
    ) -> None:
        super().__init__(of)
        self._cache = ValueCache(cache_bytes)
        self.stores_objects = cache_bytes > 0
        self._to_bytes = serializer.serialize if self.stores_objects and serializer.immutable else None
        # rows are made in place: in the void namespace one call more to each is 4 % of a read
        self._is_void, self._key_bytes = of.addresses.is_void, of.addresses.key_bytes
        self._all_key_bytes = of.addresses.all_key_bytes
        self._deserialize = serializer.deserialize if serializer.immutable else None
        self._deserialize_all = serializer.deserialize_all

    def prefetch(self, keys: Sequence[Hashable], key_groups: Sequence[int], held: Mapping[Hashable, Any]) -> None:
        """Read ahead for the next keys, as far as that has been useful; in the void namespace only.

        Args:
            keys: Internal keys; some may be there several times.
            key_groups: Of the keys.
            held: By keys that won't be asked for, since the epoch has their values.

        Raises:
            StateError: RocksDB can't read.
        """
        self._cache.end_ahead()
        fresh = self._cache.unknown(set(keys).difference(held))
        if not fresh:
            return
        groups = dict(zip(keys, key_groups, strict=True))
        chosen = list(islice((key for key in groups if key in fresh), self._cache.ahead_limit()))
        key_data = zip(chosen, self._all_key_bytes(chosen), strict=True)
        wanted = {pack_head(groups[key], len(data)) + data: key for key, data in key_data}
        rows = sorted(wanted)
        data = read_ahead(rows, self._read_rows)
        with contextlib.suppress(StateError, CorruptSnapshotError):  # reported when the damaged value is read
            self._cache.add_ahead(dict(zip(map(wanted.__getitem__, rows), self._stored_forms(data), strict=False)))

    def _stored_forms(self, values: list[bytes | None]) -> list[Any]:
        if self._deserialize is None:
            return values
        if None not in values:
            return self._deserialize_all(values)  # type: ignore[arg-type]
        found = iter(self._deserialize_all([data for data in values if data is not None]))
        return [None if data is None else next(found) for data in values]

    @property
    def takes_lookahead(self) -> bool:
        """Whether the next keys determine the values that will be read."""
        return self._is_void

    def get(self, key: Hashable, key_group: int) -> Any:
        """Return the stored value; None if there is none."""
        cache = self._cache
        value = cache.young.get(key, MISSING)
        if value is not MISSING:
            return value
        value = cache.recall(key)
        if value is not MISSING:
            return value
        if self._is_void:
            data = self._key_bytes(key)
            value = self._read_row(pack_head(key_group, len(data)) + data)
        else:
            value = self._read_row(self._begin(key, key_group))
        if value is not None and self._deserialize is not None:
            value = self._deserialize(value)
            if value is None:
                message = f"A value of state {self._name!r} is null."
                raise CorruptSnapshotError(message)
        cache.young[key] = value
        return value

    def get_all(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> list[Any]:
        """Return the stored value of each key; None if there is none."""
        return list(map(self.get, keys, key_groups))

    def known(self, key: Hashable, key_group: int) -> Any:
        """Return a mutable value's bytes if the epoch has read them, or if they are cached."""
        return MISSING if self._deserialize is not None else self._cache.peek(key)

    def check(self, changes: Iterable[tuple[Hashable, Any]]) -> None:
        """Reject what RocksDB can't hold.

        Raises:
            StateError: A value is too large.
        """
        limit = rocksdb.MAX_VALUE_BYTES
        if self._to_bytes is not None:
            large = limit // _BYTES_OF_A_CHARACTER
            to_bytes = self._to_bytes
            changes = [(key, to_bytes(one)) for key, one in changes if isinstance(one, (str, bytes)) and len(one) > large]
        for key, stored in changes:
            if stored is not None and len(stored) > limit:
                raise too_large(self._name, self._addresses.shown(key), len(stored), "spread it over several keys")

    @property
    def _writes_late(self) -> bool:
        return self.stores_objects and self._spilled is None

    def put_all(self, changes: Iterable[tuple[Hashable, Any]], key_groups: Mapping[Hashable, int]) -> None:
        """Write (key, stored form) pairs; None deletes. Values known to be absent needn't be deleted."""
        if self._writes_late:
            self._cache.put_all(changes, key_groups)
            return
        young = self._cache.young
        present = (pair for pair in changes if pair[1] is not None or young.get(pair[0], MISSING) is not None)
        self._write_values(self._in_bytes(present), key_groups)

    def put_each(self, changes: Collection[tuple[Hashable, Any]], key_groups: Sequence[int]) -> None:
        """See `put_all`; `key_groups` has the key group of each change, in the same order."""
        self.put_all(changes, {key: group for (key, _), group in zip(changes, key_groups, strict=True)})

    def _in_bytes(self, changes: Iterable[tuple[Hashable, Any]]) -> Iterable[tuple[Hashable, bytes | None]]:
        to_bytes = self._to_bytes
        if to_bytes is None:
            return changes
        return ((key, None if stored is None else to_bytes(stored)) for key, stored in changes)

    def _write_values(self, changes: Iterable[tuple[Hashable, bytes | None]], key_groups: Mapping[Hashable, int]) -> None:
        row_of = self._begin
        waiting = iter(changes)
        while part := list(islice(waiting, ROWS_PER_WRITE)):
            if self._is_void:
                data_of = self._all_key_bytes([key for key, _ in part])
                rows = [
                    (pack_head(key_groups[key], len(data)) + data, stored)
                    for (key, stored), data in zip(part, data_of, strict=True)
                ]
            else:
                rows = [(row_of(key, key_groups[key]), stored) for key, stored in part]
            rows.sort(key=_row_of)  # RocksDB takes sorted rows a tenth faster, the sort included
            self._write(rows)

    def settle(self, max_dirty: int | None) -> None:
        """At the end of an epoch, write values that exceed the cache to RocksDB. Some may wait for `end_write`.

        Args:
            max_dirty: How many values may wait to be written; None for as many as the cache has room for.
        """
        if not self._writes_late:
            return
        if self._cache.turn() or (max_dirty is not None and len(self._cache.dirty) > max_dirty):
            self.write_back()

    @override
    def write_back(self) -> None:
        if not self._cache.dirty:
            return
        values, key_groups = self._cache.take_dirty()
        self._write_values(self._in_bytes(values.items()), key_groups)

    @override
    def unwritten(self) -> UnwrittenRows | None:
        if not self._cache.dirty:
            return None
        values, key_groups, row_of = dict(self._cache.dirty), dict(self._cache.key_groups), self._begin
        return UnwrittenRows(lambda: [(row_of(key, key_groups[key]), data) for key, data in self._in_bytes(values.items())])

    @override
    def spill_to(self, scratch: rocksdb.Database) -> None:
        """See `RocksDBRows.spill_to`; what finished epochs have changed is written, and none of it stays in the cache."""
        if self._cache.dirty:
            self.write_back()
            self._database.end_write()
        super().spill_to(scratch)

    @override
    def keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """See `RocksDBRows.keys`."""
        if self._cache.dirty:
            self.write_back()
            self._database.end_write()
        if self._spilled is None:
            self._cache.begin_visit()
        return super().keys()

    def forget(self, key: Hashable) -> None:
        """Drop what is known of a key."""
        self._cache.forget(key)

    def kept_bytes(self) -> int:
        """Return the approximate memory of what the epoch has read, beyond what the cache may take."""
        return self._cache.excess_bytes()

    def end_epoch(self) -> None:
        """Drop what was read, or keep it in the cache."""
        super().end_epoch()
        if self._spilled is not None:  # what was read may be rolled back
            self._cache.clear()
        self._cache.end_epoch()
