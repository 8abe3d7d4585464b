"""Reads operator state and raw state of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, BinaryIO

from pystate.common.errors import CorruptSnapshotError, SnapshotError
from pystate.common.type_info import TypeInformation
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.keyed_files import place_of
from pystate.core.snapshot.reading.opened_snapshot import OpenedSnapshot
from pystate.core.snapshot.reading.state_rows import Decode, readable_key_type, value_decoder
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.operator.format import OperatorStateInfo, OperatorStateMode, OperatorStateReader
from pystate.core.state.operator.raw_state import RAW_KEYED_FORMAT, RAW_OPERATOR_FORMAT, read_raw_state


class SnapshotOperatorState:
    """List, union, broadcast and raw state of the operators of one snapshot.

    Args:
        snapshot: The snapshot.
    """

    def __init__(self, snapshot: OpenedSnapshot) -> None:
        self._snapshot = snapshot
        self._location = snapshot.location

    def states(self, uid: str) -> list[OperatorStateInfo]:
        """Return the list, union and broadcast states of an operator, with their entries in all subtasks.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        found: dict[str, OperatorStateInfo] = {}
        for _, handle in _operator_handles(self._snapshot.operator(uid)):
            with self._location.open(handle.handle) as file:
                for info in OperatorStateReader(file, place_of(self._location, handle.handle)).states.values():
                    known = found.setdefault(info.name, replace(info, entries=0))
                    if known != replace(info, entries=known.entries):
                        message = f"Operator state {info.name!r} has different types in the files of one snapshot."
                        raise CorruptSnapshotError(message, where=self._location.uri)
                    found[info.name] = replace(known, entries=known.entries + info.entries)
        return list(found.values())

    def state(self, uid: str, name: str, *modes: OperatorStateMode) -> OperatorStateInfo:
        """Return a state of an operator that is not keyed.

        Args:
            uid: The operator.
            name: The state.
            modes: The allowed modes; none for any.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        states = self.states(uid)
        for state in states:
            if state.name != name:
                continue
            if modes and state.mode not in modes:
                message = f"State {name!r} of operator {uid!r} is {state.mode.value}, not {modes[0].value}."
                raise SnapshotError(message, where=self._location.uri)
            return state
        what = "operator state" if not modes else f"{modes[0].value} state"
        raise self._snapshot.unknown(uid, what, name, [state.name for state in states])

    def list_elements(
        self, uid: str, name: str, *, type_info: TypeInformation | None = None, subtask: int | None = None
    ) -> Iterator[tuple[int, Any, bytes]]:
        """Iterate over (subtask that wrote it, element, its bytes) of a list or union state.

        Args:
            uid: The operator.
            name: The state.
            type_info: The type to read elements as; None for the written type.
            subtask: Only what this subtask wrote; None for all.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        state = self.state(uid, name, OperatorStateMode.SPLIT_DISTRIBUTE, OperatorStateMode.UNION)
        _, decode = value_decoder(state.serializer, type_info, name)
        return self._list_elements(self._snapshot.operator(uid), name, decode, subtask)

    def _list_elements(
        self, operator: OperatorState, name: str, decode: Decode, wanted: int | None
    ) -> Iterator[tuple[int, Any, bytes]]:
        for subtask, handle in _operator_handles(operator):
            if name not in handle.states or (wanted is not None and wanted != subtask):
                continue
            with self._location.open(handle.handle) as file:
                reader = OperatorStateReader(file, place_of(self._location, handle.handle))
                for (data,) in reader.entries(name, 0, reader.states[name].entries):
                    assert data is not None  # noqa: S101 - the reader refuses it
                    yield subtask, decode(data), data

    def broadcast_entries(
        self,
        uid: str,
        name: str,
        *,
        key_type: TypeInformation | None = None,
        type_info: TypeInformation | None = None,
    ) -> Iterator[tuple[Any, bytes, Any, bytes | None]]:
        """Iterate over (map key, its bytes, value, its bytes) of a broadcast state, from the first subtask.

        Args:
            uid: The operator.
            name: The state.
            key_type: The type to read map keys as; None for the written type.
            type_info: The type to read values as; None for the written type.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        state = self.state(uid, name, OperatorStateMode.BROADCAST)
        _, keys = self.broadcast_keys(state, key_type)
        _, decode = value_decoder(state.serializer, type_info, name)
        return self._broadcast_entries(self._snapshot.operator(uid), name, keys, decode)

    def broadcast_keys(
        self, state: OperatorStateInfo, key_type: TypeInformation | None
    ) -> tuple[TypeInformation | None, KeyCodec]:
        """Return type and codec of the map keys of a broadcast state.

        Raises:
            SnapshotError: They can't be read so.
        """
        if state.key_encoding != KEY_ENCODING:
            message = f"The keys of state {state.name!r} are written as {state.key_encoding!r}, not {KEY_ENCODING!r}."
            raise SnapshotError(message, where=self._location.uri)
        try:
            written = None if state.key_type is None else TypeInformation.from_plain(state.key_type)
        except ValueError as error:
            message = f"The description of the key type of state {state.name!r} is damaged: {error}"
            raise CorruptSnapshotError(message, where=self._location.uri) from error
        wanted = readable_key_type(written, key_type, f"The map keys of state {state.name!r}")
        return wanted, KeyCodec(wanted)

    def _broadcast_entries(
        self, operator: OperatorState, name: str, keys: KeyCodec, decode: Decode
    ) -> Iterator[tuple[Any, bytes, Any, bytes | None]]:
        for _, handle in _operator_handles(operator):
            if name not in handle.states:
                continue
            with self._location.open(handle.handle) as file:
                reader = OperatorStateReader(file, place_of(self._location, handle.handle))
                for key, value in reader.entries(name, 0, reader.states[name].entries):
                    assert key is not None  # noqa: S101 - the reader refuses it
                    yield keys.external(keys.decode(key)), key, None if value is None else decode(value), value
            return

    def raw_keyed(self, uid: str) -> Iterator[tuple[int, BinaryIO]]:
        """Iterate over (key group, its bytes) of raw keyed state.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        for _, state in sorted(self._snapshot.operator(uid).subtasks.items()):
            for handle in state.raw_keyed_state:
                with self._location.open(handle.handle) as file:
                    groups = range(handle.start_key_group, handle.end_key_group + 1)
                    yield from read_raw_state(file, RAW_KEYED_FORMAT, groups, place_of(self._location, handle.handle))

    def raw_operator(self, uid: str) -> Iterator[tuple[int, BinaryIO]]:
        """Iterate over (subtask that wrote it, bytes of a partition) of raw operator state.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        for index, state in sorted(self._snapshot.operator(uid).subtasks.items()):
            for handle in state.raw_operator_state:
                with self._location.open(handle.handle) as file:
                    parts = range(sum(info.count for info in handle.states.values()))
                    for _, stream in read_raw_state(
                        file, RAW_OPERATOR_FORMAT, parts, place_of(self._location, handle.handle)
                    ):
                        yield index, stream


def _operator_handles(operator: OperatorState) -> Iterator[tuple[int, OperatorStateHandle]]:
    for index, state in sorted(operator.subtasks.items()):
        for handle in state.operator_state:
            yield index, handle
