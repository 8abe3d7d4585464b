"""The RocksDB backend: keyed state on local disk."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import BinaryIO

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.groups.state_backend_options import RocksDBOptions
from pystate.common.errors import ConfigurationError, PystateError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.overrides import override
from pystate.common.time import current_time_ms
from pystate.core.api.state import State, StateDescriptor
from pystate.core.metrics.sample import MetricSample
from pystate.core.state.base.abstract_backend import AbstractKeyedStateBackend
from pystate.core.state.base.backend_snapshot import NativeSource
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.base.states import create_state
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import NamespaceSerializer
from pystate.core.state.kinds.overlay import OverlayState
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.core.state.rocksdb.database import Database
from pystate.core.state.rocksdb.native_metrics import NativeMetrics
from pystate.core.state.rocksdb.native_snapshot import ROCKSDB_FORMAT, RocksDBNativeSnapshot
from pystate.core.state.rocksdb.restore_operation import RocksDBRestoreOperation
from pystate.core.state.rocksdb.rocksdb_settings import RocksDBMemory, configured_memory
from pystate.core.state.rocksdb.rocksdb_snapshot import RocksDBSnapshot, RocksDBSnapshotStrategy
from pystate.core.state.rocksdb.rocksdb_ttl_sweep import SweepCleanup, sweep_cleanup
from pystate.core.state.rocksdb.rocksdb_views import RocksDBView
from pystate.core.state.rocksdb.spill import EpochSpill
from pystate.core.state.rocksdb.tables import RocksDBTables
from pystate.core.state.rocksdb.timer_table import RocksDBTimerTable
from pystate.core.state.rocksdb.value_cache import MAX_DIRTY
from pystate.core.state.rocksdb.value_table import RocksDBTable
from pystate.core.state.ttl.ttl_value_state import TtlValueState


class RocksDBKeyedStateBackend(AbstractKeyedStateBackend):
    """Keyed state as rows of a RocksDB database, a column family per state.

    The running epoch is held in an overlay per state and written to RocksDB when it is flushed: at once if it is small, else
    in chunks. If a chunk fails, the backend has half an epoch: it then refuses to flush and to take snapshots, so that the
    half is never used, and the job has to be restored. An epoch that exceeds its memory spills before it ends.

    Args:
        memory: The memory of block cache and write buffers; None for the memory of this process by the options.

    Raises:
        ConfigurationError: There is no working directory, or too little memory.
        StateError: The database can't be created.
    """

    __slots__ = (
        "_broken",
        "_cleanups",
        "_closed",
        "_max_dirty",
        "_native_metrics",
        "_restore",
        "_snapshots",
        "_spill",
        "_tables",
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
        memory = memory or configured_memory(self.configuration)
        context = self.key_context
        self._native_metrics = NativeMetrics.of(self.configuration)
        statistics = self._native_metrics.need_statistics
        cache_size = self.configuration.get(RocksDBOptions.TIMER_SERVICE_CACHE_SIZE)
        database = Database(working_directory, memory, statistics=statistics)
        incremental = self.configuration.get(CheckpointingOptions.INCREMENTAL_CHECKPOINTS)
        self._max_dirty = MAX_DIRTY if incremental else None
        object_cache = self.configuration.get(RocksDBOptions.OBJECT_CACHE_SIZE)
        self._tables = RocksDBTables(context, database, cache_size, object_cache)
        self._spill = EpochSpill(working_directory, memory, self.configuration.get(PystateOptions.STATE_EPOCH_MEMORY))
        self._snapshots = RocksDBSnapshotStrategy(context, self.configuration, self._tables, working_directory)
        self._restore = RocksDBRestoreOperation(context, self._tables, working_directory, memory, statistics=statistics)
        self._cleanups: list[SweepCleanup] = []
        self._broken: PystateError | None = None
        self._closed = False

    @property
    def backend_id(self) -> str:
        """The unique id of this backend instance; a backend restored from its snapshots has another one."""
        return self._snapshots.backend_id

    def _create_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer, context: KeyContext
    ) -> tuple[State, OverlayState]:
        self._check_usable()
        schema = StateSchema.of(descriptor, namespaces)
        table = self._tables.declare(descriptor.name, schema)
        state, overlay = create_state(descriptor, context, schema, table)
        cleanup = sweep_cleanup(descriptor, self._tables.database, table, overlay)
        if cleanup is not None:
            self._cleanups.append(cleanup)
        return state, overlay

    def _create_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        self._check_usable()
        table = self._tables.declare(schema.name, schema)
        assert isinstance(table, RocksDBTimerTable)  # noqa: S101 - the schema says so
        return KeyGroupedPriorityQueue(schema, self.key_context, table)

    def _check_usable(self) -> None:
        if self._closed:
            message = "The state backend is closed."
            raise StateError(message)
        if self._broken is not None:
            message = f"The state backend holds half an epoch, since its flush failed: {self._broken.message}"
            raise StateError(message, where=self._broken.where, hint=self._broken.hint) from self._broken

    def prefetch(self, keys: Sequence[Hashable], key_groups: Sequence[int]) -> None:
        """Read ahead the values of states that have one value per key."""
        for name, table in self._tables.declared():
            overlay = self._overlays.get(name)
            if not isinstance(table, RocksDBTable) or not isinstance(overlay, (OverlayValueState, TtlValueState)):
                continue
            if table.takes_lookahead:
                table.prefetch(keys, key_groups, overlay.held)

    def limit_epoch(self, records: int, size: int) -> None:
        """Move the running epoch to disk if it takes more memory than it may."""
        if self._spill.is_due(records, size, self._overlays):
            self._check_usable()
            self._write_back_fronts()
            for front in self._fronts():
                front.settle(whole=True)
            self._spill.spill(self._tables.declared(), self._overlays)

    @override
    def _write_back_fronts(self) -> None:
        if not self._fronts():
            return
        try:
            super()._write_back_fronts()
            self._tables.database.end_write()
        except BaseException as error:
            self._break(error)
            raise

    def _break(self, error: BaseException) -> None:
        self._broken = error if isinstance(error, PystateError) else StateError(repr(error))
        self._tables.database.discard_write()

    @property
    def kept_bytes(self) -> int:
        """The size that the options set."""
        return self.configuration.get(PystateOptions.STATE_WINDOW_MEMORY)

    @property
    def has_spilled(self) -> bool:
        """Whether a part of the running epoch is on disk."""
        return self._spill.has_rows

    @override
    def flush_epoch(self) -> None:
        self._check_usable()
        self._spill.check_whole()
        overlays, database = self._overlays, self._tables.database
        prepared = [
            (overlays[name], table, overlays[name].prepare_flush())
            for name, table in self._tables.declared()
            if name in overlays
        ]
        for _, table, changes in prepared:
            table.check(changes)
        try:
            for overlay, _, changes in prepared:
                overlay.apply_flush(changes)
            for _, table, _ in prepared:
                if isinstance(table, RocksDBTable):
                    table.settle(self._max_dirty)
            self._spill.move(self._tables.declared())
            database.end_write()
            for overlay, _, _ in prepared:
                overlay.drop_epoch()
            self._spill.end(self._tables.declared())
            for cleanup in self._cleanups:
                cleanup.run(self.key_context.clock())
        except BaseException as error:
            self._break(error)
            raise
        self.key_context.clear()

    @override
    def rollback_epoch(self) -> None:
        self._drop_epochs()
        self._spill.end(self._tables.declared())

    @override
    def snapshot(self) -> RocksDBSnapshot:
        self._check_usable()
        self._write_back_fronts()
        return self._snapshots.canonical(self._snapshot_filters())

    @override
    def restore(self, sources: Iterable[BinaryIO]) -> None:
        self._check_usable()
        self._restore.canonical(sources)

    @property
    def native_format(self) -> str:
        """RocksDB's own files."""
        return ROCKSDB_FORMAT

    @override
    def snapshot_native(self) -> RocksDBNativeSnapshot:
        self._check_usable()
        self._write_back_fronts()
        self._tables.write_back()
        return self._snapshots.native()

    @override
    def restore_native(self, sources: Sequence[NativeSource]) -> int | None:
        self._check_usable()
        return self._restore.native(sources)

    @override
    def committed_view(self) -> RocksDBView:
        self._check_usable()
        wanted = {queryable.state_name: queryable.schema for queryable in self.queryable_states().values()}
        self._tables.write_back(wanted)
        families = {
            name: (table.family, wanted[name])
            for name, table in self._tables.declared()
            if name in wanted and table.family is not None
        }
        return RocksDBView(self._tables.database, families, self.key_codec)

    @override
    def state_names(self) -> list[str]:
        return self._tables.names()

    def entry_count(self) -> int:
        """Return the number of flushed entries. Reads the keys of all of them."""
        self._check_usable()
        self._write_back_fronts()
        self._tables.write_back()
        return sum(self._tables.database.count(family) for _, family, _ in self._tables.families())

    def metric_samples(self) -> list[MetricSample]:
        """Return the RocksDB metrics enabled by the options."""
        if self._closed:
            return []
        families = ((name, family) for name, family, _ in self._tables.families())
        return list(self._native_metrics.samples(self._tables.database, families))

    def close(self) -> None:
        """Close RocksDB and remove its folder, once the open snapshots are released."""
        if self._closed:
            return
        self._closed = True
        self._drop_epochs()
        self._cleanups.clear()
        self._tables.detach()
        self._spill.close()
        self._forget_declared()
        self._tables.database.await_links()
        self._tables.database.release()
