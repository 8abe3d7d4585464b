"""One RocksDB database in its own folder: column families, chunked writes, and complete removal at the end.

rocksdict raises bare `Exception` for all RocksDB errors; here they become StateErrors with the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, starmap, takewhile
from typing import Any
from urllib.parse import quote

from rocksdict import Checkpoint, IngestExternalFileOptions, Options, Rdict, ReadOptions, SstFileWriter, WriteBatch

from pystate.common.errors import PystateError, SnapshotError, StateError
from pystate.core.state.rocksdb.linked_files import LinkedFiles
from pystate.core.state.rocksdb.rocksdb_settings import (
    RocksDBMemory,
    database_options,
    scan_options,
    sweep_options,
    write_options,
)

_FILE_BYTES = 64 << 20


class SortedFiles:
    """Writes ordered rows to files of about 64 MB.

    Errors are rocksdict's, which has no class of its own.

    Args:
        directory: Where; no file of an earlier object is there.
        options: Those of the database that will take them in.
    """

    def __init__(self, directory: str, options: Options) -> None:
        self._directory = directory
        self._options = options
        self._paths: list[str] = []
        self._writer: SstFileWriter | None = None

    def add(self, batch: list[tuple[bytes, bytes]]) -> None:
        """Write rows after the previous ones."""
        if self._writer is None:
            self._paths.append(os.path.join(self._directory, f"taken-{len(self._paths)}.sst"))
            self._writer = SstFileWriter(self._options)
            self._writer.open(self._paths[-1])
        deque(starmap(self._writer.__setitem__, batch), maxlen=0)
        if self._writer.file_size() > _FILE_BYTES:
            self._end_file()

    def finish(self) -> list[str]:
        """Close the last file, and return the paths of all; none if there were no rows."""
        self._end_file()
        return self._paths

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.finish()


CHUNK_BYTES = 2 << 20
"""The approximate size of write batches: Python is blocked while RocksDB writes one."""

MAX_VALUE_BYTES = 3 << 30
"""RocksDB takes values below 4 GiB, with what it adds to them."""

_ROWS_AT_ONCE = 256
_FAMILY_PREFIX = "state-"
_DEFAULT_FAMILY = "default"  # RocksDB's own, which is always there
_HINT = "look for a full or damaged disk; the job goes on from its latest checkpoint"


@dataclass(frozen=True)
class ColumnFamily:
    """A column family.

    Attributes:
        name: Its name in RocksDB.
        get: (row key) -> value; None if there is none.
    """

    name: str
    rows: Rdict
    handle: Any
    get: Callable[[bytes], bytes | None]


class FrozenRows:
    """A snapshot of the rows of a column family, as of the creation of this object.

    A RocksDB iterator sees the database as of its creation, and can be repositioned. (The iterators of rocksdict 0.3.29's
    Snapshot see the database as of their own creation, not that of the Snapshot.)
    """

    def __init__(self, family: ColumnFamily, directory: str) -> None:
        self._where = directory
        self._what = f"read column family {family.name!r}"
        self._lock = threading.Lock()  # one position, so one reader at a time
        with _explained(self._what, self._where):
            self._rows = family.rows.iter(scan_options())
        self._family = family  # if it is dropped without a reference, RocksDB's iterators over it read freed memory

    def get(self, row: bytes) -> bytes | None:
        """Return the value of a row; None if there is none.

        Raises:
            StateError: RocksDB can't read it.
        """
        rows = self._rows
        with self._lock, _explained(self._what, self._where):
            rows.seek(row)
            if rows.key() == row:
                value: bytes = rows.value()
                return value
            rows.status()
            return None

    def starting_with(self, prefix: bytes, after: bytes | None = None) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over the rows whose keys begin with a prefix, optionally after a given key.

        Exhaust or close it soon, since other readers wait.

        Raises:
            StateError: RocksDB can't read a row.
        """
        rows = self._rows
        with self._lock, _explained(self._what, self._where):
            rows.seek(prefix if after is None else after)
            if after is not None and rows.key() == after:
                rows.next()
            for row, value in _rest_of(rows):
                if not row.startswith(prefix):
                    return
                yield row, value


