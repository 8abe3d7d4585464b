"""The row keys of all column families, and the common operations of all tables.

A row key is the key group (2 bytes, big-endian), the length of the key (4 bytes, big-endian), the key's bytes, and the
sub-key (see `base.schema`), which begins with the namespace. So rows are ordered by key group, the namespaces of a key lie
together, and no row key is the beginning of another. Rows of timers are others, see `timer_table`.
"""

from __future__ import annotations

import struct
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import closing
from itertools import chain, groupby
from operator import add
from typing import Any, NamedTuple

from pystate.common.errors import RestoreError, StateError
from pystate.common.overrides import override
from pystate.core.state.base.canonical_restore import Block, entries_in
from pystate.core.state.files.canonical import Entry
from pystate.core.state.keys.addresses import AddressFormat
from pystate.core.state.keys.namespaces import split_namespace
from pystate.core.state.rocksdb import database as rocksdb
from pystate.core.state.rocksdb.spill import SpilledRows, remove_rows
from pystate.core.state.rocksdb.value_cache import UnwrittenRows

Row = tuple[bytes, bytes]

KEY_GROUP_BYTES = 2
_ROWS_AT_ONCE = 128

_HEAD = struct.Struct(">HI")
HEAD_BYTES = _HEAD.size
pack_head: Callable[[int, int], bytes] = _HEAD.pack
"""(key group, length of the key) -> the bytes before the key."""


def split_row_key(row: bytes) -> tuple[int, bytes, bytes]:
    """Return (key group, key's bytes, sub-key)."""
    key_group, length = _HEAD.unpack_from(row)
    end = _HEAD.size + length
    return key_group, row[_HEAD.size : end], row[end:]


def row_beginnings(addresses: AddressFormat) -> Callable[[Any, int], bytes]:
    """Return (address, key group) -> prefix of its row keys; if an address has one row, that is its row key."""
    encode_key, encode_namespace = addresses.encode_key, addresses.encode_namespace

    def of_address(address: Any, key_group: int) -> bytes:
        key, namespace = address
        data = encode_key(key)
        return pack_head(key_group, len(data)) + data + encode_namespace(namespace)

    if not addresses.is_void:
        return of_address
    same = encode_namespace(None)

    def of_key(key: Hashable, key_group: int) -> bytes:
        data = encode_key(key)
        return pack_head(key_group, len(data)) + data + same

    return of_key


def after_prefix(prefix: bytes) -> bytes:
    """Return the lowest bytes above all that begin with a prefix; it is never all 0xff, since no key group is."""
    short = prefix.rstrip(b"\xff")
    return short[:-1] + bytes((short[-1] + 1,))


