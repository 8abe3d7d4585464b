"""Reads the state of a checkpoint or savepoint without a job, without Spark, and without holding it in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from pystate.api.state import StateKind
from pystate.common.errors import CorruptSnapshotError, SnapshotError
from pystate.common.option_types import nearest_name
from pystate.common.type_info import TypeInformation
from pystate.snapshot.handles import StateHandle
from pystate.snapshot.keyed_files import described_states, key_type_of, open_keyed_state, place_of
from pystate.snapshot.metadata import (
    AnyKeyedStateHandle,
    CheckpointMetadata,
    OperatorState,
    OperatorSubtaskState,
    read_metadata,
)
from pystate.snapshot.operator_state_handle import OperatorStateHandle
from pystate.snapshot.state_rows import Decode, PartDecoders, StateRow, readable_key_type, value_decoder
from pystate.snapshot.storage import SnapshotLocation, resolve_snapshot
from pystate.state.base.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.state.base.keys import KEY_ENCODING, KeyCodec
from pystate.state.base.schema import common_schema
from pystate.state.operator.format import OperatorStateInfo, OperatorStateReader
from pystate.state.operator.mode import OperatorStateMode
from pystate.state.operator.raw_state import RAW_KEYED_FORMAT, RAW_OPERATOR_FORMAT, read_raw_state


@dataclass(frozen=True)
class KeyedStateDescription:
    """What a keyed state of an operator is.

    Attributes:
        parts: What the files say of it: one description, or several where subtasks had not declared it alike.
        key_type: The declared type of the keys, None where it isn't declared.
    """

    parts: tuple[StateMetaInfoSnapshot, ...]
    key_type: TypeInformation | None

    @property
    def info(self) -> StateMetaInfoSnapshot:
        """What the snapshot says of it: of parts with several schemas that which takes over the others, else the first."""
        return (common_schema(self.parts) if len(self.parts) > 1 else None) or self.parts[0]

    @property
    def name(self) -> str:
        """The state's name."""
        return self.parts[0].name

    @property
    def kind(self) -> str:
        """The state's kind, a `StateKind` value."""
        return self.parts[0].kind


@dataclass(frozen=True)
class KeyedStateSummary(KeyedStateDescription):
    """A keyed state of an operator, counted.

    Attributes:
        entries: Values, map entries, parts of lists.
        bytes: Of its blocks in canonical files.
    """

    entries: int
    bytes: int


@dataclass(frozen=True)
class KeyFilter:
    """Which keys to read.

    Attributes:
        by_group: The bytes of the wanted keys by key group.
    """

    by_group: dict[int, frozenset[bytes]]

    @staticmethod
    def of(keys: Iterable[Any], key_type: TypeInformation | None, max_parallelism: int) -> KeyFilter:
        """Return the filter for some keys.

        Raises:
            StateError: A key isn't of the type.
        """
        codec = KeyCodec(key_type)
        groups: dict[int, set[bytes]] = {}
        for key in keys:
            internal = codec.internal(key)
            groups.setdefault(codec.key_group(internal, max_parallelism), set()).add(codec.encode(internal))
        return KeyFilter({group: frozenset(found) for group, found in groups.items()})


def rows_of(
    reader: CanonicalReader, name: str, decoders: PartDecoders, groups: Iterable[int], wanted: KeyFilter | None = None
) -> Iterator[StateRow]:
    """Iterate over the rows of some key groups of a file; blocks of other key groups aren't read.

    Raises:
        CorruptSnapshotError, RestoreError: An entry can't be read.
    """
    parts = [(part, decoders.of(part)) for part in reader.parts(name)]
    for group in groups:
        for part, decoder in parts:
            entries: Iterable[tuple[bytes, bytes, bytes]] = reader.entries(part, group)
            if wanted is not None:
                keys = wanted.by_group.get(group, frozenset())
                entries = (entry for entry in entries if entry[0] in keys)
            yield from decoder.rows(group, entries)


