"""The states of a backend in its database: their column families, and the tables over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from pystate.core.api.state import StateKind
from pystate.core.state.base.canonical_restore import Block, entries_in
from pystate.core.state.base.state_registry import Schema, StateRegistry
from pystate.core.state.base.state_schema import Migration, namespace_end
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.files.canonical import Entry, StateMetaInfoSnapshot
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.kinds.list_parts import part_number
from pystate.core.state.rocksdb.database import ColumnFamily, Database
from pystate.core.state.rocksdb.list_table import RocksDBListTable
from pystate.core.state.rocksdb.map_table import RocksDBMapTable
from pystate.core.state.rocksdb.native_snapshot import NativeState
from pystate.core.state.rocksdb.rows import RowLayout, RowsOf, entries_of
from pystate.core.state.rocksdb.timer_table import RocksDBTimerTable, layout_of
from pystate.core.state.rocksdb.value_cache import UnwrittenRows
from pystate.core.state.rocksdb.value_table import RocksDBTable

Table = RocksDBTable | RocksDBMapTable | RocksDBListTable | RocksDBTimerTable


@dataclass
class RestoredRows:
    """The rows of a restored, undeclared state.

    Attributes:
        info: What the snapshot says of them.
        next_number: Above the numbers of all parts of lists.
    """

    family: ColumnFamily
    info: StateMetaInfoSnapshot
    next_number: int = 0

    @property
    def layout(self) -> RowLayout:
        """The layout of the rows."""
        return layout_of(self.info)


class RocksDBTables:
    """The tables over the column families of declared states, and the rows of undeclared ones.

    Args:
        context: Of the backend.
        database: Where the column families are.
        timer_cache_size: See `RocksDBTimerTable`.
        object_cache_bytes: What values of a state may take that stay in memory over epochs; 0 for none.

    Attributes:
        database: As given; another one after a restore from files of RocksDB.
    """

    def __init__(
        self, context: InternalKeyContext, database: Database, timer_cache_size: int, object_cache_bytes: int = 0
    ) -> None:
        self.database = database
        self._object_cache_bytes = object_cache_bytes
        self._context = context
        self._timer_cache_size = timer_cache_size
        self._registry: StateRegistry[Table, RestoredRows] = StateRegistry(
            self._create_table, self._create_rows, self._adopt
        )

    def declare(self, name: str, schema: Schema) -> Table:
        """Return the table of a state, with its restored rows, if any; see `StateRegistry.declare`."""
        return self._registry.declare(name, schema, self._context.clock()).store

    def declared(self) -> Iterator[tuple[str, Table]]:
        """Iterate over (name, table) of the declared states; thread-safe, while others are being declared."""
        return ((name, registered.store) for name, registered in self._registry.declared())

    def write_back(self, names: Collection[str] | None = None) -> None:
        """Write the values that tables keep in memory.

        Args:
            names: Of the states; None for all.
        """
        for name, table in self.declared():
            if names is None or name in names:
                table.write_back()
        self.database.end_write()

    def unwritten(self) -> dict[str, UnwrittenRows]:
        """Return the values in memory that aren't in the database, by state."""
        found = ((name, table.unwritten()) for name, table in self.declared())
        return {name: rows for name, rows in found if rows is not None}

    def families(self) -> Iterator[tuple[str, ColumnFamily, RowLayout]]:
        """Iterate over (name or key of a part, column family, layout of its rows) of all states; thread-safe."""
        for name, raw in self._registry.undeclared():
            yield name, raw.family, raw.layout
        for name, table in self.declared():
            if table.family is not None:
                yield name, table.family, table.layout

    def names(self) -> list[str]:
        """Return the names of all states."""
        return self._registry.names()

    def meta_infos(self) -> list[StateMetaInfoSnapshot]:
        """Return the descriptions of the states for a snapshot."""
        return self._registry.meta_infos()

    def native_states(self) -> dict[str, NativeState]:
        """Return the native descriptions of the states, by their names or the keys of their parts."""
        states = {name: NativeState(raw.family.name, raw.next_number) for name, raw in self._registry.undeclared()}
        for name, table in self.declared():
            assert table.family is not None  # noqa: S101 - the backend is open
            number = table.next_number if isinstance(table, RocksDBListTable) else 0
            states[name] = NativeState(table.family.name, number)
        return states

    def check_empty(self) -> None:
        """Reject a restore if there is state already.

        Raises:
            StateError: There are states.
        """
        self._registry.check_empty()

    def take_entries(self, sources: Iterable[BinaryIO]) -> None:
        """Write the entries of canonical files as rows; some may wait for `end_write`. See `StateRegistry.restore`."""
        self._registry.restore(self._context, sources, self._take)

    def take_rows(self, info: StateMetaInfoSnapshot, batches: Iterable[list[tuple[bytes, bytes]]], next_number: int) -> None:
        """Write ordered batches of rows of a restored state, whose key groups have no rows so far."""
        raw = self._registry.add_restored(info)
        raw.next_number = max(raw.next_number, next_number)
        self.database.ingest(raw.family, batches)

    def take_family(self, info: StateMetaInfoSnapshot, family: ColumnFamily, next_number: int) -> None:
        """Add a restored state whose rows are in the database already."""
        self._registry.add_restored(info, RestoredRows(family, info, next_number))

    def detach(self) -> None:
        """Release the database; using states after that raises an error that the backend is closed."""
        for _, table in self.declared():
            table.detach()
        self.clear()

    def clear(self) -> None:
        """Drop all states. Their column families stay."""
        self._registry.clear()

    def _create_table(self, name: str, schema: Schema) -> Table:
        return self._table(name, schema, self.database.family(name), 0)

    def _table(self, name: str, schema: Schema, family: ColumnFamily, next_number: int) -> Table:
        of = RowsOf(name, self.database, family, schema.addresses(self._context.key_codec))
        if isinstance(schema, TimerSchema):
            return RocksDBTimerTable(of, self._timer_cache_size, self._context.key_group_range)
        serializer = schema.serializer
        if schema.user_keys is not None:
            return RocksDBMapTable(of, serializer, schema.user_keys)
        if schema.kind is StateKind.LIST:
            return RocksDBListTable(of, serializer, next_number)
        cache_bytes = 0 if schema.has_ttl else self._object_cache_bytes  # clean-ups look at rows
        return RocksDBTable(of, serializer, cache_bytes)

    def _create_rows(self, info: StateMetaInfoSnapshot) -> RestoredRows:
        return RestoredRows(self.database.family(info.name), info)

    def _adopt(self, name: str, schema: Schema, parts: Sequence[tuple[RestoredRows, Migration | None]]) -> Table:
        next_number = max(raw.next_number for raw, _ in parts)
        (first, migration), *others = parts
        if migration is None and not others:
            return self._table(name, schema, first.family, next_number)
        return self._table(name, schema, self._migrated(name, schema.kind, parts), next_number)

    def _migrated(self, name: str, kind: StateKind, parts: Sequence[tuple[RestoredRows, Migration | None]]) -> ColumnFamily:
        """Convert all rows into another column family: if a row can't be converted, the old ones are unchanged."""
        database, family = self.database, self.database.family(name)
        try:
            for raw, migration in parts:
                for key_group, entries in entries_of(database.freeze_scan(raw.family), raw.layout):
                    migrated = entries if migration is None else migration.entries(kind, entries)
                    database.write(family, raw.layout.restored(key_group, migrated))
            database.end_write()
        except BaseException:
            database.discard_write()
            database.drop_family(family)
            raise
        for raw, _ in parts:
            database.drop_family(raw.family)
        return family

    def _take(self, raw: RestoredRows, key_group: int, blocks: Iterator[Block]) -> None:
        if raw.info.kind == StateKind.LIST.value:
            entries = _numbered(raw, entries_in(blocks))
            self.database.write(raw.family, raw.layout.restored(key_group, entries))
            return
        for block in blocks:
            self.database.write_all(raw.family, *raw.layout.restored_block(key_group, block))


def _numbered(raw: RestoredRows, entries: Iterator[Entry]) -> Iterator[Entry]:
    for entry in entries:
        raw.next_number = max(raw.next_number, part_number(entry[1], namespace_end(raw.info, entry[1])) + 1)
        yield entry