class RowLayout(ABC):
    """The layout of a state's entries in rows. All row keys begin with the key group."""

    @abstractmethod
    def restored(self, key_group: int, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
        """Return the rows of a key group's entries in a canonical file.

        Raises:
            RestoreError: A value is too large.
        """

    def restored_block(self, key_group: int, block: Block) -> tuple[list[bytes], list[bytes]]:
        """Return row keys and values of some entries of a key group; see `restored`."""
        rows, values = zip(*self.restored(key_group, entries_in((block,))), strict=True)
        return list(rows), list(values)

    @abstractmethod
    def split(self, row: bytes) -> tuple[int, bytes, bytes]:
        """Return (key group, key's bytes, sub-key) of a row key."""


class KeyedRows(RowLayout):
    """The layout of rows ordered by key."""

    split = staticmethod(split_row_key)

    @override
    def restored(self, key_group: int, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
        limit = rocksdb.MAX_VALUE_BYTES
        for key, sub_key, value in entries:
            if len(value) > limit:
                raise _too_large_to_restore(len(value))
            yield pack_head(key_group, len(key)) + key + sub_key, value

    @override
    def restored_block(self, key_group: int, block: Block) -> tuple[list[bytes], list[bytes]]:
        keys, sub_keys, values = block[0::3], block[1::3], block[2::3]
        largest = max(map(len, values))
        if largest > rocksdb.MAX_VALUE_BYTES:
            raise _too_large_to_restore(largest)
        heads = {length: pack_head(key_group, length) for length in set(map(len, keys))}
        rows = [heads[len(key)] + key for key in keys]
        return list(map(add, rows, sub_keys)) if any(sub_keys) else rows, values


KEYED_ROWS = KeyedRows()


def group_prefix(row: Row) -> bytes:
    """Return the bytes of a row's key group."""
    return row[0][:KEY_GROUP_BYTES]


def entries_of(
    frozen: rocksdb.FrozenScan, layout: RowLayout, unwritten: UnwrittenRows | None = None, beginning: bytes = b""
) -> Iterator[tuple[int, Iterator[Entry]]]:
    """Iterate over (key group, entries) of all rows, or of those with a beginning.

    The entries of a key group are only valid until the next one.
    """
    with closing(frozen.batches(lambda: _ROWS_AT_ONCE, beginning)) as batches:
        rows: Iterator[Row] = chain.from_iterable(batches if unwritten is None else unwritten.over(batches))
        if beginning:
            rows = (row for row in rows if row[0].startswith(beginning))  # what isn't written yet comes from all of them
        for prefix, of_group in groupby(rows, group_prefix):
            yield int.from_bytes(prefix, "big"), _entries(of_group, layout)


def _entries(rows: Iterator[Row], layout: RowLayout) -> Iterator[Entry]:
    split = layout.split
    for row, value in rows:
        _, key, sub_key = split(row)
        yield key, sub_key, value


class RowsOf(NamedTuple):
    """Whose rows, and where they are.

    Attributes:
        name: The state's name.
        database: The database.
        family: The column family.
        addresses: How the state's addresses are written.
    """

    name: str
    database: rocksdb.Database
    family: rocksdb.ColumnFamily
    addresses: AddressFormat


class RocksDBRows:
    """The rows of one state: the common base of the tables of all kinds.

    Args:
        of: Of which state.

    Attributes:
        family: The column family, until `detach`.
        layout: Of the rows.
    """

    layout: RowLayout = KEYED_ROWS

    __slots__ = (
        "_addresses",
        "_begin",
        "_database",
        "_get",
        "_name",
        "_scans",
        "_spilled",
        "_walks",
        "family",
        "stores_objects",
    )

    def __init__(self, of: RowsOf) -> None:
        self.stores_objects = False
        self.family: rocksdb.ColumnFamily | None = of.family
        self._name = of.name
        self._database = of.database
        self._addresses = of.addresses
        self._begin = row_beginnings(of.addresses)
        self._get: Callable[[bytes], bytes | None] = of.family.get
        self._scans: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()
        self._walks: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()
        self._spilled: SpilledRows | None = None

    def spill_to(self, scratch: rocksdb.Database) -> None:
        """From now on, write changes of `put_all` to the database of the running epoch, and read them from there.

        Raises:
            StateError: RocksDB can't do it.
        """
        if self._spilled is None:
            self._spilled = SpilledRows(scratch, self._name, self._database, self._family())
            self._get = self._spilled.get

    def write_back(self) -> None:
        """Write the values kept in memory to the database of finished epochs. Some may wait for its `end_write`."""

    def unwritten(self) -> UnwrittenRows | None:
        """Return a copy of the values in memory that aren't in the database; None if there are none."""
        return None

    def move_spilled(self) -> None:
        """Write the spilled rows to the database of finished epochs. Some may wait for its `end_write`."""
        if self._spilled is not None:
            self._spilled.move(after_prefix)

    def end_spill(self) -> None:
        """Ignore the spilled rows from now on, whether they were moved or not."""
        if self._spilled is not None:
            self._spilled = None
            self._get = self._family().get

    def _write(self, rows: list[tuple[bytes, bytes | None]]) -> None:
        """Write rows of the running epoch; None deletes."""
        if self._spilled is None:
            self._database.write(self._family(), rows)
        else:
            self._spilled.write(rows)

    def _clear(self, prefix: bytes) -> None:
        """Remove all rows that begin with a prefix."""
        if self._spilled is None:
            remove_rows(self._database, self._family(), prefix, after_prefix(prefix))
        else:
            self._spilled.clear(prefix, after_prefix(prefix))

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

    def scan(self, prefix: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over (row key, value) of the rows that begin with a prefix, until the epoch ends."""
        return self.scan_between(prefix, after_prefix(prefix))

    def scan_between(self, start: bytes, end: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over (row key, value) from `start` up to `end`, until the epoch ends."""
        if self._spilled is not None:
            return self._watched(self._spilled.scan(start, end))
        return self._watched(self._database.scan(self._family(), start, end))

    def scan_keys(self, prefix: bytes) -> Generator[bytes, None, None]:
        """Iterate over the row keys that begin with a prefix, until the epoch ends."""
        end, spilled = after_prefix(prefix), self._spilled
        if spilled is not None:
            return self._watched(spilled.scan_keys(prefix, end))
        return self._watched(self._database.scan_keys(self._family(), prefix, end))

    def _watched(self, scan: Generator[Any, None, None]) -> Generator[Any, None, None]:
        # an iteration kept beyond the epoch, or beyond close(), must not keep RocksDB's files open
        self._scans.add(scan)
        return scan

    def _family(self) -> rocksdb.ColumnFamily:
        if self.family is None:
            raise _closed()
        return self.family

    def keys(self) -> Generator[tuple[Hashable, int], None, None]:
        """Iterate over (address, key group) of everything stored, skipping further rows of an address.

        It remains valid if the epoch is moved to disk meanwhile.
        """
        decode, spilled = self._addresses.decode, self._spilled
        head_of = _key_head if self._addresses.is_void else _namespace_head
        if spilled is None:
            heads = self._database.scan_heads(self._family(), head_of, after_prefix)
        else:
            heads = spilled.scan_heads(head_of, after_prefix)
        self._walks.add(heads)
        with closing(heads):
            for row in heads:
                key_group, key, sub_key = split_row_key(row)
                yield decode(key, sub_key)[0], key_group

    def forget(self, key: Hashable) -> None:
        """Drop what was kept of a key."""

    def kept_bytes(self) -> int:
        """Return the approximate memory kept for the running epoch."""
        return 0

    def end_epoch(self) -> None:
        """Drop what was kept for the running epoch, and end the scans of its rows."""
        for scan in list(self._scans):
            scan.close()
        self._scans.clear()

    def detach(self) -> None:
        """Release the database; using states after that raises an error that the backend is closed."""
        self.end_epoch()
        for walk in list(self._walks):
            walk.close()
        self._spilled = None
        self._get = _closed_get
        self.family = None


def _key_head(row: bytes) -> bytes:
    return row[: _HEAD.size + int.from_bytes(row[KEY_GROUP_BYTES : _HEAD.size], "big")]


def _namespace_head(row: bytes) -> bytes:
    end = len(_key_head(row))
    return row[: end + split_namespace(row[end:])[1]]


def _closed() -> StateError:
    message = "The state backend is closed."
    return StateError(message)


def _closed_get(_row: bytes) -> bytes | None:
    raise _closed()


def _too_large_to_restore(size: int) -> RestoreError:
    message = f"A value in the snapshot has {size:,} bytes; RocksDB takes {rocksdb.MAX_VALUE_BYTES:,} at most."
    return RestoreError(message, hint="restore with the hashmap state backend")


def too_large(name: str, shown: str, size: int, hint: str) -> StateError:
    """Return the error for a value that is too large for RocksDB.

    Args:
        name: The state's name.
        shown: The key, as readable text.
        size: Its size in bytes.
        hint: What to do.
    """
    message = (
        f"The value of state {name!r} for {shown} has {size:,} bytes; RocksDB takes {rocksdb.MAX_VALUE_BYTES:,} at most."
    )
    return StateError(message, hint=hint)