class SnapshotReader:
    """One checkpoint or savepoint.

    Nothing in it is unpickled: a value of type PICKLED_BYTE_ARRAY is its pickle's bytes.

    Args:
        path: Its directory, or its `_metadata`.

    Attributes:
        location: Its directory.
        metadata: What its `_metadata` says.

    Raises:
        SnapshotError: There is none, or it is damaged.
    """

    def __init__(self, path: str) -> None:
        self.location: SnapshotLocation = resolve_snapshot(path)
        self.metadata: CheckpointMetadata = read_metadata(self.location.read_metadata(), self.location.uri)

    def operator(self, uid: str) -> OperatorState:
        """Return the state of the operator with that uid.

        Raises:
            SnapshotError: There is none.
        """
        for operator in self.metadata.operators:
            if operator.uid == uid:
                return operator
        raise self._unknown(None, "operator", uid, [operator.uid for operator in self.metadata.operators])

    # -- keyed state

    def keyed_states(self, uid: str) -> list[KeyedStateSummary]:
        """Return the keyed states of an operator, counted.

        Of canonical files only the indexes are read; a backend's own files are brought here and converted to count them.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        operator = self.operator(uid)
        entries: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for handle in _keyed_handles(operator):
            with open_keyed_state(self.location, operator, handle, partly=True) as reader:
                for info in reader.header.states:
                    entries[info.name] = entries.get(info.name, 0) + reader.entry_count(info)
                    sizes[info.name] = sizes.get(info.name, 0) + sum(reader.key_group_bytes(info).values())
        return [
            KeyedStateSummary(state.parts, state.key_type, entries[state.name], sizes[state.name])
            for state in self.described_states(uid)
        ]

    def described_states(self, uid: str) -> list[KeyedStateDescription]:
        """Return what the keyed states of an operator are, from headers alone: of no format is any entry read.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        operator = self.operator(uid)
        found: dict[str, tuple[StateMetaInfoSnapshot, ...]] = {}
        for handle in _keyed_handles(operator):
            for info in described_states(self.location, operator, handle):
                known = found.get(info.name, ())
                found[info.name] = known if info.schema in known else (*known, info.schema)
        key_type = key_type_of(operator) if found else None
        return [KeyedStateDescription(parts, key_type) for parts in found.values()]

    def keyed_state(self, uid: str, name: str) -> KeyedStateDescription:
        """Return what a keyed state of an operator is, from headers alone.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        states = self.described_states(uid)
        for state in states:
            if state.name == name:
                return state
        raise self._unknown(uid, "keyed state", name, [state.name for state in states])

    def keyed_rows(
        self,
        uid: str,
        name: str,
        *,
        keys: Collection[Any] | None = None,
        key_type: TypeInformation | None = None,
        type_info: TypeInformation | None = None,
        user_key_type: TypeInformation | None = None,
    ) -> Iterator[StateRow]:
        """Iterate over the values, list elements or map entries of a keyed state, one key group after another.

        Args:
            uid: The operator.
            name: The state.
            keys: Only these; only the blocks of their key groups are read.
            key_type: As what keys are to be read; None: as what they were written.
            type_info: As what values are to be read; None: as what they were written.
            user_key_type: As what map keys are to be read; None: as what they were written.

        Raises:
            SnapshotError: There is no such operator or state, a file is damaged, or it can't be read so.
            StateError: A wanted key isn't of the keys' type.
        """
        operator = self.operator(uid)
        state = self.keyed_state(uid, name)
        decoders = PartDecoders(
            state.parts, state.key_type, read_key_type=key_type, type_info=type_info, read_user_key_type=user_key_type
        )
        wanted = None if keys is None else KeyFilter.of(keys, decoders.common.key_type, operator.max_parallelism)
        return self._keyed_rows(operator, name, decoders, wanted)

    def _keyed_rows(
        self, operator: OperatorState, name: str, decoders: PartDecoders, wanted: KeyFilter | None
    ) -> Iterator[StateRow]:
        for handle in _keyed_handles(operator):
            if wanted is not None and not any(group in handle.key_group_range for group in wanted.by_group):
                continue
            with open_keyed_state(self.location, operator, handle, partly=wanted is not None) as reader:
                groups = reader.key_groups() if wanted is None else sorted(wanted.by_group)
                yield from rows_of(reader, name, decoders, groups, wanted)

    def keyed_entries(self, uid: str, state_name: str) -> Iterator[tuple[Any, Any]]:
        """Yield (key, what is stored for it), one key group after another within each subtask.

        That is a value, an accumulator, a whole list or the time of a timer; a map state yields (key, (map key, value)) for
        each of its entries. Where a state has namespaces, (key, namespace) stands for the key.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        state = self.keyed_state(uid, state_name)
        has_namespaces = state.info.namespace is not None
        for of_key in rows_by_key(self.keyed_rows(uid, state_name), apart=state.kind != StateKind.LIST.value):
            first = of_key[0]
            address = (first.key, first.namespace) if has_namespaces else first.key
            if state.kind == StateKind.LIST.value:
                yield address, [row.value for row in of_key]
            else:
                yield address, (first.sub_key, first.value) if state.kind == StateKind.MAP.value else first.value

    # -- state that is not keyed

    def operator_states(self, uid: str) -> list[OperatorStateInfo]:
        """Return the list, union and broadcast states of an operator, with their entries in all subtasks.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        found: dict[str, OperatorStateInfo] = {}
        for _, handle in _operator_handles(self.operator(uid)):
            with self.location.open(handle.handle) as file:
                for info in OperatorStateReader(file, place_of(self.location, handle.handle)).states.values():
                    known = found.setdefault(info.name, replace(info, entries=0))
                    if known != replace(info, entries=known.entries):
                        message = f"Operator state {info.name!r} has different types in the files of one snapshot."
                        raise CorruptSnapshotError(message, where=self.location.uri)
                    found[info.name] = replace(known, entries=known.entries + info.entries)
        return list(found.values())

    def operator_state(self, uid: str, name: str, *modes: OperatorStateMode) -> OperatorStateInfo:
        """Return a state of an operator that is not keyed.

        Args:
            uid: The operator.
            name: The state.
            modes: One of which it must have; none for any.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        states = self.operator_states(uid)
        for state in states:
            if state.name != name:
                continue
            if modes and state.mode not in modes:
                message = f"State {name!r} of operator {uid!r} is {state.mode.value}, not {modes[0].value}."
                raise SnapshotError(message, where=self.location.uri)
            return state
        what = "operator state" if not modes else f"{modes[0].value} state"
        raise self._unknown(uid, what, name, [state.name for state in states])

    def list_elements(
        self, uid: str, name: str, *, type_info: TypeInformation | None = None, subtask: int | None = None
    ) -> Iterator[tuple[int, Any, bytes]]:
        """Iterate over (subtask that wrote it, element, its bytes) of a list or union state.

        Args:
            uid: The operator.
            name: The state.
            type_info: As what elements are to be read; None: as what they were written.
            subtask: Only what this subtask wrote; None for all.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        state = self.operator_state(uid, name, OperatorStateMode.SPLIT_DISTRIBUTE, OperatorStateMode.UNION)
        _, decode = value_decoder(state.serializer, type_info, name)
        return self._list_elements(self.operator(uid), name, decode, subtask)

    def _list_elements(
        self, operator: OperatorState, name: str, decode: Decode, wanted: int | None
    ) -> Iterator[tuple[int, Any, bytes]]:
        for subtask, handle in _operator_handles(operator):
            if name not in handle.states or (wanted is not None and wanted != subtask):
                continue
            with self.location.open(handle.handle) as file:
                reader = OperatorStateReader(file, place_of(self.location, handle.handle))
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
        """Iterate over (map key, its bytes, value, its bytes) of a broadcast state, as the first subtask has it.

        Args:
            uid: The operator.
            name: The state.
            key_type: As what map keys are to be read; None: as what they were written.
            type_info: As what values are to be read; None: as what they were written.

        Raises:
            SnapshotError: There is no such operator or state, or a file is damaged.
        """
        state = self.operator_state(uid, name, OperatorStateMode.BROADCAST)
        _, keys = self.broadcast_keys(state, key_type)
        _, decode = value_decoder(state.serializer, type_info, name)
        return self._broadcast_entries(self.operator(uid), name, keys, decode)

    def broadcast_keys(
        self, state: OperatorStateInfo, key_type: TypeInformation | None
    ) -> tuple[TypeInformation | None, KeyCodec]:
        """Return type and codec of the map keys of a broadcast state.

        Raises:
            SnapshotError: They can't be read so.
        """
        if state.key_encoding != KEY_ENCODING:
            message = f"The keys of state {state.name!r} are written as {state.key_encoding!r}, not {KEY_ENCODING!r}."
            raise SnapshotError(message, where=self.location.uri)
        try:
            written = None if state.key_type is None else TypeInformation.from_plain(state.key_type)
        except ValueError as error:
            message = f"The description of the key type of state {state.name!r} is damaged: {error}"
            raise CorruptSnapshotError(message, where=self.location.uri) from error
        wanted = readable_key_type(written, key_type, f"The map keys of state {state.name!r}")
        return wanted, KeyCodec(wanted)

    def _broadcast_entries(
        self, operator: OperatorState, name: str, keys: KeyCodec, decode: Decode
    ) -> Iterator[tuple[Any, bytes, Any, bytes | None]]:
        for _, handle in _operator_handles(operator):
            if name not in handle.states:
                continue
            with self.location.open(handle.handle) as file:
                reader = OperatorStateReader(file, place_of(self.location, handle.handle))
                for key, value in reader.entries(name, 0, reader.states[name].entries):
                    assert key is not None  # noqa: S101 - the reader refuses it
                    yield keys.external(keys.decode(key)), key, None if value is None else decode(value), value
            return

    # -- bytes that operators wrote themselves

    def raw_keyed_state(self, uid: str) -> Iterator[tuple[int, BinaryIO]]:
        """Iterate over (key group, its bytes) of raw keyed state.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        for _, state in _subtasks(self.operator(uid)):
            for handle in state.raw_keyed_state:
                with self.location.open(handle.handle) as file:
                    groups = range(handle.start_key_group, handle.end_key_group + 1)
                    yield from read_raw_state(file, RAW_KEYED_FORMAT, groups, self._place(handle.handle))

    def raw_operator_state(self, uid: str) -> Iterator[tuple[int, BinaryIO]]:
        """Iterate over (subtask that wrote it, bytes of a partition) of raw operator state.

        Raises:
            SnapshotError: There is no such operator, or a file is damaged.
        """
        for index, state in _subtasks(self.operator(uid)):
            for handle in state.raw_operator_state:
                with self.location.open(handle.handle) as file:
                    parts = range(sum(info.count for info in handle.states.values()))
                    for _, stream in read_raw_state(file, RAW_OPERATOR_FORMAT, parts, self._place(handle.handle)):
                        yield index, stream

    def _place(self, handle: StateHandle) -> str:
        return place_of(self.location, handle)

    def _unknown(self, uid: str | None, what: str, name: str, known: list[str]) -> SnapshotError:
        near = nearest_name(name, known)
        whose = "The snapshot" if uid is None else f"The operator {uid!r}"
        message = f"{whose} has no {what} {name!r}; it has: {', '.join(map(repr, known)) or 'none'}."
        hint = None if near is None else f"did you mean {near!r}?"
        return SnapshotError(message, where=self.location.uri, hint=hint)


def rows_by_key(rows: Iterable[StateRow], *, apart: bool = False) -> Iterator[list[StateRow]]:
    """Gather the rows of each key and namespace; or none, where they are to stay apart."""
    of_key: list[StateRow] = []
    for row in rows:
        last = of_key[0] if of_key else row
        if of_key and (apart or row.key_bytes != last.key_bytes or row.namespace_bytes != last.namespace_bytes):
            yield of_key
            of_key = []
        of_key.append(row)
    if of_key:
        yield of_key


def _subtasks(operator: OperatorState) -> list[tuple[int, OperatorSubtaskState]]:
    return sorted(operator.subtasks.items())


def _keyed_handles(operator: OperatorState) -> Iterator[AnyKeyedStateHandle]:
    for _, state in _subtasks(operator):
        yield from state.keyed_state


def _operator_handles(operator: OperatorState) -> Iterator[tuple[int, OperatorStateHandle]]:
    for index, state in _subtasks(operator):
        for handle in state.operator_state:
            yield index, handle
