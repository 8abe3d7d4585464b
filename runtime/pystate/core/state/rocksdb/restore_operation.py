"""Restores an empty RocksDB backend from canonical or native files."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.core.state.base.backend_snapshot import NativeSource
from pystate.core.state.base.canonical_restore import check_header_fits
from pystate.core.state.files.canonical import StateMetaInfoSnapshot
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.rocksdb.database import ColumnFamily, Database
from pystate.core.state.rocksdb.native_snapshot import NativeMeta, check_families
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory
from pystate.core.state.rocksdb.rows import KEY_GROUP_BYTES, RowLayout
from pystate.core.state.rocksdb.tables import RocksDBTables
from pystate.core.state.rocksdb.timer_table import layout_of

_ANOTHER = "restore from another checkpoint or savepoint"

Row = tuple[bytes, bytes]


class RestoredDatabases:
    """The databases of the native snapshots that a backend is restored from.

    The one with the most key groups of the backend becomes the backend's own. Its other key groups are deleted by range
    deletes, which write almost nothing, and leave the SST files unchanged.

    Args:
        context: The key context of the backend, with its key groups and key codec.
        sources: The snapshots.
        parent: The folder for databases.
        memory: The memory shared by all databases.
        statistics: Whether RocksDB collects statistics for them.

    Attributes:
        base: The index of the source whose database it is; None if none has key groups of the backend.
        database: The backend's database from now on; the caller must release it.

    Raises:
        RestoreError, CorruptSnapshotError: See `KeyedStateBackend.restore_native`.
    """

    def __init__(
        self,
        context: InternalKeyContext,
        sources: Sequence[NativeSource],
        parent: str,
        memory: RocksDBMemory,
        *,
        statistics: bool = False,
    ) -> None:
        self._mine = context.key_group_range
        self._codec = context.key_codec
        self._sources = sources
        self._parent = parent
        self._memory = memory
        self._statistics = statistics
        self._metas = [NativeMeta.read(source.meta, source.where) for source in sources]
        for source, meta in zip(sources, self._metas, strict=True):
            _check_key_groups(source, meta)
            check_header_fits(meta.header, context)
        _check_disjoint(self._metas)
        self.base = self._best()
        if self.base is None:
            self.database = Database(parent, memory, statistics=statistics)
            return
        self.database = self._open(self.base)
        try:
            self._clip(self._metas[self.base])
        except BaseException:
            self.database.release()
            raise

    def base_states(self) -> Iterator[tuple[StateMetaInfoSnapshot, ColumnFamily, int]]:
        """Iterate over the states of the backend's database: (info, column family, next number of list parts)."""
        if self.base is None:
            return
        meta, families = self._metas[self.base], self.database.families()
        for info in meta.header.states:
            state = meta.states[info.key]
            yield info, families[state.family], state.next_number

    def other_states(self) -> Iterator[tuple[StateMetaInfoSnapshot, int, Iterator[list[Row]]]]:
        """Iterate over the states of the other databases: (info, next number of list parts, batches of rows).

        Rows are those of our key groups, in order. They end when the next state is asked for.
        """
        for index, meta in enumerate(self._metas):
            if index == self.base:
                continue
            wanted = self._wanted(meta)
            if not wanted:
                yield from ((info, meta.states[info.key].next_number, iter(())) for info in meta.header.states)
                continue
            database = self._open(index)
            try:
                families = database.families()
                for info in meta.header.states:
                    state = meta.states[info.key]
                    start, end = _prefix(wanted.start), _prefix(wanted.end + 1)
                    with contextlib.closing(database.scan_batches(families[state.family], start, end)) as batches:
                        yield info, state.next_number, self._checked(batches, meta, info)
            finally:
                database.release()

    def _best(self) -> int | None:
        counts = [len(self._wanted(meta)) for meta in self._metas]
        # of two with equally many of our key groups, the one with fewer others: its files contain less garbage
        sizes = [-len(meta.header.key_group_range) for meta in self._metas]
        best = max(range(len(counts)), key=lambda index: (counts[index], sizes[index]))
        return best if counts[best] else None

    def _wanted(self, meta: NativeMeta) -> KeyGroupRange:
        return meta.header.key_group_range.intersect(self._mine)

    def _open(self, index: int) -> Database:
        source = self._sources[index]
        try:
            database = Database(self._parent, self._memory, existing=source.directory, statistics=self._statistics)
        except StateError as error:
            if "Corruption" not in error.message:  # the files are as they were written; a full disk may be emptied
                raise
            message = f"The database of the snapshot can't be opened: {error.message}"
            raise CorruptSnapshotError(message, where=source.where, hint=_ANOTHER) from error
        try:
            check_families(self._metas[index], set(database.families()), source.where)
        except BaseException:
            database.release()
            raise
        return database

    def _clip(self, meta: NativeMeta) -> None:
        """Delete the key groups of other subtasks from the backend's database."""
        theirs, mine = meta.header.key_group_range, self._mine
        outside = []
        if theirs.start < mine.start:
            outside.append((_prefix(theirs.start), _prefix(mine.start)))
        if theirs.end > mine.end:
            outside.append((_prefix(mine.end + 1), _prefix(theirs.end + 1)))
        families = self.database.families()
        for info in meta.header.states:
            family = families[meta.states[info.key].family]
            for start, end in outside:
                self.database.write_range_delete(family, start, end)
            for _ in self._checked(self._to_check(family, meta), meta, info):
                pass
        self.database.end_write()

    def _to_check(self, family: ColumnFamily, meta: NativeMeta) -> Iterator[list[Row]]:
        if meta.header.key_type == self._codec.key_type:
            return iter(())
        return self.database.scan_batches(family, _prefix(self._mine.start), _prefix(self._mine.end + 1))

    def _checked(self, batches: Iterator[list[Row]], meta: NativeMeta, info: StateMetaInfoSnapshot) -> Iterator[list[Row]]:
        """If the snapshot has another key type than the backend, check that each key is of the backend's type."""
        return batches if meta.header.key_type == self._codec.key_type else _decoded(batches, self._codec, layout_of(info))


