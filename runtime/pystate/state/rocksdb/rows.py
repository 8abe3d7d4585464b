"""How rows are keyed, in every column family, and what all tables do with them.

A row key is the key group (2 bytes, big-endian), the length of the key (4 bytes, big-endian), the key's bytes, and the
sub-key (see `base.schema`). So rows are ordered by key group, and no key with its sub-key is the beginning of another's.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from typing import Any

from pystate.common.errors import RestoreError, StateError
from pystate.state.base.canonical import Entry
from pystate.state.base.keys import KeyCodec
from pystate.state.rocksdb import database as rocksdb

KEY_GROUP_BYTES = 2

_HEAD = struct.Struct(">HI")
pack_head: Callable[[int, int], bytes] = _HEAD.pack
"""(key group, length of the key) -> what stands in front of the key."""


def split_row_key(row: bytes) -> tuple[int, bytes, bytes]:
    """Return (key group, key's bytes, sub-key)."""
    key_group, length = _HEAD.unpack_from(row)
    end = _HEAD.size + length
    return key_group, row[_HEAD.size : end], row[end:]


def after_prefix(prefix: bytes) -> bytes:
    """Return the lowest bytes above all that begin with a prefix; the prefix isn't all 0xff, since no key group is."""
    short = prefix.rstrip(b"\xff")
    return short[:-1] + bytes((short[-1] + 1,))


def restored_rows(key_group: int, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
    """Return the rows of a canonical file's entries.

    Raises:
        RestoreError: A value is too large.
    """
    limit = rocksdb.MAX_VALUE_BYTES
    for key, sub_key, value in entries:
        if len(value) > limit:
            message = f"A value in the snapshot has {len(value):,} bytes; RocksDB takes {limit:,} at most."
            raise RestoreError(message, hint="restore with the hashmap state backend")
        yield pack_head(key_group, len(key)) + key + sub_key, value


class RocksDBRows:
    """The rows of one state: what the tables of all kinds share.

    Args:
        name: The state's name.
        database: Where they are.
        family: The column family.
        codec: Of the backend.

    Attributes:
        family: The column family, until `detach`.
    """

    __slots__ = ("_database", "_decode", "_encode", "_get", "_name", "_scans", "family", "stores_objects")

    def __init__(self, name: str, database: rocksdb.Database, family: rocksdb.ColumnFamily, codec: KeyCodec) -> None:
        self.stores_objects = False
        self.family: rocksdb.ColumnFamily | None = family
        self._name = name
        self._database = database
        self._encode = codec.encode
        self._decode = codec.decode
        self._get: Callable[[bytes], bytes | None] = family.get
        self._scans: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()

    def _read_rows(self, rows: list[bytes]) -> list[bytes | None]:
        values: Any = self._read_row(rows)  # type: ignore[arg-type]  # rocksdict reads several, too
        return values  # type: ignore[no-any-return]

    def _read_row(self, row: bytes) -> bytes | None:
        try:
            return self._get(row)
        except StateError:
            raise
        except Exception as error:  # rocksdict has no class of its own
            raise self._database.read_error(error) from error

    def _head(self, key: Hashable, key_group: int) -> bytes:
        data = self._encode(key)
        return pack_head(key_group, len(data)) + data

    def scan(self, prefix: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over (row key, value) of the rows that begin with a prefix, until the epoch ends."""
        return self._watched(self._database.scan(self._family(), prefix, after_prefix(prefix)))

    def scan_keys(self, prefix: bytes) -> Generator[bytes, None, None]:
        """Iterate over the row keys that begin with a prefix, until the epoch ends."""
        return self._watched(self._database.scan_keys(self._family(), prefix, after_prefix(prefix)))

    def _watched(self, scan: Generator[Any, None, None]) -> Generator[Any, None, None]:
        # who keeps an iteration beyond the epoch, or beyond close(), must not keep RocksDB's files open with it
        self._scans.add(scan)
        return scan

    def _family(self) -> rocksdb.ColumnFamily:
        if self.family is None:
            raise _closed()
        return self.family

    def keys(self) -> Iterator[tuple[Hashable, int]]:
        """Iterate over (key, key group) of all that is stored, skipping over the other rows of a key."""
        decode = self._decode
        heads = self._watched(self._database.scan_heads(self._family(), _head_of, after_prefix))
        for row in heads:
            key_group, key, _ = split_row_key(row)
            yield decode(key), key_group

    def end_epoch(self) -> None:
        """End the scans that are still under way."""
        for scan in list(self._scans):
            scan.close()
        self._scans.clear()

    def detach(self) -> None:
        """Let the database go; states that are still used then say that the backend is closed."""
        self.end_epoch()
        self._get = _closed_get
        self.family = None


def _head_of(row: bytes) -> bytes:
    return row[: _HEAD.size + int.from_bytes(row[KEY_GROUP_BYTES : _HEAD.size], "big")]


def _closed() -> StateError:
    message = "The state backend is closed."
    return StateError(message)


def _closed_get(_row: bytes) -> bytes | None:
    raise _closed()


def too_large(name: str, shown: str, size: int, hint: str) -> StateError:
    """Return the error for a value that RocksDB can't hold.

    Args:
        name: The state's name.
        shown: Whose value, for people.
        size: Its bytes.
        hint: What to do.
    """
    message = (
        f"The value of state {name!r} for {shown} has {size:,} bytes; RocksDB takes {rocksdb.MAX_VALUE_BYTES:,} at most."
    )
    return StateError(message, hint=hint)
