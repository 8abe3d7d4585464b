"""The hashmap backend: keyed state in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO

from pystate.api.state import State, StateDescriptor, StateKind
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.common.key_groups import KeyGroupRange
from pystate.state.base.backend import (
    NO_KEY,
    VOID_NAMESPACE,
    KeyedStateBackend,
    canonical_header,
    check_header_fits,
    restored_entries,
)
from pystate.state.base.canonical import CanonicalReader, StateMetaInfo
from pystate.state.base.keys import KeyCodec
from pystate.state.base.serializers import (
    SchemaCompatibility,
    TypeSerializer,
    resolve_compatibility,
    serializer_for,
    serializer_from_snapshot,
)
from pystate.state.hashmap.snapshot import HashMapSnapshot
from pystate.state.hashmap.states import HashMapValueState, create_value_state
from pystate.state.hashmap.table import StateTable


@dataclass(frozen=True)
class _Registered:
    """A state's data: what was restored or declared under a name."""

    kind: StateKind
    serializer: TypeSerializer
    table: StateTable


class HashMapKeyedStateBackend(KeyedStateBackend):
    """Keyed state as dicts of objects, one dict per state and key group.

    Values that can't be changed in place are kept as they are, others as their bytes. The running epoch lives in an overlay
    per state; while snapshots are open, flushes go to layers over the frozen tables.
    """

    __slots__ = ("_lock", "_open", "_registered", "_value_states")

    def __init__(self, *, key_codec: KeyCodec, key_group_range: KeyGroupRange, max_parallelism: int) -> None:
        super().__init__(key_codec=key_codec, key_group_range=key_group_range, max_parallelism=max_parallelism)
        self._registered: dict[str, _Registered] = {}
        self._value_states: list[HashMapValueState] = []
        self._open: set[HashMapSnapshot] = set()
        self._lock = threading.Lock()  # guards _open: snapshots are released on other threads

    def _create_state(self, descriptor: StateDescriptor) -> State:
        serializer = serializer_for(descriptor.type_info)
        known = self._registered.get(descriptor.name)
        if known is None:
            known = _Registered(descriptor.kind, serializer, StateTable(self.key_group_range))
            self._registered[descriptor.name] = known
        elif (
            known.kind is not descriptor.kind
            or resolve_compatibility(known.serializer.snapshot(), serializer) is not SchemaCompatibility.AS_IS
        ):
            message = (
                f"State {descriptor.name!r} was written as {known.kind.value} of {known.serializer.type_name}; "
                f"the job declares {descriptor.kind.value} of {serializer.type_name}."
            )
            raise RestoreError(message, hint="declare the type it was written with, or give the new state another name")
        state = create_value_state(descriptor.name, self, serializer, known.table)
        self._value_states.append(state)
        return state

    def flush_epoch(self) -> None:
        """End the epoch; what it wrote becomes part of the tables."""
        prepared = [(state, state.prepare_flush()) for state in self._value_states]
        with self._lock:
            frozen = bool(self._open)
        for registered in self._registered.values():
            if registered.table.layers:
                if frozen:
                    registered.table.melt()
                else:
                    registered.table.merge()
        for state, changes in prepared:
            state.apply_flush(changes)
        self.active_key = NO_KEY

    def rollback_epoch(self) -> None:
        """Drop the overlay."""
        for state in self._value_states:
            state.drop_epoch()
        self.active_key = NO_KEY

    def snapshot(self) -> HashMapSnapshot:
        """Freeze the tables; the running epoch isn't in them yet."""
        states = [
            StateMetaInfo(name, registered.kind.value, registered.serializer.snapshot())
            for name, registered in self._registered.items()
        ]
        views = {name: (registered.table.freeze(), registered.serializer) for name, registered in self._registered.items()}
        snapshot = HashMapSnapshot(canonical_header(self, states), self.key_codec, views, self._forget)
        with self._lock:
            self._open.add(snapshot)
        return snapshot

    def _forget(self, snapshot: HashMapSnapshot) -> None:
        with self._lock:
            self._open.discard(snapshot)

    def restore(self, sources: Iterable[BinaryIO]) -> None:
        """Fill the empty backend from canonical files."""
        if self._registered:
            message = "State can only be restored into an empty backend."
            raise StateError(message)
        try:
            for source in sources:
                reader = CanonicalReader(source)
                check_header_fits(reader.header, self)
                for state in reader.header.states:
                    self._restore_state(reader, state)
        except BaseException:
            self._registered.clear()
            raise

    def _restore_state(self, reader: CanonicalReader, state: StateMetaInfo) -> None:
        serializer = serializer_from_snapshot(state.serializer)
        try:
            kind = StateKind(state.kind)
        except ValueError as error:
            message = f"State {state.name!r} is of kind {state.kind}, which this pystate doesn't know."
            raise RestoreError(message) from error
        known = self._registered.get(state.name)
        if known is None:
            known = _Registered(kind, serializer, StateTable(self.key_group_range))
            self._registered[state.name] = known
        elif known.kind is not kind or known.serializer.type_info != serializer.type_info:
            message = f"State {state.name!r} has different types in the files of one snapshot."
            raise CorruptSnapshotError(message)
        for key_group, entries in restored_entries(reader, self, state.name):
            table = known.table.base[key_group]
            before = len(table)
            for key, namespace, value in entries:
                if namespace != VOID_NAMESPACE:
                    message = f"State {state.name!r} has a namespace, which {kind.value} state never has."
                    raise CorruptSnapshotError(message)
                table[key] = _restored(serializer, value)
            if len(table) != before + len(entries):
                message = f"State {state.name!r} has a key twice in key group {key_group}: the files overlap."
                raise RestoreError(message)

    def state_names(self) -> list[str]:
        """Return the names of all states."""
        return list(self._registered)

    def entry_count(self) -> int:
        """Return the number of flushed entries."""
        return sum(len(registered.table) for registered in self._registered.values())

    def close(self) -> None:
        """Drop all state; open snapshots keep their views."""
        self.active_key = NO_KEY
        self._states.clear()
        self._descriptors.clear()
        self._value_states.clear()
        self._registered.clear()


def _restored(serializer: TypeSerializer, value: bytes) -> Any:
    if not serializer.immutable:
        return value
    restored = serializer.deserialize(value)
    if restored is None:
        message = f"A value of type {serializer.type_name} is null."
        raise CorruptSnapshotError(message)
    return restored
