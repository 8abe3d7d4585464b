"""Reuses state of an existing savepoint in a new one: copies files, or rewrites them for other key groups."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from pystate.common.errors import CorruptSnapshotError
from pystate.common.key_groups import key_group
from pystate.core.snapshot.handles.handles import ByteStreamStateHandle, FileStateHandle, StateHandle
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle, IncrementalKeyedStateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.handles.operator_state_handle import OperatorStateHandle
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.operator_state import OperatorState, OperatorSubtaskState
from pystate.core.snapshot.reading.keyed_files import key_type_of, open_keyed_file, place_of
from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.files.canonical import StateMetaInfoSnapshot
from pystate.core.state.keys.key_columns import key_groups_of
from pystate.core.state.not_in_columns import NotInColumnsError, require
from pystate.core.state.operator.format import OperatorStateMode
from pystate.state_processor.entry_frames import ENTRY_SCHEMA, KeyedEntries, block_batch
from pystate.state_processor.results import collect, result_batch, result_schema
from pystate.state_processor.splits import SPLIT_BYTES, KeyedSplit, SplitSource, frame_of, keyed_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CANONICAL = "canonical"
_CHUNK_BYTES = 1 << 20
_FEW_BYTES = 16 << 20


@dataclass(frozen=True)
class _Copy:
    """A file to copy, or a backend's native files to convert to a canonical one."""

    operator: OperatorState
    handle: StateHandle | IncrementalKeyedStateHandle
    name: str


class StateCopier:
    """Copies state into a new savepoint's directory, in Spark's tasks.

    Args:
        spark: The session.
        source: The old savepoint.
        target: The new directory.
    """

    def __init__(self, spark: SparkSession, source: SnapshotReader, target: SnapshotLocation) -> None:
        self._spark = spark
        self._source = source.location
        self._target = target

    def copy(self, operators: list[tuple[OperatorState, str]]) -> list[OperatorState]:
        """Copy the state of operators to the new directory, and return them.

        Args:
            operators: The operators, each with the prefix of its file names.

        Raises:
            CorruptSnapshotError: A file is missing or damaged.
            SnapshotError: A file can't be read or written.
        """
        wanted: list[_Copy] = []
        for operator, prefix in operators:
            bare = replace(operator, subtasks={})
            for index, state in sorted(operator.subtasks.items()):
                for kind, handle in _handles(state):
                    if not isinstance(handle, ByteStreamStateHandle):
                        wanted.append(_Copy(bare, handle, f"{prefix}-{index}-{kind}"))
        copied = self._copy_all(wanted)
        found = iter(copied)
        return [_with_handles(operator, found) for operator, _ in operators]

    def copy_file(self, handle: StateHandle, name: str) -> StateHandle:
        """Copy a file to the new directory, and return its handle."""
        if isinstance(handle, ByteStreamStateHandle):
            return handle
        return _copy_file(self._source, handle, self._target, name)

    def _copy_all(self, wanted: list[_Copy]) -> list[StateHandle]:
        if not wanted:
            return []
        source, target = self._source, self._target
        if all(not isinstance(one.handle, IncrementalKeyedStateHandle) for one in wanted):
            files = [(one.handle, one.name) for one in wanted if not isinstance(one.handle, IncrementalKeyedStateHandle)]
            if sum(handle.size for handle, _ in files) <= _FEW_BYTES:  # too small for a Spark job
                return [_copy_file(source, handle, target, name) for handle, name in files]

        def copy(item: tuple[int, _Copy]) -> Iterator[pa.RecordBatch]:
            number, one = item
            if isinstance(one.handle, IncrementalKeyedStateHandle):
                with open_keyed_file(source, one.operator, one.handle) as (_, file):
                    yield result_batch(number, target.write_state(one.name, _copier(file), 0))
            else:
                yield result_batch(number, _copy_file(source, one.handle, target, one.name))

        frame = frame_of(self._spark, list(enumerate(wanted)), _result_arrow_schema(), copy)
        handles = collect(frame)
        return [handles[number] for number in range(len(wanted))]


def _result_arrow_schema() -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(result_schema())


def _copy_file(source: SnapshotLocation, handle: StateHandle, target: SnapshotLocation, name: str) -> StateHandle:
    with source.open_unchecked(handle) as file:
        copied = target.write_state(name, _copier(file), 0)
    if (copied.size, copied.crc32) != (handle.size, handle.crc32):
        if isinstance(copied, FileStateHandle):
            target.remove(copied.path)
        where = place_of(source, handle)
        message = f"A file of the snapshot is damaged, its checksum is wrong: {where}."
        raise CorruptSnapshotError(message, where=where, hint="read another checkpoint or savepoint")
    return copied


def _copier(file: BinaryIO) -> Callable[[BinaryIO], None]:
    def copy(sink: BinaryIO) -> None:
        file.seek(0)
        shutil.copyfileobj(file, sink, _CHUNK_BYTES)

    return copy


