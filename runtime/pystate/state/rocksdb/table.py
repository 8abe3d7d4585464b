"""The stored values of one state in a column family, and how their rows are keyed.

A row key is the key group (2 bytes, big-endian), the length of the key (4 bytes, big-endian), the key's bytes, and the
namespace. So rows are ordered by key group, and no key with its namespace is the beginning of another's.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.state.base.canonical import Entry
from pystate.state.base.keys import KeyCodec
from pystate.state.base.serializers import TypeSerializer
from pystate.state.rocksdb import database as rocksdb

KEY_GROUP_BYTES = 2

_HEAD = struct.Struct(">HI")
_pack_head = _HEAD.pack
_MISSING = object()
_row_of = itemgetter(0)


def split_row_key(row: bytes) -> tuple[int, bytes, bytes]:
    """Return (key group, key's bytes, namespace)."""
    key_group, length = _HEAD.unpack_from(row)
    end = _HEAD.size + length
    return key_group, row[_HEAD.size : end], row[end:]


def restored_rows(key_group: int, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
    """Return the rows of a canonical file's entries.

    Raises:
        RestoreError: A value is too large.
    """
    limit = rocksdb.MAX_VALUE_BYTES
    for key, namespace, value in entries:
        if len(value) > limit:
            message = f"A value in the snapshot has {len(value):,} bytes; RocksDB takes {limit:,} at most."
            raise RestoreError(message, hint="restore with the hashmap state backend")
        yield _pack_head(key_group, len(key)) + key + namespace, value


class RocksDBTable:
    """The flushed values of one state.

    What an epoch reads is kept until it ends, absent values included, so that a key is looked up and its value made an
    object once per epoch.

    Attributes:
        family: The column family.
    """

    __slots__ = ("_database", "_deserialize", "_encode", "_get", "_name", "_read", "family", "stores_objects")

    def __init__(self, name: str, database: rocksdb.Database, codec: KeyCodec, serializer: TypeSerializer) -> None:
        self.stores_objects = False
        self.family = database.family(name)
        self._name = name
        self._database = database
        self._encode = codec.encode
        self._get = self.family.get
        self._deserialize = serializer.deserialize if serializer.immutable else None
        self._read: dict[Hashable, Any] = {}

    def get(self, key: Hashable, key_group: int) -> Any:
        """Return the stored value; None where there is none."""
        value = self._read.get(key, _MISSING)
        if value is not _MISSING:
            return value
        data = self._encode(key)
        try:
            value = self._get(_pack_head(key_group, len(data)) + data)
        except StateError:
            raise
        except Exception as error:  # rocksdict has no class of its own
            raise self._database.read_error(error) from error
        if value is not None and self._deserialize is not None:
            value = self._deserialize(value)
            if value is None:
                message = f"A value of state {self._name!r} is null."
                raise CorruptSnapshotError(message)
        self._read[key] = value
        return value

    def known(self, key: Hashable, key_group: int) -> Any:
        """Return a mutable value's bytes if the epoch read them."""
        return self._read.get(key, _MISSING) if self._deserialize is None else _MISSING

    def check(self, changes: Iterable[tuple[Hashable, bytes | None]], codec: KeyCodec) -> None:
        """Refuse what RocksDB can't hold.

        Raises:
            StateError: A value is too large.
        """
        limit = rocksdb.MAX_VALUE_BYTES
        for key, stored in changes:
            if stored is not None and len(stored) > limit:
                message = (
                    f"The value of state {self._name!r} for key {codec.external(key)!r} has {len(stored):,} bytes; RocksDB "
                    f"takes {limit:,} at most."
                )
                raise StateError(message, hint="spread it over several keys")

    def put_all(self, changes: Iterable[tuple[Hashable, Any]], key_groups: Mapping[Hashable, int]) -> None:
        """Write (key, bytes) pairs; None removes."""
        encode = self._encode
        rows = []
        for key, stored in changes:
            data = encode(key)
            rows.append((_pack_head(key_groups[key], len(data)) + data, stored))
        rows.sort(key=_row_of)  # RocksDB takes sorted rows a tenth faster, the sort included
        self._database.write(self.family, rows)

    def end_epoch(self) -> None:
        """Forget what was read."""
        self._read.clear()

    def detach(self) -> None:
        """Let the database go; states that are still used then say that the backend is closed."""
        self._read.clear()
        self._get = _closed
        del self.family


def _closed(_row: bytes) -> bytes | None:
    message = "The state backend is closed."
    raise StateError(message)
