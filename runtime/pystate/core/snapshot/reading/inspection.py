"""Inspects a snapshot: its operators and their states, from headers and indexes alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pystate.common.errors import RestoreError
from pystate.common.type_info import TypeInformation
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle, IncrementalKeyedStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.plain import unsound
from pystate.core.snapshot.reading.keyed_files import key_type_of
from pystate.core.snapshot.reading.timer_figures import TimerFigures, timers_of
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.timer_schema import schema_of
from pystate.core.state.files.canonical import CanonicalReader, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import key_type_name
from pystate.core.state.operator.format import OperatorStateInfo, OperatorStateMode, OperatorStateReader
from pystate.core.state.rocksdb.native_snapshot import ROCKSDB_FORMAT, NativeMeta
from pystate.core.state.values.serializers import serializer_from_snapshot

CANONICAL = "canonical"
_RAW = "raw bytes"
_OR = " | "


@dataclass
class StateFigures:
    """A state of an operator, over all its subtasks.

    Attributes:
        name: Its name; empty for raw state.
        kind: VALUE, LIST, MAP and so on for keyed state; OPERATOR LIST, UNION LIST, BROADCAST for operator state; RAW KEYED
            or RAW for raw state written by the function.
        type: The type of its values, with map keys if it has them; several if subtasks declared it differently.
        entries: The number of stored entries, see `docs/savepoints.md`; None if only the backend knows.
        size: Their size in bytes; None if only the backend knows.
        ttl: Whether values have a TTL, in at least one subtask.
    """

    name: str
    kind: str
    type: str
    entries: int | None = None
    size: int | None = None
    ttl: bool = False

    def count(self, entries: int | None, size: int | None) -> None:
        """Add the figures of a subtask."""
        self.entries = entries if self.entries is None else self.entries + (entries or 0)
        self.size = size if self.size is None else self.size + (size or 0)

    def take(self, other: StateFigures) -> None:
        """Add the description of another subtask."""
        if other.type not in self.type.split(_OR):
            self.type += f"{_OR}{other.type}"
        self.ttl = self.ttl or other.ttl

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "name": self.name,
            "kind": self.kind,
            "type": self.type,
            "entries": self.entries,
            "bytes": self.size,
            "ttl": self.ttl,
        }


@dataclass
class OperatorFigures:
    """An operator.

    Attributes:
        uid: Its uid.
        name: Its name.
        parallelism: Its number of subtasks.
        max_parallelism: Its number of key groups.
        key_type: The type of its keys; None without keyed state.
        size: The size of all its state in bytes.
        states: Its states.
        timers: Its timers, if requested.
    """

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    key_type: str | None
    size: int
    states: list[StateFigures] = field(default_factory=list)
    timers: list[TimerFigures] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "uid": self.uid,
            "name": self.name,
            "parallelism": self.parallelism,
            "max-parallelism": self.max_parallelism,
            "key-type": self.key_type,
            "bytes": self.size,
            "states": [state.to_json() for state in self.states],
            "timers": [one.to_json() for one in self.timers],
        }


def inspect_operators(
    location: SnapshotLocation, metadata: CheckpointMetadata, *, with_timers: bool = False
) -> list[OperatorFigures]:
    """Return the figures of each operator. Reads only headers and indexes of files, and timers if requested.

    Args:
        location: The snapshot's directory.
        metadata: The content of `_metadata`.
        with_timers: Whether to fill in `timers`.

    Raises:
        SnapshotError: A file is missing or damaged.
    """
    found = [_operator(location, operator) for operator in metadata.operators]
    if with_timers:
        for figures, operator in zip(found, metadata.operators, strict=True):
            figures.timers = timers_of(location, operator)
    return found


def _operator(location: SnapshotLocation, operator: OperatorState) -> OperatorFigures:
    key_type = None
    if operator.key_encoding is not None:
        key_type = key_type_name(key_type_of(operator))
    figures = OperatorFigures(
        operator.uid, operator.name, operator.parallelism, operator.max_parallelism, key_type, operator.state_size
    )
    states: dict[tuple[str, str], StateFigures] = {}
    for _, subtask in sorted(operator.subtasks.items()):
        for found in _subtask(location, subtask):
            known = states.get((found.kind, found.name))
            if known is None:
                states[found.kind, found.name] = found
            elif found.kind == _MODES[OperatorStateMode.BROADCAST]:
                known.size = (known.size or 0) + (found.size or 0)  # every subtask has all entries
            else:
                known.count(found.entries, found.size)
                known.take(found)
    figures.states = sorted(states.values(), key=lambda state: (state.kind in _MODES.values(), state.name))
    return figures


def _subtask(location: SnapshotLocation, state: OperatorSubtaskState) -> Iterator[StateFigures]:
    for keyed in state.keyed_state:
        yield from _keyed(location, keyed)
    for handle in state.operator_state:
        yield from _operator_states(location, handle)
    for raw in state.raw_keyed_state:
        yield StateFigures("", "RAW KEYED", _RAW, None, raw.state_size)
    for handle in state.raw_operator_state:
        partitions = sum(info.count for info in handle.states.values())
        yield StateFigures("", "RAW", _RAW, partitions, handle.size)
    if state.input_channel_state is not None:
        yield StateFigures("", "IN FLIGHT", "data that a barrier overtook", None, state.input_channel_state.size)


def _keyed(location: SnapshotLocation, handle: AnyKeyedStateHandle) -> Iterator[StateFigures]:
    if isinstance(handle, IncrementalKeyedStateHandle):
        with location.open(handle.meta) as file:
            for info in native_meta(handle, file, location.uri).header.states:
                yield _described(info)
        return
    with location.open_unchecked(handle.handle) as file:
        reader = canonical_reader(handle, file, location.uri)
        for info in reader.header.states:
            found = _described(info)
            found.count(reader.entry_count(info), sum(reader.key_group_bytes(info).values()))
            yield found


def _described(info: StateMetaInfoSnapshot) -> StateFigures:
    kind, of, types = str(schema_of(info)).partition(" of ")
    return StateFigures(info.name, kind, types if of else "", ttl=info.ttl)


_MODES = {
    OperatorStateMode.SPLIT_DISTRIBUTE: "OPERATOR LIST",
    OperatorStateMode.UNION: "UNION LIST",
    OperatorStateMode.BROADCAST: "BROADCAST",
}


def _operator_states(location: SnapshotLocation, handle: OperatorStateHandle) -> Iterator[StateFigures]:
    with location.open_unchecked(handle.handle) as file:
        reader = OperatorStateReader(file, location.uri)
        for info in reader.states.values():
            yield StateFigures(info.name, _MODES[info.mode], type_of(info), info.entries, reader.size_of(info.name))


def type_of(info: OperatorStateInfo) -> str:
    """Return the type of an operator state's elements, or map keys and values."""
    values = serializer_from_snapshot(info.serializer).type_name
    if info.mode is not OperatorStateMode.BROADCAST:
        return values
    try:
        keys = None if info.key_type is None else TypeInformation.from_plain(info.key_type)
    except ValueError as error:
        raise unsound(what=f"the key type of state {info.name!r}: {error}") from error
    return f"{key_type_name(keys)} to {values}"


def canonical_reader(handle: KeyedStateHandle, file: Any, where: str) -> CanonicalReader:
    """Return a reader of a canonical file.

    Raises:
        RestoreError: Its format is unknown to this version of pystate.
        CorruptSnapshotError: It is damaged.
    """
    if handle.format != CANONICAL:
        raise _unknown_format(handle.format, where)
    return CanonicalReader(file, where=where)


def native_meta(handle: IncrementalKeyedStateHandle, file: Any, where: str) -> NativeMeta:
    """Return the description of a native snapshot.

    Raises:
        RestoreError: Its format is unknown to this version of pystate.
        CorruptSnapshotError: It is damaged.
    """
    if handle.format != ROCKSDB_FORMAT:
        raise _unknown_format(handle.format, where)
    return NativeMeta.read(file, where)


def _unknown_format(name: str, where: str) -> RestoreError:
    message = f"The keyed state is in the format {name!r}, which this pystate doesn't know."
    return RestoreError(message, where=where, hint="use the pystate version that wrote it, or a newer one")
