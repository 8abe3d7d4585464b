"""The RocksDB backend: keyed state on local disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pystate.api.state import State, StateDescriptor, StateKind
from pystate.common.configuration import Configuration
from pystate.common.errors import ConfigurationError, PystateError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.options import PystateOptions, RocksDBOptions
from pystate.common.time import current_time_ms
from pystate.metrics.sample import MetricSample
from pystate.state.base.addresses import KeyContext
from pystate.state.base.backend import NO_KEY, KeyedStateBackend, canonical_header
from pystate.state.base.canonical import Entry, StateMetaInfoSnapshot
from pystate.state.base.epoch_size import EpochGauge
from pystate.state.base.keys import KeyCodec
from pystate.state.base.namespaces import NamespaceSerializer
from pystate.state.base.native import NativeSource
from pystate.state.base.overlay import EpochOverlay, OverlayState
from pystate.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.state.base.registry import Schema, StateRegistry
from pystate.state.base.schema import Migration, StateSchema, namespace_end, part_number
from pystate.state.base.states import create_state
from pystate.state.base.timer_schema import TimerSchema
from pystate.state.base.ttl.value_state import TtlValueState
from pystate.state.base.value_states import OverlayValueState
from pystate.state.rocksdb.database import ColumnFamily, Database
from pystate.state.rocksdb.list_table import RocksDBListTable
from pystate.state.rocksdb.map_table import RocksDBMapTable
from pystate.state.rocksdb.native_metrics import NativeMetrics
from pystate.state.rocksdb.native_restore import RestoredDatabases
from pystate.state.rocksdb.native_snapshot import ROCKSDB_FORMAT, NativeMeta, NativeState, RocksDBNativeSnapshot
from pystate.state.rocksdb.options import MIN_MEMORY_BYTES, RocksDBMemory, process_memory
from pystate.state.rocksdb.rows import RowLayout
from pystate.state.rocksdb.snapshot import RocksDBSnapshot, entries_of
from pystate.state.rocksdb.table import RocksDBTable
from pystate.state.rocksdb.timer_table import RocksDBTimerTable, layout_of
from pystate.state.rocksdb.ttl_sweep import SweepCleanup, sweep_cleanup

Table = RocksDBTable | RocksDBMapTable | RocksDBListTable | RocksDBTimerTable


@dataclass
class _RestoredRows:
    """The rows of a state that nobody has declared.

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


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """Keyed state as rows of a RocksDB database, a column family per state.

    The running epoch lives in an overlay per state and goes to RocksDB when it is flushed: at once if it is small, else in
    chunks. If a chunk fails, the backend holds half an epoch: it then refuses to flush and to take snapshots, so that the
    half never gets anywhere, and the job has to be restored.

    An epoch that outgrows its memory spills: its changes go to a second database in the working directory, in front of the
    first one, until the epoch ends. A rollback drops that database, and snapshots don't know it.

    Args:
        memory: What block cache and write buffers may take; None shares what the options give this process.

    Attributes:
        backend_id: A name of this very backend, which no other one has, not even one restored from its snapshots.

    Raises:
        ConfigurationError: There is no working directory, or next to no memory.
        StateError: The database can't be made.
    """

    __slots__ = (
        "_broken",
        "_cleanups",
        "_closed",
        "_database",
        "_gauge",
        "_memory",
        "_native_metrics",
        "_parent",
        "_registered",
        "_scratch",
        "_spill_failure",
        "backend_id",
    )

    def __init__(
        self,
        *,
        key_codec: KeyCodec,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        working_directory: str | None = None,
        configuration: Configuration | None = None,
        clock: Callable[[], int] = current_time_ms,
        memory: RocksDBMemory | None = None,
    ) -> None:
        super().__init__(
            key_codec=key_codec,
            key_group_range=key_group_range,
            max_parallelism=max_parallelism,
            working_directory=working_directory,
            configuration=configuration,
            clock=clock,
        )
        if working_directory is None:
            message = "The rocksdb state backend needs a working directory."
            raise ConfigurationError(message, hint="give create_state_backend a folder on a local disk")
        self._registered: StateRegistry[Table, _RestoredRows] = StateRegistry(
            self._create_table, self._create_rows, self._adopt
        )
        self._broken: PystateError | None = None
        self._cleanups: list[SweepCleanup] = []
        self._closed = False
        self._parent = working_directory
        self._memory = memory or _configured_memory(self.configuration)
        self._native_metrics = NativeMetrics.of(self.configuration)
        self._database = Database(working_directory, self._memory, statistics=self._native_metrics.need_statistics)
        self.backend_id = uuid.uuid4().hex
        self._gauge = EpochGauge(self.configuration.get(PystateOptions.STATE_EPOCH_MEMORY))
        self._scratch: Database | None = None
        self._spill_failure: StateError | None = None

    def _create_table(self, name: str, schema: Schema) -> Table:
        return self._table(name, schema, self._database.family(name), 0)

    def _table(self, name: str, schema: Schema, family: ColumnFamily, next_number: int) -> Table:
        addresses = schema.addresses(self.key_codec)
        if isinstance(schema, TimerSchema):
            return RocksDBTimerTable(name, self._database, family, addresses)
        serializer = schema.serializer
        if schema.user_keys is not None:
            return RocksDBMapTable(name, self._database, family, addresses, serializer, schema.user_keys)
        if schema.kind is StateKind.LIST:
            return RocksDBListTable(name, self._database, family, addresses, serializer, next_number)
        return RocksDBTable(name, self._database, family, addresses, serializer)

    def _create_rows(self, info: StateMetaInfoSnapshot) -> _RestoredRows:
        return _RestoredRows(self._database.family(info.name), info)

    def _adopt(self, name: str, schema: Schema, parts: Sequence[tuple[_RestoredRows, Migration | None]]) -> Table:
        next_number = max(raw.next_number for raw, _ in parts)
        (first, migration), *others = parts
        if migration is None and not others:
            return self._table(name, schema, first.family, next_number)
        return self._table(name, schema, self._migrated(name, schema.kind, parts), next_number)

    def _migrated(self, name: str, kind: StateKind, parts: Sequence[tuple[_RestoredRows, Migration | None]]) -> ColumnFamily:
        """Write all rows anew, into another column family: if one can't be converted, the old ones are untouched."""
        database, family = self._database, self._database.family(name)
        try:
            for raw, migration in parts:
                for key_group, entries in entries_of(database.freeze(raw.family), raw.layout):
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

    def _create_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer, context: KeyContext
    ) -> tuple[State, OverlayState]:
        self._check_usable()
        schema = StateSchema.of(descriptor, namespaces)
        registered = self._registered.declare(descriptor.name, schema, self.clock())
        state, overlay = create_state(descriptor, context, schema, registered.store)
        cleanup = sweep_cleanup(descriptor, self._database, registered.store, overlay)
        if cleanup is not None:
            self._cleanups.append(cleanup)
        return state, overlay

    def _create_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        self._check_usable()
        table = self._registered.declare(schema.name, schema, self.clock()).store
        assert isinstance(table, RocksDBTimerTable)  # noqa: S101 - the schema says so
        return KeyGroupedPriorityQueue(schema, self, table)

    def _check_usable(self) -> None:
        if self._closed:
            message = "The state backend is closed."
            raise StateError(message)
        if self._broken is not None:
            message = f"The state backend holds half an epoch, since its flush failed: {self._broken.message}"
            raise StateError(message, where=self._broken.where, hint=self._broken.hint) from self._broken

    def prefetch(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> None:
        """Read ahead the values of states that have one value per key."""
        for name, registered in self._registered.declared():
            overlay = self._overlays.get(name)
            table = registered.store
            if not isinstance(table, RocksDBTable) or not isinstance(overlay, (OverlayValueState, TtlValueState)):
                continue
            if table.takes_lookahead:
                table.prefetch(keys, key_groups, overlay.held)

    def limit_epoch(self, records: int, size: int) -> None:
        """Move the running epoch to disk if it takes more memory than it may."""
        if self._gauge.took(records, size) and self._gauge.is_over(
            sum(overlay.held_bytes() for overlay in self._overlays.values())
        ):
            self._spill()
            self._gauge.start()

    @property
    def has_spilled(self) -> bool:
        """Whether a part of the running epoch is on disk."""
        return self._scratch is not None and bool(self._scratch.families())

    def _spill(self) -> None:
        self._check_usable()
        for name, registered in self._registered.declared():
            overlay = self._overlays.get(name)
            if overlay is None:
                continue
            changes = overlay.prepare_flush()
            if changes:
                registered.store.check(changes)
                try:
                    self._spill_changes(registered.store, overlay, changes)
                except Exception as error:
                    failure = error if isinstance(error, StateError) else StateError(repr(error))
                    self._spill_failure = failure
                    raise
            overlay.drop_epoch()

    def _spill_changes(self, table: Table, overlay: EpochOverlay, changes: Any) -> None:
        if self._scratch is None:
            self._scratch = Database(self._parent, self._memory)
        table.spill_to(self._scratch)
        overlay.apply_flush(changes)
        self._scratch.end_write()

    def _end_spill(self) -> None:
        """Drop what was spilled, whether it was moved or not. The database stays for the next epoch that spills."""
        self._gauge.start()
        self._spill_failure = None
        if self._scratch is None or not self.has_spilled:
            return
        for _, registered in self._registered.declared():
            registered.store.end_spill()
        self._scratch.discard_write()
        try:
            self._scratch.drop_families()
        except StateError:
            self._close_scratch()  # and its folder goes

    def _close_scratch(self) -> None:
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.release()

    def flush_epoch(self) -> None:
        """End the epoch; what it wrote goes to RocksDB."""
        self._check_usable()
        if self._spill_failure is not None:  # user code may have caught the error: a part of the epoch may be there twice
            raise self._spill_failure
        overlays = self._overlays
        prepared = [
            (overlays[name], registered.store, overlays[name].prepare_flush())
            for name, registered in self._registered.declared()
            if name in overlays
        ]
        for _, table, changes in prepared:
            table.check(changes)
        try:
            for state, _, changes in prepared:
                state.apply_flush(changes)
            if self._scratch is not None:
                self._scratch.end_write()
                for _, table, _ in prepared:
                    table.move_spilled()
            self._database.end_write()
            for state, _, _ in prepared:
                state.drop_epoch()
            self._end_spill()
            for cleanup in self._cleanups:
                cleanup.run(self.clock())
        except BaseException as error:
            self._broken = error if isinstance(error, PystateError) else StateError(repr(error))
            self._database.discard_write()
            raise
        self.active_key = NO_KEY

    def rollback_epoch(self) -> None:
        """Drop the overlay, and what was spilled."""
        for state in self._overlays.values():
            state.drop_epoch()
        self._end_spill()
        self.active_key = NO_KEY

    def snapshot(self) -> RocksDBSnapshot:
        """Freeze the column families; the running epoch isn't in them yet."""
        self._check_usable()
        rows = {name: (self._database.freeze(family), layout) for name, family, layout in self._families()}
        self._database.retain()
        return RocksDBSnapshot(
            canonical_header(self, self._registered.meta_infos()), self._database, rows, self._snapshot_filters()
        )

    def _families(self) -> Iterator[tuple[str, ColumnFamily, RowLayout]]:
        for name, raw in self._registered.undeclared():
            yield name, raw.family, raw.layout
        for name, registered in self._registered.declared():
            if registered.store.family is not None:
                yield name, registered.store.family, registered.store.layout

    def restore(self, sources: Iterable[BinaryIO]) -> None:
        """Fill the empty backend from canonical files.

        Entries are written as any others. SST files of sorted entries, ingested, took a third longer for 1 to 4 million
        entries: RocksDB builds the files of a write on its own threads, those of an SstFileWriter on ours.
        """
        self._check_usable()
        self._registered.check_empty()
        try:
            self._registered.restore(self, sources, self._take)
            self._database.end_write()
        except BaseException:
            self._registered.clear()
            self._database.discard_write()
            self._database.drop_families()
            raise

    def _take(self, raw: _RestoredRows, key_group: int, entries: Iterator[Entry]) -> None:
        if raw.info.kind == StateKind.LIST.value:
            entries = _numbered(raw, entries)
        self._database.write(raw.family, raw.layout.restored(key_group, entries))

    @property
    def native_format(self) -> str:
        """RocksDB's own files."""
        return ROCKSDB_FORMAT

    def snapshot_native(self) -> RocksDBNativeSnapshot:
        """Freeze the last flushed epoch as hard links to RocksDB's files. It writes what isn't in files yet."""
        self._check_usable()
        with self._linked_files() as directory:
            return RocksDBNativeSnapshot(directory, self._native_meta())

    @contextlib.contextmanager
    def _linked_files(self) -> Iterator[str]:
        directory = os.path.join(self._parent, f"native-{uuid.uuid4().hex}")
        try:
            self._database.link_files(directory)
            yield directory
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _native_meta(self) -> NativeMeta:
        states = {name: NativeState(raw.family.name, raw.next_number) for name, raw in self._registered.undeclared()}
        for name, registered in self._registered.declared():
            table = registered.store
            assert table.family is not None  # noqa: S101 - the backend is open
            number = table.next_number if isinstance(table, RocksDBListTable) else 0
            states[name] = NativeState(table.family.name, number)
        return NativeMeta(canonical_header(self, self._registered.meta_infos()), self.backend_id, states)

    def restore_native(self, sources: Sequence[NativeSource]) -> int | None:
        """Fill the empty backend from native snapshots.

        The database of the snapshot with most of our key groups is opened as it is, less what isn't ours; rows of the others
        are written to it.
        """
        self._check_usable()
        self._registered.check_empty()
        base: int | None = None
        empty = self._database
        try:
            statistics = self._native_metrics.need_statistics
            restored = RestoredDatabases(self, sources, self._parent, self._memory, statistics=statistics)
            base = restored.base
            self._database = restored.database
            for info, family, next_number in restored.base_states():
                self._registered.add_restored(info, _RestoredRows(family, info, next_number))
            for info, next_number, rows in restored.other_states():
                raw = self._registered.add_restored(info)
                raw.next_number = max(raw.next_number, next_number)
                self._database.write(raw.family, rows)
            self._database.end_write()
        except BaseException:
            self._registered.clear()
            if self._database is not empty:
                self._database.release()
                self._database = empty
            raise
        finally:
            for source in sources:
                if base is None or source is not sources[base]:
                    shutil.rmtree(source.directory, ignore_errors=True)
        empty.release()
        return base

    def state_names(self) -> list[str]:
        """Return the names of all states."""
        return self._registered.names()

    def entry_count(self) -> int:
        """Return the number of flushed entries. Reads the keys of all of them."""
        self._check_usable()
        return sum(self._database.count(family) for _, family, _ in self._families())

    def metric_samples(self) -> list[MetricSample]:
        """Return what RocksDB measures and the options ask for."""
        return [] if self._closed else list(self._native_metrics.samples(self._database, self._named_families()))

    def _named_families(self) -> Iterator[tuple[str, ColumnFamily]]:
        return ((name, family) for name, family, _ in self._families())

    def close(self) -> None:
        """Close RocksDB and remove its folder, once the open snapshots are released."""
        if self._closed:
            return
        self._closed = True
        self.active_key = NO_KEY
        for state in self._overlays.values():
            state.drop_epoch()
        for _, registered in self._registered.declared():
            registered.store.detach()
        self._close_scratch()
        self._handles.clear()
        self._queues.clear()
        self._overlays.clear()
        self._cleanups.clear()
        self._registered.clear()
        self._database.release()


def _configured_memory(configuration: Configuration) -> RocksDBMemory:
    option = RocksDBOptions.FIX_PER_SLOT_MEMORY_SIZE
    size = configuration.get(option)
    if size < MIN_MEMORY_BYTES:
        message = f"RocksDB can't work with {size:,} bytes of memory; it takes {MIN_MEMORY_BYTES:,} at least."
        raise ConfigurationError(message, where=option.key)
    return process_memory(size, configuration.get(RocksDBOptions.WRITE_BUFFER_RATIO))


def _numbered(raw: _RestoredRows, entries: Iterator[Entry]) -> Iterator[Entry]:
    for entry in entries:
        raw.next_number = max(raw.next_number, part_number(entry[1], namespace_end(raw.info, entry[1])) + 1)
        yield entry