def _handles(state: OperatorSubtaskState) -> Iterator[tuple[str, StateHandle | IncrementalKeyedStateHandle]]:
    for keyed in state.keyed_state:
        yield "keyed", keyed if isinstance(keyed, IncrementalKeyedStateHandle) else keyed.handle
    for operator in state.operator_state:
        yield "operator", operator.handle
    for raw_keyed in state.raw_keyed_state:
        yield "raw-keyed", raw_keyed.handle
    for raw in state.raw_operator_state:
        yield "raw-operator", raw.handle


def _with_handles(operator: OperatorState, copied: Iterator[StateHandle]) -> OperatorState:
    def moved(handle: StateHandle) -> StateHandle:
        return handle if isinstance(handle, ByteStreamStateHandle) else next(copied)

    def moved_keyed(one: AnyKeyedStateHandle) -> AnyKeyedStateHandle:
        if isinstance(one, IncrementalKeyedStateHandle):
            return KeyedStateHandle(one.start_key_group, one.end_key_group, _CANONICAL, next(copied))
        return replace(one, handle=moved(one.handle))

    subtasks = {}
    for index, state in sorted(operator.subtasks.items()):
        subtasks[index] = OperatorSubtaskState(
            [moved_keyed(one) for one in state.keyed_state],
            [replace(one, handle=moved(one.handle)) for one in state.operator_state],
            [replace(one, handle=moved(one.handle)) for one in state.raw_keyed_state],
            [replace(one, handle=moved(one.handle)) for one in state.raw_operator_state],
        )
    return replace(operator, subtasks=subtasks)


def rehashed(spark: SparkSession, snapshot: SnapshotReader, operator: OperatorState, max_parallelism: int) -> KeyedEntries:
    """Return the keyed state of an operator for another number of key groups.

    Raises:
        SnapshotError: A file can't be read.
    """
    described = snapshot.described_states(operator.uid)
    states = tuple(replace(part, part=number) for state in described for number, part in enumerate(state.parts))
    splits = keyed_splits(snapshot, operator, None, None, SPLIT_BYTES)
    task = _Rehash(SplitSource.of(snapshot, operator), [info.schema for info in states], max_parallelism)
    return KeyedEntries(key_type_of(operator), states, frame_of(spark, splits, ENTRY_SCHEMA, task))


@dataclass(frozen=True)
class _Rehash:
    """Reads entries with their new key groups."""

    source: SplitSource
    schemas: list[StateMetaInfoSnapshot]
    max_parallelism: int

    def __call__(self, split: KeyedSplit) -> Iterator[pa.RecordBatch]:
        """Read a split."""
        with self.source.open(split) as (reader, _):
            for info in reader.header.states:
                number = self.schemas.index(info.schema)
                for group in split.key_groups:
                    for block in reader.blocks(info, group):
                        yield block_batch(self._key_groups(block[0::3]), number, block)

    def _key_groups(self, keys: list[bytes]) -> list[int]:
        try:
            require(all(keys))
            groups: list[int] = key_groups_of(pa.array(keys, pa.binary()), self.max_parallelism).tolist()
            return groups
        except NotInColumnsError:
            return [key_group(key[0], key[1:], self.max_parallelism) for key in keys]


def file_names(metadata: CheckpointMetadata) -> set[str]:
    """Return the names of files in the savepoint's directory that `_metadata` refers to."""
    handles = [handle for one in metadata.operators for state in one.subtasks.values() for _, handle in _handles(state)]
    files = [handle for handle in handles if isinstance(handle, FileStateHandle)]
    if metadata.source_position is not None and isinstance(metadata.source_position.files, FileStateHandle):
        files.append(metadata.source_position.files)
    return {file.path for file in files}


def joined(
    first: dict[int, OperatorSubtaskState], second: dict[int, OperatorSubtaskState]
) -> dict[int, OperatorSubtaskState]:
    """Return the combined state of both, by subtask."""
    found = {}
    for index in sorted({*first, *second}):
        a, b = first.get(index, OperatorSubtaskState()), second.get(index, OperatorSubtaskState())
        found[index] = OperatorSubtaskState(
            [*a.keyed_state, *b.keyed_state],
            [*a.operator_state, *b.operator_state],
            [*a.raw_keyed_state, *b.raw_keyed_state],
            [*a.raw_operator_state, *b.raw_operator_state],
        )
    return found


def narrowed(operator: OperatorState, parallelism: int) -> OperatorState:
    """Return an operator with at most this many subtasks.

    The last one takes over the non-keyed state of dropped subtasks; broadcast state it already has.
    """
    if operator.parallelism <= parallelism:
        return operator
    subtasks: dict[int, OperatorSubtaskState] = {}
    for index, state in sorted(operator.subtasks.items()):
        taken = state if index < parallelism else replace(state, operator_state=_without_broadcast(state.operator_state))
        subtasks = joined(subtasks, {min(index, parallelism - 1): taken})
    return replace(operator, parallelism=parallelism, subtasks=subtasks)


def _without_broadcast(handles: list[OperatorStateHandle]) -> list[OperatorStateHandle]:
    found = []
    for handle in handles:
        states = {name: info for name, info in handle.states.items() if info.mode is not OperatorStateMode.BROADCAST}
        if states:
            found.append(replace(handle, states=states))
    return found
