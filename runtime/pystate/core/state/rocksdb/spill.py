"""The spilled part of a running epoch that exceeds memory: a separate database over that of finished epochs.

The rows of the running epoch wait there, a column family per state, until the epoch ends and they are moved, or until it is
rolled back and they are dropped with their folder. The backend's own database holds finished epochs only, whatever happens:
snapshots, hard links and offline readers never see the others.

A row's value begins with a mark: a value follows, the row is removed, or all rows of finished epochs that begin with the row
key are. No row key of a state is the beginning of another, so the last kind of row is never taken for one of the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, Protocol

from pystate.common.errors import StateError
from pystate.core.state.kinds.epoch_size import EpochGauge
from pystate.core.state.kinds.overlay import EpochOverlay
from pystate.core.state.rocksdb.database import ColumnFamily, Database
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory

RANGE_DELETE_ROWS = 1_000
"""More rows than this are removed by one range tombstone; they slow reads down, so fewer go row by row."""

_VALUE, _REMOVED, _CLEARED = b"\x00", b"\x01", b"\x02"

Row = tuple[bytes, bytes]


class SpilledRows:
    """The rows of one state: the spilled ones of the running epoch, over those of finished epochs.

    Args:
        scratch: The database of the running epoch.
        state: What its column family is called after.
        database: The database of finished epochs.
        family: The state's column family in it.
    """

    __slots__ = ("_database", "_get", "_newer", "_older", "_scratch")

    def __init__(self, scratch: Database, state: str, database: Database, family: ColumnFamily) -> None:
        self._scratch = scratch
        self._newer = scratch.family(state)
        self._database = database
        self._older = family
        self._get: Callable[[Any], Any] = self._newer.get

    def get(self, row: Any) -> Any:
        """Return the value of a row that no `clear` affects, None if there is none; or of a list of rows."""
        if isinstance(row, list):
            return self._get_several(row)
        marked = self._get(row)
        if marked is None:
            return self._older.get(row)
        return marked[1:] if marked.startswith(_VALUE) else None

    def _get_several(self, rows: list[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = self._get(rows)
        missing: Any = [row for row, marked in zip(rows, found, strict=True) if marked is None]
        older: Iterator[Any] = iter(self._older.get(missing) or ()) if missing else iter(())
        return [next(older) if one is None else one[1:] if one.startswith(_VALUE) else None for one in found]

    def read(self, prefix: bytes, row: bytes) -> bytes | None:
        """Return the value of a row, None if there is none.

        Args:
            prefix: What may have been cleared.
            row: The row key, which begins with it.
        """
        marked = self._get(row)
        if marked is not None:
            return marked[1:] if marked.startswith(_VALUE) else None
        return None if self._get(prefix) is not None else self._older.get(row)

    def scan(self, prefix: bytes, end: bytes) -> Generator[Row, None, None]:
        """Iterate over (row key, value) of the rows that begin with a prefix; `end` is the first row key after them."""
        older = self._database.scan(self._older, prefix, end)
        return _merged(self._scratch.scan(self._newer, prefix, end), older, prefix)

    def scan_keys(self, prefix: bytes, end: bytes) -> Generator[bytes, None, None]:
        """Iterate over the row keys that begin with a prefix."""
        with closing(self._database.scan_keys(self._older, prefix, end)) as older:
            newer = self._scratch.scan(self._newer, prefix, end)
            with closing(_merged(newer, ((row, b"") for row in older), prefix)) as rows:
                for row, _ in rows:
                    yield row

    def scan_heads(self, head_of: Callable[[bytes], bytes], after: Callable[[bytes], bytes]) -> Generator[bytes, None, None]:
        """Iterate over the heads of all rows, including deleted ones; see `Database.scan_heads`."""
        with (
            closing(self._scratch.scan_heads(self._newer, head_of, after)) as newer,
            closing(self._database.scan_heads(self._older, head_of, after)) as older,
        ):
            last = None
            for head in heapq.merge(map(head_of, newer), map(head_of, older)):
                if head != last:
                    yield head
                last = head

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write rows; None deletes. Some of them may wait for the scratch database's `end_write`."""
        self._scratch.write(self._newer, ((row, _REMOVED if value is None else _VALUE + value) for row, value in rows))

    def clear(self, prefix: bytes, end: bytes) -> None:
        """Delete all rows that begin with a prefix, including those of finished epochs; see `scan`."""
        remove_rows(self._scratch, self._newer, prefix, end)
        self._scratch.write(self._newer, ((prefix, _CLEARED),))

    def move(self, after: Callable[[bytes], bytes]) -> None:
        """Write all rows to the database of finished epochs. Some may wait for its `end_write`.

        Args:
            after: (prefix) -> the first row key after those that begin with it.
        """
        with closing(self._scratch.scan_from(self._newer, b"")) as rows:
            cleared: list[bytes] = [b""]
            while cleared:
                cleared.clear()
                self._database.write(self._older, _until_cleared(rows, cleared))
                for prefix in cleared:
                    remove_rows(self._database, self._older, prefix, after(prefix))


