"""The hashmap backend: keyed state in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.key_groups import KeyGroupRange
from pystate.common.overrides import override
from pystate.common.time import current_time_ms
from pystate.core.api.state import State, StateDescriptor
from pystate.core.state.base.abstract_backend import AbstractKeyedStateBackend
from pystate.core.state.base.backend_snapshot import CountedSnapshot, canonical_header
from pystate.core.state.base.canonical_restore import Block, entries_in
from pystate.core.state.base.priority_queue import KeyGroupedPriorityQueue
from pystate.core.state.base.state_registry import Schema, StateRegistry
from pystate.core.state.base.state_schema import Migration, StateSchema
from pystate.core.state.base.states import create_state
from pystate.core.state.base.timer_schema import TimerSchema
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter, Entry, StateMetaInfoSnapshot
from pystate.core.state.hashmap.forms import TableForm, form_for
from pystate.core.state.hashmap.hashmap_table import StateTable, TableView
from pystate.core.state.hashmap.hashmap_ttl_sweep import IncrementalCleanup, incremental_cleanup
from pystate.core.state.hashmap.hashmap_views import HashMapView, HashMapViews, ViewedTable
from pystate.core.state.hashmap.timers import TimerForm
from pystate.core.state.keys.key_context import KeyContext
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.keys.namespaces import NamespaceSerializer
from pystate.core.state.kinds.overlay import OverlayState
from pystate.core.state.ttl.ttl_cleanup_filter import EntryFilter

RawEntries = dict[int, list[Entry]]
"""Key group -> entries as they were restored; nobody changes them."""


class HashMapSnapshot(CountedSnapshot):
    """Frozen views of all states.

    Args:
        header: The header of the file to be written.
        views: State name -> (view, form), or the raw entries of a state that wasn't declared.
        filters: State name -> filter of expired values.
        on_release: Called once, when the views are no longer read.
    """

    def __init__(
        self,
        header: CanonicalHeader,
        views: dict[str, tuple[TableView, TableForm] | RawEntries],
        filters: Mapping[str, EntryFilter],
        on_release: Callable[[HashMapSnapshot], None],
    ) -> None:
        super().__init__(header, filters)
        self._views = views
        self._on_release = on_release

    @override
    def _write(self, writer: CanonicalWriter) -> None:
        for key_group in self._key_groups:
            for name, view in self._views.items():
                self._check_open()
                if isinstance(view, dict):
                    self._write_entries(writer, name, key_group, view.get(key_group, ()))
                elif self._is_filtered(name):
                    self._write_entries(writer, name, key_group, view[1].entries(view[0].entries(key_group)))
                else:
                    pieces = view[1].pieces(*view[0].columns(key_group), writer.piece_size)
                    writer.write_pieces(name, key_group, pieces)

    def _let_go(self) -> None:
        self._views = {}
        self._on_release(self)


@dataclass(frozen=True)
class _TableState:
    """The table of a declared state, and its form."""

    table: StateTable
    form: TableForm


class HashMapKeyedStateBackend(AbstractKeyedStateBackend):
    """Keyed state as dicts of objects, one dict per state and key group.

    Immutable values are stored as objects, others as bytes. The running epoch is held in an overlay per state; while
    snapshots are open, flushes go to layers over the frozen tables.
    """

    __slots__ = ("_cleanups", "_lock", "_open", "_records", "_registered", "_views")

    def __init__(
        self,
        *,
        key_codec: KeyCodec,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        working_directory: str | None = None,
        configuration: Configuration | None = None,
        clock: Callable[[], int] = current_time_ms,
    ) -> None:
        super().__init__(
            key_codec=key_codec,
            key_group_range=key_group_range,
            max_parallelism=max_parallelism,
            working_directory=working_directory,
            configuration=configuration,
            clock=clock,
        )
        self._registered: StateRegistry[_TableState, RawEntries] = StateRegistry(
            self._create_table, _no_entries, self._adopt
        )
        self._cleanups: list[IncrementalCleanup] = []
        self._records = 0
        self._views = HashMapViews()
        self._open: set[HashMapSnapshot] = set()
        self._lock = threading.Lock()  # guards _open: snapshots are released on other threads

    def _create_table(self, name: str, schema: Schema) -> _TableState:
        form: TableForm
        if isinstance(schema, TimerSchema):
            form = TimerForm(name, schema.addresses(self.key_codec))
        else:
            form = form_for(name, schema, self.key_codec)
        return _TableState(StateTable(self.key_group_range), form)

    def _adopt(self, name: str, schema: Schema, parts: Sequence[tuple[RawEntries, Migration | None]]) -> _TableState:
        state = self._create_table(name, schema)
        for key_group in sorted({key_group for raw, _ in parts for key_group in raw}):
            found = ((raw.get(key_group, ()), migration) for raw, migration in parts)
            migrated = (old if migration is None else migration.entries(schema.kind, old) for old, migration in found)
            state.form.fill(state.table.base[key_group], key_group, chain.from_iterable(migrated))
        return state

    def _create_state(
        self, descriptor: StateDescriptor, namespaces: NamespaceSerializer, context: KeyContext
    ) -> tuple[State, OverlayState]:
        schema = StateSchema.of(descriptor, namespaces)
        registered = self._registered.declare(descriptor.name, schema, self.key_context.clock())
        table = registered.store.table
        state, overlay = create_state(descriptor, context, schema, registered.store.form.store(table))
        cleanup = incremental_cleanup(descriptor, schema, table, overlay)
        if cleanup is not None:
            self._cleanups.append(cleanup)
        return state, overlay

    def _create_queue(self, schema: TimerSchema) -> KeyGroupedPriorityQueue:
        store = self._registered.declare(schema.name, schema, self.key_context.clock()).store
        return KeyGroupedPriorityQueue(schema, self.key_context, store.form.store(store.table))

    @property
    def kept_bytes(self) -> int:
        """The size that the options set."""
        return self.configuration.get(PystateOptions.STATE_WINDOW_MEMORY)

    @override
    def count_records(self, count: int) -> None:
        self._records += count

    @override
    def flush_epoch(self) -> None:
        prepared = [(state, state.prepare_flush()) for state in self._overlays.values()]
        with self._lock:
            frozen = bool(self._open)
        for _, registered in self._registered.declared():
            table = registered.store.table
            if table.layers:
                if frozen:
                    table.merge_layers()
                else:
                    table.merge()
        for state, changes in prepared:
            state.apply_flush(changes)
            state.drop_epoch()
        self.key_context.clear()
        for cleanup in self._cleanups:
            cleanup.run(self.key_context.clock(), self._records)
        self._records = 0

    @override
    def rollback_epoch(self) -> None:
        self._drop_epochs()

    def snapshot(self) -> HashMapSnapshot:
        """Freeze the tables; the running epoch isn't in them yet."""
        self._write_back_fronts()
        views: dict[str, tuple[TableView, TableForm] | RawEntries] = dict(self._registered.undeclared())
        for name, registered in self._registered.declared():
            views[name] = registered.store.table.freeze(), registered.store.form
        snapshot = HashMapSnapshot(
            canonical_header(self.key_context, self.configuration, self._registered.meta_infos()),
            views,
            self._snapshot_filters(),
            self._forget,
        )
        with self._lock:
            self._open.add(snapshot)
        return snapshot

    def _forget(self, snapshot: HashMapSnapshot) -> None:
        with self._lock:
            self._open.discard(snapshot)

    @override
    def committed_view(self) -> HashMapView:
        wanted = {queryable.state_name: queryable.schema for queryable in self.queryable_states().values()}
        tables = {
            name: ViewedTable(registered.store.table, wanted[name])
            for name, registered in self._registered.declared()
            if name in wanted
        }
        return self._views.open(tables)

    @override
    def restore(self, sources: Iterable[BinaryIO]) -> None:
        self._registered.restore(self.key_context, sources, _take)

    @override
    def state_names(self) -> list[str]:
        return self._registered.names()

    @override
    def entry_count(self) -> int:
        self._write_back_fronts()
        raw = sum(len(entries) for _, groups in self._registered.undeclared() for entries in groups.values())
        return raw + sum(state.store.form.count(state.store.table) for _, state in self._registered.declared())

    def close(self) -> None:
        """Drop all state; open snapshots keep their views."""
        self._forget_declared()
        self._cleanups.clear()
        self._registered.clear()


def _no_entries(_info: StateMetaInfoSnapshot) -> RawEntries:
    return {}


def _take(raw: RawEntries, key_group: int, blocks: Iterator[Block]) -> None:
    raw[key_group] = list(entries_in(blocks))
