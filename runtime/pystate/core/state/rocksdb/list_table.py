"""The stored elements of a list state, in one or more rows per key: each epoch that only appends adds one.

The rows of a key are ordered by a number that grows with every row the table writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from operator import itemgetter
from typing import Any

from pystate.core.state.kinds.epoch_size import mapping_size
from pystate.core.state.kinds.list_parts import list_parts, pack_number, pack_part, unpack_part
from pystate.core.state.kinds.list_states import ListChange
from pystate.core.state.rocksdb import database as rocksdb
from pystate.core.state.rocksdb.rows import RocksDBRows, RowsOf, too_large
from pystate.core.state.rocksdb.value_table import ROWS_PER_WRITE
from pystate.core.state.values.serializers import TypeSerializer

MAX_ROWS = 64
"""A list that is read and has more rows than this is rewritten."""

ROW_BYTES = 8 << 20
"""The approximate maximum size of a row of a list."""

_row_of = itemgetter(0)


class RocksDBListTable(RocksDBRows):
    """The flushed lists of one state.

    Args:
        of: Of which state.
        serializer: The serializer of the elements.
        first_number: The number of the first row that the table will write; above those of all existing rows.
    """

    __slots__ = ("_deserialize", "_next_number", "_read")

    def __init__(
        self,
        of: RowsOf,
        serializer: TypeSerializer,
        first_number: int,
    ) -> None:
        super().__init__(of)
        self._deserialize: Callable[[bytes], Any] | None = serializer.deserialize if serializer.immutable else None
        self._next_number = first_number
        self._read: dict[Hashable, tuple[list[bytes], int]] = {}  # row keys and bytes of the lists the epoch read

    @property
    def next_number(self) -> int:
        """The next number, above those of all rows."""
        return self._next_number

    def get(self, key: Hashable, key_group: int) -> list[Any]:
        """Return the stored forms of a key's elements."""
        rows: list[bytes] = []
        elements: list[bytes] = []
        size = 0
        for row, data in self.scan(self._begin(key, key_group)):
            rows.append(row)
            size += len(data)
            elements += unpack_part(data)
        self._read[key] = rows, size
        return elements if self._deserialize is None else list(map(self._deserialize, elements))

    def is_scattered(self, key: Hashable) -> bool:
        """Return whether a list that was read in this epoch has more rows than necessary."""
        rows, size = self._read[key]
        return len(rows) > MAX_ROWS and len(rows) > 2 * (size // ROW_BYTES + 1)

    def check(self, changes: list[ListChange]) -> None:
        """Reject what RocksDB can't hold.

        Raises:
            StateError: An element is too large.
        """
        limit = rocksdb.MAX_VALUE_BYTES
        for key, _, _, elements in changes:
            for element in elements:
                if len(element) > limit:
                    shown = f"an element of {self._addresses.shown(key)}"
                    raise too_large(self._name, shown, len(element), "spread it over several elements")

    def put_all(self, changes: list[ListChange]) -> None:
        """Write the changes."""
        for start in range(0, len(changes), ROWS_PER_WRITE):
            rows: list[tuple[bytes, bytes | None]] = []
            for key, key_group, replaces, elements in changes[start : start + ROWS_PER_WRITE]:
                prefix = self._begin(key, key_group)
                if replaces and self._spilled is not None:
                    self._clear(prefix)
                elif replaces:
                    rows += ((row, None) for row in self._rows_of(key, prefix))
                for part in list_parts(elements, ROW_BYTES):
                    rows.append((prefix + pack_number(self._next_number), pack_part(part)))
                    self._next_number += 1
            rows.sort(key=_row_of)
            self._write(rows)

    def _rows_of(self, key: Hashable, prefix: bytes) -> Iterator[bytes] | list[bytes]:
        read = self._read.get(key)
        return self.scan_keys(prefix) if read is None else read[0]

    def forget(self, key: Hashable) -> None:
        """Drop what was read of a key."""
        self._read.pop(key, None)

    def kept_bytes(self) -> int:
        """Return the approximate memory of what was read: the keys of rows."""
        return mapping_size(self._read, keys=False)

    def end_epoch(self) -> None:
        """Drop what was read."""
        super().end_epoch()
        self._read.clear()
