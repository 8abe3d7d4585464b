"""Freezes a RocksDB backend: as rows for a canonical file, or as native files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping

from pystate.common.configuration.configuration import Configuration
from pystate.core.state.base.backend_snapshot import canonical_header
from pystate.core.state.files.canonical import CanonicalHeader
from pystate.core.state.keys.key_context import InternalKeyContext
from pystate.core.state.rocksdb.native_snapshot import NativeMeta, RocksDBNativeSnapshot
from pystate.core.state.rocksdb.rocksdb_snapshot import RocksDBSnapshot
from pystate.core.state.rocksdb.tables import RocksDBTables
from pystate.core.state.ttl.ttl_cleanup_filter import EntryFilter


class RocksDBSnapshotStrategy:
    """Freezes the flushed rows of a backend (Flink's RocksDBSnapshotStrategyBase and its two subclasses).

    Args:
        context: Of the backend.
        configuration: The options in force.
        tables: The states.
        parent: The folder for snapshots of RocksDB's own.

    Attributes:
        backend_id: A name of this very backend, which no other one has, not even one restored from its snapshots.
    """

    def __init__(
        self, context: InternalKeyContext, configuration: Configuration, tables: RocksDBTables, parent: str
    ) -> None:
        self.backend_id = uuid.uuid4().hex
        self._context = context
        self._configuration = configuration
        self._tables = tables
        self._parent = parent

    def canonical(self, filters: Mapping[str, EntryFilter]) -> RocksDBSnapshot:
        """Freeze the column families; the running epoch isn't in them yet.

        Args:
            filters: State name -> what leaves expired values out.
        """
        database = self._tables.database
        rows = {name: (database.freeze_scan(family), layout) for name, family, layout in self._tables.families()}
        database.retain()
        return RocksDBSnapshot(self._header(), database, rows, filters, self._tables.unwritten())

    def native(self) -> RocksDBNativeSnapshot:
        """Freeze the database as hard links to its files, created on another thread, for which later writes wait.

        They hold what isn't in files yet as well.
        """
        meta = NativeMeta(self._header(), self.backend_id, self._tables.native_states())
        directory = os.path.join(self._parent, f"native-{uuid.uuid4().hex}")
        return RocksDBNativeSnapshot(self._tables.database.start_links(directory), meta)

    def _header(self) -> CanonicalHeader:
        return canonical_header(self._context, self._configuration, self._tables.meta_infos())
