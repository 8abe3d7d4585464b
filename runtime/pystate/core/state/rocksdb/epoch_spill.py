"""Spilling of a running epoch to disk. For the rows of one state see `spill`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystate.common.errors import StateError
from pystate.core.state.kinds.epoch_size import EpochGauge
from pystate.core.state.kinds.overlay import EpochOverlay
from pystate.core.state.rocksdb.database import Database
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory
from pystate.core.state.rocksdb.tables import RocksDBTables, Table


class EpochSpill:
    """The spilled part of a running epoch that exceeds memory: a second database, in front of the backend's own one.

    A rollback drops that database, and snapshots don't include it.

    Args:
        parent: The folder for databases.
        memory: The memory shared by all databases.
        bound: The maximum memory of an epoch in bytes.
    """

    def __init__(self, parent: str, memory: RocksDBMemory, bound: int) -> None:
        self._parent = parent
        self._memory = memory
        self._gauge = EpochGauge(bound)
        self._scratch: Database | None = None
        self._failure: StateError | None = None

    @property
    def has_rows(self) -> bool:
        """Whether a part of the running epoch is on disk."""
        return self._scratch is not None and bool(self._scratch.families())

    def is_due(self, records: int, size: int, overlays: Mapping[str, EpochOverlay]) -> bool:
        """Count processed records and bytes; return whether the epoch takes too much memory."""
        if not self._gauge.took(records, size):
            return False
        return self._gauge.is_over(sum(overlay.held_bytes() for overlay in overlays.values()))

    def spill(self, tables: RocksDBTables, overlays: Mapping[str, EpochOverlay]) -> None:
        """Move the overlays to disk.

        Raises:
            StateError: A value isn't of its state's type, or RocksDB can't write.
        """
        for name, table in tables.declared():
            overlay = overlays.get(name)
            if overlay is None:
                continue
            changes = overlay.prepare_flush()
            if changes:
                table.check(changes)
                try:
                    self._write(table, overlay, changes)
                except Exception as error:
                    self._failure = error if isinstance(error, StateError) else StateError(repr(error))
                    raise
            overlay.drop_epoch()
        self._gauge.start()

    def _write(self, table: Table, overlay: EpochOverlay, changes: Any) -> None:
        if self._scratch is None:
            self._scratch = Database(self._parent, self._memory)
        table.spill_to(self._scratch)
        overlay.apply_flush(changes)
        self._scratch.end_write()

    def check_whole(self) -> None:
        """Reject the end of an epoch whose spilling failed: user code may have caught the error, parts may be duplicated.

        Raises:
            StateError: The spilling failed.
        """
        if self._failure is not None:
            raise self._failure

    def move(self, tables: RocksDBTables) -> None:
        """Write the spilled rows to the backend's database; some of them may wait for its `end_write`."""
        if self._scratch is not None:
            self._scratch.end_write()
            for _, table in tables.declared():
                table.move_spilled()

    def end(self, tables: RocksDBTables) -> None:
        """Drop the spilled rows, whether they were moved or not. The database is kept for the next epoch that spills."""
        self._gauge.start()
        self._failure = None
        if self._scratch is None or not self.has_rows:
            return
        for _, table in tables.declared():
            table.end_spill()
        self._scratch.discard_write()
        try:
            self._scratch.drop_families()
        except StateError:
            self.close()  # and its folder is removed

    def close(self) -> None:
        """Release the second database, with its folder."""
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.release()
