"""Views of column families, for queryable state.

A RocksDB iterator sees the rows as of its creation, and can be moved to any row. So a view is one iterator per state. It has
one position, so readers take turns. Rows deleted or replaced after a view was created aren't compacted away as long as the
view is open.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import closing

from pystate.common.overrides import override
from pystate.core.state.base.queryable_states import ENTRY_BYTES, CommittedView, PageBound, StateView
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.keys.addresses import AddressFormat
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.kinds.list_parts import unpack_part
from pystate.core.state.rocksdb.database import ColumnFamily, Database, FrozenRows
from pystate.core.state.rocksdb.rows import row_beginnings


class RocksDBView(CommittedView):
    """A view of the rows of some states.

    Args:
        database: Where they are; kept open until the view is closed.
        families: By state: its column family and schema.
        key_codec: Of the keys.
    """

    def __init__(
        self, database: Database, families: Mapping[str, tuple[ColumnFamily, StateSchema]], key_codec: KeyCodec
    ) -> None:
        database.retain()
        self._database = database
        self._states: dict[str, RocksDBStateView] = {}
        try:
            for name, (family, schema) in families.items():
                self._states[name] = RocksDBStateView(database.freeze(family), schema.addresses(key_codec))
        except BaseException:
            self.close()
            raise

    @override
    def state(self, name: str) -> RocksDBStateView | None:
        return self._states.get(name)

    @override
    def close(self) -> None:
        self._states.clear()  # the iterators, before the database
        self._database.release()


class RocksDBStateView(StateView):
    """A view of the rows of one state."""

    __slots__ = ("_begin", "_rows")

    def __init__(self, rows: FrozenRows, addresses: AddressFormat) -> None:
        self._rows = rows
        self._begin: Callable[[Hashable, int], bytes] = row_beginnings(addresses)

    @override
    def value(self, address: Hashable, key_group: int) -> bytes | None:
        return self._rows.get(self._begin(address, key_group))

    @override
    def elements(self, address: Hashable, key_group: int) -> list[bytes]:
        found: list[bytes] = []
        with closing(self._rows.starting_with(self._begin(address, key_group))) as rows:
            for _, part in rows:
                found += unpack_part(part)
        return found

    @override
    def entries(
        self, address: Hashable, key_group: int, prefix: bytes, after: bytes | None, bound: PageBound
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        begin = self._begin(address, key_group)
        found: list[tuple[bytes, bytes]] = []
        room = bound.room
        with closing(self._rows.starting_with(begin + prefix, None if after is None else begin + after)) as rows:
            for row, value in rows:
                room -= len(row) - len(begin) + len(value) + ENTRY_BYTES
                if len(found) == bound.limit or room < 0 and found:
                    return found, found[-1][0]
                found.append((row[len(begin) :], value))
        return found, None