def _decoded(batches: Iterator[list[Row]], codec: KeyCodec, layout: RowLayout) -> Iterator[list[Row]]:
    for batch in batches:
        for row, _ in batch:
            codec.decode(layout.split(row)[1])
        yield batch


def _prefix(key_group: int) -> bytes:
    return key_group.to_bytes(KEY_GROUP_BYTES, "big")


def _check_key_groups(source: NativeSource, meta: NativeMeta) -> None:
    if meta.header.key_group_range != source.key_groups:
        message = (
            f"A native snapshot is another than the metadata says: it has key groups {meta.header.key_group_range}, not "
            f"{source.key_groups}."
        )
        raise CorruptSnapshotError(message, where=source.where, hint=_ANOTHER)


def _check_disjoint(metas: Sequence[NativeMeta]) -> None:
    reached = -1
    for groups in sorted((meta.header.key_group_range for meta in metas), key=lambda one: one.start):
        if groups.start <= reached:
            message = f"Key group {groups.start} is in two parts of the snapshot: the files overlap."
            raise RestoreError(message)
        reached = groups.end


class RocksDBRestoreOperation:
    """Fills the tables of a backend; after an error they are empty again (Flink's RocksDBRestoreOperation).

    Args:
        context: The key context of the backend, with its key groups.
        tables: The states.
        parent: The folder for databases.
        memory: The memory shared by all databases.
        statistics: Whether RocksDB collects statistics.
    """

    def __init__(
        self, context: InternalKeyContext, tables: RocksDBTables, parent: str, memory: RocksDBMemory, *, statistics: bool
    ) -> None:
        self._context = context
        self._tables = tables
        self._parent = parent
        self._memory = memory
        self._statistics = statistics

    def canonical(self, sources: Iterable[BinaryIO]) -> None:
        """Write the entries of canonical files; see `KeyedStateBackend.restore`.

        Entries are written as any others. SST files of sorted entries, ingested, took a third longer for 1 to 4 million
        entries: RocksDB builds the files of a write on its own threads, those of an SstFileWriter on ours.
        """
        tables = self._tables
        tables.check_empty()
        try:
            tables.take_entries(sources)
            tables.database.end_write()
        except BaseException:
            tables.clear()
            tables.database.discard_write()
            tables.database.drop_families()
            raise

    def native(self, sources: Sequence[NativeSource]) -> int | None:
        """Use the database of the snapshot with most of our key groups, after deleting other key groups.

        Rows of the others, which are in order, are written as files that it takes in.
        See `KeyedStateBackend.restore_native`.
        """
        tables = self._tables
        tables.check_empty()
        base: int | None = None
        empty = tables.database
        try:
            restored = RestoredDatabases(self._context, sources, self._parent, self._memory, statistics=self._statistics)
            base = restored.base
            tables.database = restored.database
            for info, family, next_number in restored.base_states():
                tables.take_family(info, family, next_number)
            for info, next_number, batches in restored.other_states():
                tables.take_rows(info, batches, next_number)
            tables.database.end_write()
        except BaseException:
            tables.clear()
            if tables.database is not empty:
                tables.database.release()
                tables.database = empty
            raise
        finally:
            for source in sources:
                if base is None or source is not sources[base]:
                    shutil.rmtree(source.directory, ignore_errors=True)
        empty.release()
        return base
