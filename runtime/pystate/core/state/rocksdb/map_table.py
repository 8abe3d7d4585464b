"""The stored entries of a map state, one row each, so that a map may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import Any

from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.kinds.map_states import MapChange
from pystate.core.state.kinds.overlay import ABSENT
from pystate.core.state.rocksdb import database as rocksdb
from pystate.core.state.rocksdb.rows import RocksDBRows, RowsOf, too_large
from pystate.core.state.rocksdb.spill import SpilledRows
from pystate.core.state.rocksdb.value_table import ROWS_PER_WRITE
from pystate.core.state.values.serializers import TypeSerializer

_READ_BYTES = 200
"""The memory of a read entry besides its value: in a dict, with its map key."""

_MISSING = object()
_row_of = itemgetter(0)


class RocksDBMapTable(RocksDBRows):
    """The flushed entries of one map state.

    Args:
        of: Of which state.
        serializer: The serializer of the values.
        user_keys: The codec of the map keys.
    """

    __slots__ = ("_read_bytes", "_user_keys", "decode_user_key", "deserialize", "encode_user_key")

    def __init__(
        self,
        of: RowsOf,
        serializer: TypeSerializer,
        user_keys: KeyCodec,
    ) -> None:
        super().__init__(of)
        self._user_keys = user_keys
        self._read_bytes = 0
        self.encode_user_key = user_keys.encode
        self.decode_user_key = user_keys.decode
        self.deserialize: Callable[[bytes], Any] = serializer.deserialize if serializer.immutable else _as_it_is

    def open(self, key: Hashable, key_group: int) -> RocksDBStoredMap:
        """Return the entries of a key, without reading any."""
        return RocksDBStoredMap(self, self._begin(key, key_group))

    def read(self, prefix: bytes, row: bytes) -> bytes | None:
        """Return the value of a row of a map; None if there is none."""
        if self._spilled is None:
            data = self._read_row(row)
        else:
            data = self._read_spilled(self._spilled, prefix, row)
        self._read_bytes += _READ_BYTES if data is None else _READ_BYTES + len(data)
        return data

    def _read_spilled(self, spilled: SpilledRows, prefix: bytes, row: bytes) -> bytes | None:
        try:
            return spilled.read(prefix, row)
        except Exception as error:  # rocksdict has no class of its own
            raise self._database.read_error(error) from error

    def check(self, changes: list[MapChange]) -> None:
        """Reject what RocksDB can't hold.

        Raises:
            StateError: A value is too large.
        """
        limit = rocksdb.MAX_VALUE_BYTES
        for key, _, _, writes in changes:
            for user_key, stored in writes.items():
                if stored is not ABSENT and len(stored) > limit:
                    shown = f"{self._addresses.shown(key)}, map key {self._user_keys.external(user_key)!r},"
                    raise too_large(self._name, shown, len(stored), "spread it over several map keys")

    def put_all(self, changes: list[MapChange]) -> None:
        """Write the changes."""
        encode = self.encode_user_key
        for start in range(0, len(changes), ROWS_PER_WRITE):
            rows: list[tuple[bytes, bytes | None]] = []
            for key, key_group, cleared, writes in changes[start : start + ROWS_PER_WRITE]:
                prefix = self._begin(key, key_group)
                if cleared:
                    self._clear(prefix)
                for user_key, stored in writes.items():
                    rows.append((prefix + encode(user_key), None if stored is ABSENT else stored))
            rows.sort(key=_row_of)
            self._write(rows)

    def kept_bytes(self) -> int:
        """Return the approximate memory of what was read."""
        return self._read_bytes

    def end_epoch(self) -> None:
        """Drop what was read."""
        super().end_epoch()
        self._read_bytes = 0


class RocksDBStoredMap:
    """The flushed entries of one key. Single reads are cached, including absent entries; iterations aren't."""

    __slots__ = ("_prefix", "_read", "_table")

    def __init__(self, table: RocksDBMapTable, prefix: bytes) -> None:
        self._table = table
        self._prefix = prefix
        self._read: dict[Hashable, Any] = {}

    def get(self, user_key: Hashable, default: Any) -> Any:
        """Return the stored form of a value; `default` if there is no entry."""
        value = self._read.get(user_key, _MISSING)
        if value is _MISSING:
            table = self._table
            data = table.read(self._prefix, self._prefix + table.encode_user_key(user_key))
            value = self._read[user_key] = ABSENT if data is None else table.deserialize(data)
        return default if value is ABSENT else value

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the map keys."""
        start, decode = len(self._prefix), self._table.decode_user_key
        for row in self._table.scan_keys(self._prefix):
            yield decode(row[start:])

    def items(self) -> Iterator[tuple[Hashable, Any]]:
        """Iterate over (map key, stored form)."""
        start, decode, deserialize = len(self._prefix), self._table.decode_user_key, self._table.deserialize
        for row, data in self._table.scan(self._prefix):
            yield decode(row[start:]), deserialize(data)


def _as_it_is(data: bytes) -> bytes:
    return data
