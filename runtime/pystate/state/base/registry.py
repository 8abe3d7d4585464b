"""The states of one backend by name, whether declared by the job or found in a snapshot, with their kind and serializer.

Generic in the store: where a backend keeps the flushed values of one state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Generic, TypeVar

from pystate.api.state import StateDescriptor, StateKind
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.state.base.backend import VOID_NAMESPACE, KeyedStateBackend, check_header_fits, restored_entries
from pystate.state.base.canonical import CanonicalHeader, CanonicalReader, Entry, StateMetaInfo
from pystate.state.base.serializers import (
    SchemaCompatibility,
    TypeSerializer,
    resolve_compatibility,
    serializer_for,
    serializer_from_snapshot,
)

S = TypeVar("S")


@dataclass(frozen=True)
class RegisteredState(Generic[S]):
    """A state: its name, kind and serializer, and the store of its flushed values."""

    name: str
    kind: StateKind
    serializer: TypeSerializer
    store: S


class StateRegistry(Generic[S]):
    """Name -> state.

    Args:
        create_store: Makes the store of a new state, from its name and serializer.
    """

    def __init__(self, create_store: Callable[[str, TypeSerializer], S]) -> None:
        self._create_store = create_store
        self._states: dict[str, RegisteredState[S]] = {}

    def __iter__(self) -> Iterator[RegisteredState[S]]:
        """Iterate over the states in the order they were registered."""
        return iter(self._states.values())

    def names(self) -> list[str]:
        """Return the names of all states."""
        return list(self._states)

    def meta_infos(self) -> list[StateMetaInfo]:
        """Return what a snapshot says about the states."""
        return [StateMetaInfo(state.name, state.kind.value, state.serializer.snapshot()) for state in self]

    def clear(self) -> None:
        """Forget all states."""
        self._states.clear()

    def check_empty(self) -> None:
        """Refuse a restore on top of other state.

        Raises:
            StateError: There are states.
        """
        if self._states:
            message = "State can only be restored into an empty backend."
            raise StateError(message)

    def declare(self, descriptor: StateDescriptor) -> RegisteredState[S]:
        """Return the state that a descriptor declares, with its restored values if there are any.

        Raises:
            RestoreError: The restored state of this name has another kind or type.
        """
        serializer = serializer_for(descriptor.type_info)
        known = self._states.get(descriptor.name)
        if known is None:
            return self._register(descriptor.name, descriptor.kind, serializer)
        if (
            known.kind is not descriptor.kind
            or resolve_compatibility(known.serializer.snapshot(), serializer) is not SchemaCompatibility.AS_IS
        ):
            message = (
                f"State {descriptor.name!r} was written as {known.kind.value} of {known.serializer.type_name}; "
                f"the job declares {descriptor.kind.value} of {serializer.type_name}."
            )
            raise RestoreError(message, hint="declare the type it was written with, or give the new state another name")
        return known

    def _register(self, name: str, kind: StateKind, serializer: TypeSerializer) -> RegisteredState[S]:
        state = RegisteredState(name, kind, serializer, self._create_store(name, serializer))
        self._states[name] = state
        return state

    def restore(
        self,
        backend: KeyedStateBackend,
        sources: Iterable[BinaryIO],
        take: Callable[[CanonicalHeader, RegisteredState[S], int, Iterator[Entry]], None],
    ) -> None:
        """Read canonical files. After an error the states are forgotten; their stores are the caller's to clean up.

        Args:
            backend: Whose key groups are wanted.
            sources: See `KeyedStateBackend.restore`.
            take: Called with the file's header, the state, a key group, and its entries, which are never none. Keys are not
                decoded; the first one was checked to belong to the key group, and all have no namespace.

        Raises:
            CorruptSnapshotError, RestoreError, StateError: See `KeyedStateBackend.restore`.
        """
        self.check_empty()
        seen: set[tuple[str, int]] = set()
        try:
            for source in sources:
                reader = CanonicalReader(source)
                check_header_fits(reader.header, backend)
                for info in reader.header.states:
                    state = self._restored(info)
                    for key_group, entries in restored_entries(reader, backend, state.name):
                        if (state.name, key_group) in seen:
                            message = f"State {state.name!r} has key group {key_group} twice: the files overlap."
                            raise RestoreError(message)
                        seen.add((state.name, key_group))
                        take(reader.header, state, key_group, _without_namespace(state, entries))
        except BaseException:
            self._states.clear()
            raise

    def _restored(self, info: StateMetaInfo) -> RegisteredState[S]:
        serializer = serializer_from_snapshot(info.serializer)
        try:
            kind = StateKind(info.kind)
        except ValueError as error:
            message = f"State {info.name!r} is of kind {info.kind}, which this pystate doesn't know."
            raise RestoreError(message) from error
        known = self._states.get(info.name)
        if known is None:
            return self._register(info.name, kind, serializer)
        if known.kind is not kind or known.serializer.type_info != serializer.type_info:
            message = f"State {info.name!r} has different types in the files of one snapshot."
            raise CorruptSnapshotError(message)
        return known


def _without_namespace(state: RegisteredState[S], entries: Iterator[Entry]) -> Iterator[Entry]:
    for entry in entries:
        if entry[1] != VOID_NAMESPACE:
            message = f"State {state.name!r} has a namespace, which {state.kind.value} state never has."
            raise CorruptSnapshotError(message)
        yield entry