class FrozenScan:
    """A snapshot of the rows of a column family, for full scans."""

    def __init__(self, family: ColumnFamily, directory: str) -> None:
        self._where = directory
        self._what = f"read column family {family.name!r}"
        self._lock = threading.Lock()
        with _explained(self._what, self._where):
            self._rows = family.rows.iter(scan_options())
        self._family = family  # as above

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over (row key, value) in the order of the row keys; see `batches`."""
        return chain.from_iterable(self.batches(lambda: _ROWS_AT_ONCE))

    def batches(self, count: Callable[[], int], beginning: bytes = b"") -> Generator[list[tuple[bytes, bytes]], None, None]:
        """Iterate over (row key, value) in the order of the row keys, in batches.

        Exhaust or close it before the database goes.

        Args:
            count: Returns how many are wanted next.
            beginning: Of the row keys that are wanted.

        Raises:
            SnapshotError: RocksDB can't read a row.
        """
        with self._lock, _explained(self._what, self._where, SnapshotError):
            self._rows.seek(beginning)
            rest = _rest_of(self._rows)
            if beginning:
                rest = takewhile(lambda row: row[0].startswith(beginning), rest)
            while batch := list(islice(rest, count())):
                yield batch


class Database:
    """A database. It lives until `release` was called by its owner and for each `retain`; then its folder is removed.

    Writes, new column families and `start_links` must be called on one thread; `retain` and `release` on any. Changes to the
    database wait for links that are being created.

    Args:
        parent: An existing folder, in which the database creates its own.
        memory: The memory shared with other databases.
        existing: A folder below the parent with a database to be opened and owned; None for a new one.
        statistics: Whether RocksDB collects statistics, see `property`.

    Attributes:
        directory: Its folder.

    Raises:
        StateError: The database can't be created or opened; its folder is removed.
    """

    def __init__(self, parent: str, memory: RocksDBMemory, *, existing: str | None = None, statistics: bool = False) -> None:
        with _explained("make a working folder", parent):
            self.directory = existing or tempfile.mkdtemp(prefix="rocksdb-", dir=parent)
        self._options = database_options(memory)
        if statistics:
            self._options.enable_statistics()
        self._write_options = write_options()
        self._families: dict[str, ColumnFamily] = {}
        self._families_made = 0
        self._lock = threading.Lock()
        self._users = 1
        self._batch = WriteBatch(raw_mode=True)
        self._batch_bytes = 0
        self._links: list[LinkedFiles] = []
        try:
            with _explained("open a database", self.directory):
                names = [] if existing is None else Rdict.list_cf(existing)
                # each column family is opened with its options, or it would get a cache of its own
                families = {name: self._options for name in names} or None
                self._rows = Rdict(self.directory, self._options, column_families=families)
                for name in names:
                    if name != _DEFAULT_FAMILY:
                        self._families[name] = self._family_of(name, self._rows.get_column_family(name))
            self._families_made = max(map(_number_of, self._families), default=0)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def family(self, state_name: str) -> ColumnFamily:
        """Create a column family for a state; an existing one of the state is unchanged."""
        self.await_links()
        self._families_made += 1
        name = f"{_FAMILY_PREFIX}{self._families_made}-{quote(state_name, safe='', errors='surrogatepass')}"
        with _explained(f"make column family {name!r}", self.directory):
            family = self._family_of(name, self._rows.create_column_family(name, self._options))
        self._families[name] = family
        return family

    def _family_of(self, name: str, rows: Rdict) -> ColumnFamily:
        return ColumnFamily(name, rows, self._rows.get_column_family_handle(name), rows.get)

    def families(self) -> dict[str, ColumnFamily]:
        """Return all column families by their names in RocksDB."""
        return dict(self._families)

    def drop_family(self, family: ColumnFamily) -> None:
        """Remove a column family with its content. Views of it stay readable; it must not be written any more."""
        self.await_links()
        del self._families[family.name]
        with _explained(f"drop column family {family.name!r}", self.directory):
            self._rows.drop_column_family(family.name)

    def drop_families(self) -> None:
        """Remove all column families with their content. They must not be read or written any more."""
        self.await_links()
        names = list(self._families)
        self._families.clear()
        with _explained("drop column families", self.directory):
            for name in names:
                self._rows.drop_column_family(name)

    def freeze(self, family: ColumnFamily) -> FrozenRows:
        """Return a view of the present rows, in constant time. The database must be retained for it."""
        return FrozenRows(family, self.directory)

    def freeze_scan(self, family: ColumnFamily) -> FrozenScan:
        """Return a view for full scans."""
        return FrozenScan(family, self.directory)

    def scan(self, family: ColumnFamily, start: bytes, end: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over (row key, value) from `start` up to `end`, as of the first step.

        Exhaust or close it before the database goes.

        Raises:
            StateError: RocksDB can't read a row.
        """
        with _explained("read", self.directory):
            yield from _rest_of(self._seek(family, start, end))

    def scan_batches(
        self, family: ColumnFamily, start: bytes, end: bytes
    ) -> Generator[list[tuple[bytes, bytes]], None, None]:
        """Iterate over batches of rows from `start` up to `end`, bypassing the cache; see `scan`."""
        options = scan_options()
        options.set_iterate_upper_bound(end)
        with _explained("read", self.directory):
            rows = family.rows.iter(options)
            rows.seek(start)
            rest = _rest_of(rows)
            while batch := list(islice(rest, _ROWS_AT_ONCE)):
                yield batch

    def last(self, family: ColumnFamily, start: bytes, end: bytes) -> bytes | None:
        """Return the last row key from `start` up to `end`; None if there is none."""
        with _explained(f"read column family {family.name!r}", self.directory):
            rows = family.rows.iter(scan_options())
            row = _last_before(rows, end)
        return row if row is not None and row >= start else None

    def scan_from(self, family: ColumnFamily, start: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        """Iterate over (row key, value) from `start` to the end, bypassing the cache; see `scan`."""
        with _explained("read", self.directory):
            rows = family.rows.iter(sweep_options())
            rows.seek(start)
            yield from _rest_of(rows)

    def scan_keys(self, family: ColumnFamily, start: bytes, end: bytes) -> Generator[bytes, None, None]:
        """Iterate over the row keys only; see `scan`."""
        with _explained("read", self.directory):
            yield from _keys_of(self._seek(family, start, end))

    def scan_heads(
        self, family: ColumnFamily, head_of: Callable[[bytes], bytes], after: Callable[[bytes], bytes]
    ) -> Generator[bytes, None, None]:
        """Iterate over the first row key of each head, skipping the others; see `scan`.

        Args:
            family: The column family.
            head_of: (row key) -> its head, a prefix of it.
            after: (head) -> the lowest row key after all that begin with it.
        """
        with _explained("read", self.directory):
            rows = family.rows.iter(scan_options())
            rows.seek_to_first()
            yield from _first_of_heads(rows, head_of, after)

    @staticmethod
    def _seek(family: ColumnFamily, start: bytes, end: bytes) -> Any:
        options = ReadOptions()
        options.set_iterate_upper_bound(end)  # deleted rows after the end are then not visited
        rows = family.rows.iter(options)
        rows.seek(start)
        return rows

    def write_range_delete(self, family: ColumnFamily, start: bytes, end: bytes) -> None:
        """Delete all rows from `start` up to `end`, together with the writes that wait for `end_write`."""
        self._batch.delete_range(start, end, family.handle)  # the batch's default column family doesn't count here
        self._batch_bytes += len(start) + len(end)

    def write(self, family: ColumnFamily, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write rows; None deletes. Some of them may wait for `end_write`."""
        put, delete, size = self._begin(family)
        for row, value in rows:
            if value is None:
                delete(row)
                size += len(row)
            else:
                put(row, value)
                size += len(row) + len(value)
            if size >= CHUNK_BYTES:
                self.end_write()
                put, delete, size = self._begin(family)
        self._batch_bytes = size

    def ingest(self, family: ColumnFamily, batches: Iterable[list[tuple[bytes, bytes]]]) -> None:
        """Write ordered rows as RocksDB files, bypassing the write buffers.

        Args:
            family: The column family, which has no rows between those.
            batches: The rows, many at a time.

        Raises:
            StateError: RocksDB can't do it; the database is to be released.
        """
        files = SortedFiles(self.directory, self._options)
        for batch in batches:
            with _explained("write", self.directory):
                files.add(batch)
        with _explained("take in files", self.directory):
            paths = files.finish()
            if paths:
                self.await_links()
                options = IngestExternalFileOptions()
                options.set_move_files(True)
                family.rows.ingest_external_file(paths, options)

    def write_all(self, family: ColumnFamily, rows: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Write rows in batches of some hundreds, as `write` does, without Python work per row."""
        put, _, size = self._begin(family)
        deque(map(put, rows, values), maxlen=0)
        self._batch_bytes = size + sum(map(len, rows)) + sum(map(len, values))
        if self._batch_bytes >= CHUNK_BYTES:
            self.end_write()

    def _begin(self, family: ColumnFamily) -> tuple[Callable[[bytes, bytes], None], Callable[[bytes], None], int]:
        batch = self._batch
        batch.set_default_column_family(family.handle)
        return batch.put, batch.delete, self._batch_bytes

    def end_write(self) -> None:
        """Write the waiting rows."""
        batch, self._batch, self._batch_bytes = self._batch, WriteBatch(raw_mode=True), 0
        if not batch.is_empty():
            self.await_links()
            with _explained("write", self.directory):
                self._rows.write(batch, self._write_options)

    def discard_write(self) -> None:
        """Drop the waiting rows."""
        self._batch, self._batch_bytes = WriteBatch(raw_mode=True), 0

    def link_files(self, directory: str) -> None:
        """Flush all rows to files, and create hard links of all files in a folder, which is a database itself.

        Args:
            directory: A folder on the same disk; it doesn't exist yet.

        Raises:
            StateError: RocksDB can't do it.
        """
        with _explained(f"link its files to {directory}", self.directory):
            for family in list(self._families.values()):
                family.rows.flush()  # others run meanwhile; a checkpoint that has to do it stops them
            Checkpoint(self._rows).create_checkpoint(directory)

    def start_links(self, directory: str) -> LinkedFiles:
        """Run `link_files` on another thread, for all rows written so far; later writes wait for it."""
        self._links = [links for links in self._links if not links.are_made]
        self.retain()
        try:
            links = LinkedFiles(directory, self.link_files, self.release)
        except BaseException:
            self.release()
            raise
        self._links.append(links)
        return links

    def await_links(self) -> None:
        """Wait for links that are being created. Must be called before the final release of the database."""
        while self._links:
            self._links[-1].wait()
            self._links.pop()

    def property(self, family: ColumnFamily | None, name: str) -> str | None:
        """Return a RocksDB property, from any thread; None if it isn't available.

        Args:
            family: The column family; None for the whole database.
            name: RocksDB's name of the property.
        """
        rows = self._rows if family is None else family.rows
        try:
            return rows.property_value(name)
        except Exception:  # closed meanwhile, or dropped: rocksdict has no class of its own
            return None

    def count(self, family: ColumnFamily) -> int:
        """Return the number of rows. Reads all of them."""
        return sum(1 for _ in self.freeze_scan(family).items())

    def read_error(self, error: Exception) -> StateError:
        """Return the error to raise after `ColumnFamily.get` failed."""
        message = f"RocksDB can't read: {error}"
        return StateError(message, where=self.directory, hint=_HINT)

    def retain(self) -> None:
        """Keep the database open until `release` is called once more."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Release the database; the last release closes it and removes its folder."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
        # Errors don't matter here: the data isn't needed. Dropped families aren't flushed, which saves most of the time.
        names = list(self._families)
        self._families.clear()
        self.discard_write()
        for name in names:
            with contextlib.suppress(Exception):
                self._rows.drop_column_family(name)
        with contextlib.suppress(Exception):
            self._rows.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _rest_of(rows: Any) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over (row key, value) from the position of a RocksDB iterator."""
    key_of, value_of, advance = rows.key, rows.value, rows.next
    while (row := key_of()) is not None:
        yield row, value_of()
        advance()
    rows.status()


def _keys_of(rows: Any) -> Iterator[bytes]:
    """Iterate over the row keys from the position of a RocksDB iterator."""
    key_of, advance = rows.key, rows.next
    while (row := key_of()) is not None:
        yield row
        advance()
    rows.status()


def _first_of_heads(rows: Any, head_of: Callable[[bytes], bytes], after: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Iterate over the first row key of each head; see `Database.scan_heads`."""
    while (row := rows.key()) is not None:
        yield row
        head = head_of(row)
        rows.next()
        following = rows.key()
        if following is not None and following.startswith(head):
            rows.seek(after(head))
    rows.status()


def _last_before(rows: Any, end: bytes) -> bytes | None:
    """Return the last row key before a given one; None if there is none."""
    rows.seek_for_prev(end)
    row: bytes | None = rows.key()
    if row == end:
        rows.prev()
        row = rows.key()
    rows.status()
    return row


@contextlib.contextmanager
def _explained(what: str, where: str, kind: type[PystateError] = StateError) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # rocksdict has no class of its own
        message = f"RocksDB can't {what}: {error}"
        raise kind(message, where=where, hint=_HINT) from error


def _number_of(family_name: str) -> int:
    """Return the number in the name of a column family; 0 where it isn't one of ours."""
    number = family_name.removeprefix(_FAMILY_PREFIX).partition("-")[0]
    return int(number) if number.isdecimal() else 0
