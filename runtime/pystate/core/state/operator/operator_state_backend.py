"""The operator state of one operator in one subtask: Flink's `DefaultOperatorStateBackend`.

Epochs work as in keyed state: changes by user code become part of the state when the epoch is flushed, or are dropped when
it is rolled back, including in-place changes of returned objects. `snapshot` sees flushed state.

A snapshot is a frozen view: list states share their list and record its length, broadcast states share their dict, which the
next change copies. So the synchronous part is independent of the size, and entries are serialized on the upload thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from pystate.common.errors import RestoreError, StateDeclarationError, StateError
from pystate.common.type_info import TypeInformation
from pystate.core.api.checkpointed import OperatorStateStore
from pystate.core.api.state import BroadcastState, ListState, ListStateDescriptor, MapStateDescriptor, StateDescriptor
from pystate.core.state.files.block_file import Item
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.operator.broadcast_state import OperatorBroadcastState
from pystate.core.state.operator.format import (
    OperatorStateInfo,
    OperatorStateMode,
    OperatorStateReader,
    write_operator_state,
)
from pystate.core.state.operator.operator_list_state import OperatorListState
from pystate.core.state.operator.restored import RestoredOperatorState
from pystate.core.state.values.serializers import TypeSerializer, serializer_for


@dataclass(frozen=True)
class OperatorStateSnapshot:
    """A frozen view of the last flushed operator state, written from any thread.

    Attributes:
        states: Each state, with an iteration over the byte strings of its entries.
    """

    states: list[tuple[OperatorStateInfo, Callable[[], Iterator[Item]]]]

    @property
    def infos(self) -> list[OperatorStateInfo]:
        """The descriptions of the states for the file."""
        return [info for info, _ in self.states]

    def write(self, sink: BinaryIO, *, compression: str | None = None) -> None:
        """Write the view as an operator-state file. The caller opens and closes the sink."""
        write_operator_state(sink, [(info, entries()) for info, entries in self.states], compression=compression)


@dataclass
class _Declared:
    """A declared state."""

    descriptor: StateDescriptor
    mode: OperatorStateMode
    serializer: TypeSerializer
    state: OperatorListState | OperatorBroadcastState

    def info(self, entries: int) -> OperatorStateInfo:
        """Return its description for snapshots."""
        key_type = _key_type(self.descriptor)
        return OperatorStateInfo(
            self.descriptor.name,
            self.mode,
            entries,
            self.serializer.snapshot(),
            None if key_type is None else key_type.to_plain(),
            KEY_ENCODING if self.mode is OperatorStateMode.BROADCAST else None,
        )


class OperatorStateBackend(OperatorStateStore):
    """Operator state by name.

    Args:
        where: The location for errors, such as the operator's uid.

    Attributes:
        read_only: Whether broadcast state is read-only; set while elements of the data stream are processed.
    """

    def __init__(self, where: str | None = None) -> None:
        self.read_only = False
        self._where = where
        self._declared: dict[str, _Declared] = {}
        self._restored: dict[str, RestoredOperatorState] = {}

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list state whose elements are redistributed evenly on restore."""
        return self._list_state(state_descriptor, OperatorStateMode.SPLIT_DISTRIBUTE)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list state of which every subtask gets all elements on restore."""
        return self._list_state(state_descriptor, OperatorStateMode.UNION)

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a broadcast state."""
        return self.broadcast_state(state_descriptor)

    def broadcast_state(self, descriptor: MapStateDescriptor) -> OperatorBroadcastState:
        """Return a broadcast state, with its internal methods."""
        if not isinstance(descriptor, MapStateDescriptor):
            message = f"{descriptor!r} doesn't declare a map state."
            raise StateDeclarationError(message, where=self._where, hint="declare broadcast state with a MapStateDescriptor")
        known = self._known(descriptor, OperatorStateMode.BROADCAST)
        if known is None:
            keys, serializer = KeyCodec(descriptor.key_type_info), serializer_for(descriptor.type_info)
            restored = self._restored.get(descriptor.name)
            stored = {} if restored is None else restored.mapping(descriptor, keys, serializer)
            state = OperatorBroadcastState(descriptor.name, keys, serializer, stored, self)
            known = self._declare(descriptor, OperatorStateMode.BROADCAST, serializer, state)
        assert isinstance(known.state, OperatorBroadcastState)  # noqa: S101 - the mode says so
        return known.state

    def get_registered_state_names(self) -> set[str]:
        """Return the names of the list states."""
        return self._names() - self.get_registered_broadcast_state_names()

    def get_registered_broadcast_state_names(self) -> set[str]:
        """Return the names of the broadcast states."""
        broadcast = OperatorStateMode.BROADCAST
        declared = {name for name, known in self._declared.items() if known.mode is broadcast}
        return declared | {name for name, restored in self._restored.items() if restored.info.mode is broadcast}

    def restore(self, file: BinaryIO, entries: Mapping[str, tuple[int, int]], where: str | None = None) -> None:
        """Restore entries of one operator-state file; may be called for several files, before any state is declared.

        Args:
            file: Open for reading, seekable.
            entries: By state name: the range of entries (start, end exclusive).
            where: Its location, for errors.

        Raises:
            CorruptSnapshotError: The file is damaged, or doesn't have these entries.
        """
        reader = OperatorStateReader(file, where)
        for name, (start, stop) in entries.items():
            found = list(reader.entries(name, start, stop))
            self._restored.setdefault(name, RestoredOperatorState(reader.states[name])).add(reader.states[name], found)

    def prepare_flush(self) -> list[Callable[[], None]]:
        """Return a function that applies the changes since the last flush; may fail, without side effects.

        Raises:
            StateError: A value isn't of its state's type; then all must be rolled back.
        """
        prepared: list[Callable[[], None]] = []
        for known in self._declared.values():
            try:
                change = known.state.prepare_flush()
            except StateError as error:
                error.where = error.where or self._where
                raise
            if change is not None:
                prepared.append(change)
            prepared.append(known.state.drop_epoch)
        return prepared

    def finish_epoch(self) -> None:
        """Apply the changes since the last flush, all or none.

        Raises:
            StateError: See `prepare_flush`.
        """
        for apply in self.prepare_flush():
            apply()

    def roll_back_epoch(self) -> None:
        """Drop all changes since the last flush."""
        for known in self._declared.values():
            known.state.drop_epoch()

    def snapshot(self) -> OperatorStateSnapshot | None:
        """Freeze the flushed state; None if there is none."""
        states: list[tuple[OperatorStateInfo, Callable[[], Iterator[Item]]]] = []
        for known in self._declared.values():
            count, entries = known.state.freeze()
            states.append((known.info(count), entries))
        states += [(restored.frozen_info(), restored.items) for restored in self._restored.values()]
        return OperatorStateSnapshot(states) if states else None

    def _list_state(self, descriptor: ListStateDescriptor, mode: OperatorStateMode) -> ListState[Any]:
        if not isinstance(descriptor, ListStateDescriptor):
            message = f"{descriptor!r} doesn't declare a list state."
            raise StateDeclarationError(
                message, where=self._where, hint="declare operator list state with a ListStateDescriptor"
            )
        known = self._known(descriptor, mode)
        if known is None:
            serializer = serializer_for(descriptor.type_info)
            restored = self._restored.get(descriptor.name)
            stored = [] if restored is None else restored.elements(descriptor, serializer)
            state = OperatorListState(descriptor.name, serializer, stored)
            known = self._declare(descriptor, mode, serializer, state)
        assert isinstance(known.state, OperatorListState)  # noqa: S101 - the mode says so
        return known.state

    def _known(self, descriptor: StateDescriptor, mode: OperatorStateMode) -> _Declared | None:
        """Return the state of that name if it is declared.

        Raises:
            StateError: It is declared otherwise, or with a time to live.
            RestoreError: The snapshot has a state of that name and another mode.
        """
        name = descriptor.name
        if descriptor.ttl_config is not None:
            message = f"Operator state {name!r} can't have a time to live: only keyed state can."
            raise StateDeclarationError(message, where=self._where, hint="leave enable_time_to_live out")
        known = self._declared.get(name)
        if known is not None:
            if (
                known.mode is not mode
                or known.descriptor != descriptor
                or _key_type(known.descriptor) != _key_type(descriptor)
            ):
                message = (
                    f"Operator state {name!r} is declared twice: as {known.mode.value} {known.descriptor!r} and as "
                    f"{mode.value} {descriptor!r}."
                )
                raise StateDeclarationError(message, where=self._where, hint="give one of them another name")
            return known
        restored = self._restored.get(name)
        if restored is not None and restored.info.mode is not mode:
            message = f"Operator state {name!r} was written as {restored.info.mode.value}; the job declares {mode.value}."
            raise RestoreError(message, where=self._where, hint="declare the old mode, or give the new state another name")
        return None

    def _declare(
        self,
        descriptor: StateDescriptor,
        mode: OperatorStateMode,
        serializer: TypeSerializer,
        state: OperatorListState | OperatorBroadcastState,
    ) -> _Declared:
        self._restored.pop(descriptor.name, None)
        known = _Declared(descriptor, mode, serializer, state)
        self._declared[descriptor.name] = known
        return known

    def _names(self) -> set[str]:
        return {*self._declared, *self._restored}


def _key_type(descriptor: StateDescriptor) -> TypeInformation | None:
    return descriptor.key_type_info if isinstance(descriptor, MapStateDescriptor) else None
