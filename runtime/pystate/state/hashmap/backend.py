"""The hashmap backend: keyed state in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from pystate.api.state import State, StateDescriptor
from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.key_groups import KeyGroupRange
from pystate.state.base.backend import NO_KEY, KeyedStateBackend, canonical_header
from pystate.state.base.canonical import CanonicalHeader, Entry
from pystate.state.base.keys import KeyCodec
from pystate.state.base.registry import RegisteredState, StateRegistry
from pystate.state.base.serializers import TypeSerializer
from pystate.state.base.value_states import OverlayValueState, create_value_state
from pystate.state.hashmap.snapshot import HashMapSnapshot
from pystate.state.hashmap.table import StateTable


class HashMapKeyedStateBackend(KeyedStateBackend):
    """Keyed state as dicts of objects, one dict per state and key group.

    Values that can't be changed in place are kept as they are, others as their bytes. The running epoch lives in an overlay
    per state; while snapshots are open, flushes go to layers over the frozen tables.
    """

    __slots__ = ("_lock", "_open", "_registered", "_value_states")

    def __init__(
        self,
        *,
        key_codec: KeyCodec,
        key_group_range: KeyGroupRange,
        max_parallelism: int,
        working_directory: str | None = None,
    ) -> None:
        super().__init__(
            key_codec=key_codec,
            key_group_range=key_group_range,
            max_parallelism=max_parallelism,
            working_directory=working_directory,
        )
        self._registered: StateRegistry[StateTable] = StateRegistry(lambda *_: StateTable(key_group_range))
        self._value_states: list[OverlayValueState] = []
        self._open: set[HashMapSnapshot] = set()
        self._lock = threading.Lock()  # guards _open: snapshots are released on other threads

    def _create_state(self, descriptor: StateDescriptor) -> State:
        registered = self._registered.declare(descriptor)
        state = create_value_state(descriptor.name, self, registered.serializer, registered.store)
        self._value_states.append(state)
        return state

    def flush_epoch(self) -> None:
        """End the epoch; what it wrote becomes part of the tables."""
        prepared = [(state, state.prepare_flush()) for state in self._value_states]
        with self._lock:
            frozen = bool(self._open)
        for registered in self._registered:
            if registered.store.layers:
                if frozen:
                    registered.store.melt()
                else:
                    registered.store.merge()
        for state, changes in prepared:
            state.apply_flush(changes)
            state.drop_epoch()
        self.active_key = NO_KEY

    def rollback_epoch(self) -> None:
        """Drop the overlay."""
        for state in self._value_states:
            state.drop_epoch()
        self.active_key = NO_KEY

    def snapshot(self) -> HashMapSnapshot:
        """Freeze the tables; the running epoch isn't in them yet."""
        views = {registered.name: (registered.store.freeze(), registered.serializer) for registered in self._registered}
        header = canonical_header(self, self._registered.meta_infos())
        snapshot = HashMapSnapshot(header, self.key_codec, views, self._forget)
        with self._lock:
            self._open.add(snapshot)
        return snapshot

    def _forget(self, snapshot: HashMapSnapshot) -> None:
        with self._lock:
            self._open.discard(snapshot)

    def restore(self, sources: Iterable[BinaryIO]) -> None:
        """Fill the empty backend from canonical files."""
        self._registered.restore(self, sources, self._take)

    def _take(
        self, header: CanonicalHeader, state: RegisteredState[StateTable], key_group: int, entries: Iterator[Entry]
    ) -> None:
        table, decode, serializer = state.store.base[key_group], self.key_codec.decode, state.serializer
        count = 0
        for key, _, value in entries:
            table[decode(key)] = _restored(serializer, value)
            count += 1
        if len(table) != count:
            message = f"State {state.name!r} has a key twice in key group {key_group}."
            raise RestoreError(message)

    def state_names(self) -> list[str]:
        """Return the names of all states."""
        return self._registered.names()

    def entry_count(self) -> int:
        """Return the number of flushed entries."""
        return sum(len(registered.store) for registered in self._registered)

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