def remove_rows(database: Database, family: ColumnFamily, start: bytes, end: bytes) -> None:
    """Delete all rows from `start` up to `end` that don't wait for `end_write`, together with the writes that do."""
    found: list[tuple[bytes, None]] = []
    with closing(database.scan_keys(family, start, end)) as rows:
        for row in rows:
            found.append((row, None))
            if len(found) > RANGE_DELETE_ROWS:
                database.write_range_delete(family, start, end)
                return
    database.write(family, found)


def _until_cleared(rows: Iterator[Row], cleared: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
    for row, marked in rows:
        if marked == _CLEARED:
            cleared.append(row)
            return
        yield row, marked[1:] if marked.startswith(_VALUE) else None


def _merged(newer: Generator[Row, None, None], older: Iterator[Row], prefix: bytes) -> Generator[Row, None, None]:
    """Merge rows in the order of their keys; if both have a key, the newer row counts."""
    with closing(newer):
        new = next(newer, None)
        if new is not None and new[0] == prefix:  # cleared
            older, new = iter(()), next(newer, None)
        old = next(older, None)
        while new is not None or old is not None:
            if new is None or (old is not None and old[0] < new[0]):
                assert old is not None  # noqa: S101 - one of them is there
                yield old
                old = next(older, None)
                continue
            if old is not None and old[0] == new[0]:
                old = next(older, None)
            if new[1].startswith(_VALUE):
                yield new[0], new[1][1:]
            new = next(newer, None)


class SpilledTable(Protocol):
    """The stored rows of a declared state."""

    def check(self, changes: Any, /) -> None:
        """Reject what RocksDB can't hold."""

    def spill_to(self, scratch: Database, /) -> None:
        """Write changes to the database of the running epoch from now on, and read them from there."""

    def move_spilled(self) -> None:
        """Write the spilled rows to the database of finished epochs."""

    def end_spill(self) -> None:
        """Ignore the spilled rows from now on."""


Tables = Iterable[tuple[str, SpilledTable]]
"""(Name of the state, its table)."""


class EpochSpill:
    """The spilled part of a running epoch that exceeds memory: a second database above the backend's own one.

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

    def spill(self, tables: Tables, overlays: Mapping[str, EpochOverlay]) -> None:
        """Move the overlays to disk.

        Raises:
            StateError: A value isn't of its state's type, or RocksDB can't write.
        """
        for name, table in tables:
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

    def _write(self, table: SpilledTable, overlay: EpochOverlay, changes: Any) -> None:
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

    def move(self, tables: Tables) -> None:
        """Write the spilled rows to the backend's database; some of them may wait for its `end_write`."""
        if self._scratch is not None:
            self._scratch.end_write()
            for _, table in tables:
                table.move_spilled()

    def end(self, tables: Tables) -> None:
        """Drop the spilled rows, whether they were moved or not. The database is kept for the next epoch that spills."""
        self._gauge.start()
        self._failure = None
        if self._scratch is None or not self.has_rows:
            return
        for _, table in tables:
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
