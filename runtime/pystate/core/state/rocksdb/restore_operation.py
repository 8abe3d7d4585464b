"""Restores an empty RocksDB backend from canonical or native files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from typing import BinaryIO

from pystate.core.state.base.native import NativeSource
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.rocksdb.native_restore import RestoredDatabases
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory
from pystate.core.state.rocksdb.tables import RocksDBTables


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
