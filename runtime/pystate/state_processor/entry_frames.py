"""Entries of keyed state as DataFrames, which are written to the canonical files of a savepoint.

All ways to write keyed state produce rows (key group, state, key, sub-key, value) in the format of the files. One shuffle
sends them to the subtask that owns the key group and sorts them, so that a file is written as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import pyarrow as pa

from pystate.common.errors import SnapshotError, StateError
from pystate.common.key_groups import key_group_range
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateKind
from pystate.core.snapshot.handles.handles import StateHandle
from pystate.core.snapshot.handles.keyed_state_handle import KeyedStateHandle
from pystate.core.snapshot.operator_state import OperatorSubtaskState
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.base.state_schema import namespace_end
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalWriter, Entry, StateMetaInfoSnapshot
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.kinds.list_parts import list_parts, pack_part, part_sub_key, unpack_part
from pystate.state_processor.results import collect, result_batch, result_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENTRY_SCHEMA = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("state", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("sub_key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
INLINE_BYTES = 20 << 10
"""State of a subtask up to this size goes into `_metadata`, as in jobs."""

_SUBTASK = "subtask"
_PART_BYTES = 256 * 1024
_BATCH_ROWS = 4096
_CANONICAL = "canonical"

EntryRow = tuple[int, int, bytes, bytes, bytes]
"""Key group, number of the state, key, sub-key, value."""


@dataclass(frozen=True)
class KeyedEntries:
    """Keyed states of one operator, to be written.

    Attributes:
        key_type: The declared type of the keys; None for untyped.
        states: The description of the states in the savepoint.
        frame: Their entries, with the columns of `ENTRY_SCHEMA`; a state's number is its index in `states`.
    """

    key_type: TypeInformation | None
    states: tuple[StateMetaInfoSnapshot, ...]
    frame: DataFrame


def entry_batches(rows: Iterable[EntryRow]) -> Iterator[pa.RecordBatch]:
    """Collect entries in Arrow batches."""
    pending: list[EntryRow] = []
    for row in rows:
        pending.append(row)
        if len(pending) >= _BATCH_ROWS:
            yield _entry_batch(pending)
            pending = []
    if pending:
        yield _entry_batch(pending)


def _entry_batch(rows: list[EntryRow]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, ENTRY_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRY_SCHEMA)


def block_batch(key_groups: int | list[int], state: int, parts: list[bytes]) -> pa.RecordBatch:
    """Return the entries of a block as a batch.

    Args:
        key_groups: The key group of each entry, or of all.
        state: The number of their state.
        parts: Key, sub-key and value of one, those of the next, and so on.
    """
    count = len(parts) // 3
    numbers: list[int | list[int]] = [key_groups, state]
    arrays = [pa.array(np.full(count, number, np.int32)) for number in numbers]
    arrays = [*arrays, *(pa.array(parts[place::3], pa.binary()) for place in range(3))]
    return pa.RecordBatch.from_arrays(arrays, schema=ENTRY_SCHEMA)


def subtask_of(column: str, parallelism: int, max_parallelism: int) -> str:
    """Return the SQL expression of the subtask that owns a column's key group."""
    return f"cast(cast({column} as bigint) * {parallelism} div {max_parallelism} as int)"


def merged(uid: str, entries: Sequence[KeyedEntries]) -> KeyedEntries:
    """Return several states of one operator as one.

    Raises:
        StateError: Two have the same name, or their keys have different types.
    """
    from pyspark.sql import functions as F

    first, *rest = entries
    states, frame = list(first.states), first.frame
    for one in rest:
        if one.key_type != first.key_type:
            message = f"The states of operator {uid!r} have keys of different types."
            raise StateError(message, hint="give all of them the same key_type")
        shifted = one.frame.withColumn("state", F.col("state") + F.lit(len(states)))
        frame = frame.unionByName(shifted)
        states += one.states
    names = [name for one in entries for name in {state.name for state in one.states}]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"State {twice!r} of operator {uid!r} is written twice."
        raise StateError(message, hint="give one of them another name")
    return KeyedEntries(first.key_type, tuple(states), frame)


def write_keyed_state(
    entries: KeyedEntries, location: SnapshotLocation, prefix: str, parallelism: int, max_parallelism: int
) -> dict[int, OperatorSubtaskState]:
    """Write the keyed state of one operator.

    Args:
        entries: All entries.
        location: The directory.
        prefix: The prefix of file names.
        parallelism: The number of subtasks, and thus of files.
        max_parallelism: The number of key groups.

    Returns:
        The entries of `_metadata`, by subtask.

    Raises:
        SnapshotError: It can't be written, or a value is duplicated.
    """
    from pyspark.sql import functions as F

    target = _Target(location, prefix, entries.key_type, entries.states, parallelism, max_parallelism)
    subtask = F.expr(subtask_of("key_group", parallelism, max_parallelism))
    routed = entries.frame.withColumn(_SUBTASK, subtask).repartitionById(parallelism, F.col(_SUBTASK))
    ordered = routed.sortWithinPartitions(_SUBTASK, "key_group", "state", "key", "sub_key")
    columns = ordered.select(_SUBTASK, *ENTRY_SCHEMA.names)
    handles = collect(columns.mapInArrow(target.write_all, result_schema()))
    for index in range(parallelism):
        if index not in handles:  # a subtask without entries still covers its key groups
            handles[index] = target.write(index, ())
    return {index: OperatorSubtaskState(keyed_state=[target.described(index, handles[index])]) for index in sorted(handles)}


@dataclass(frozen=True)
class _Target:
    """Where and how entries are written."""

    location: SnapshotLocation
    prefix: str
    key_type: TypeInformation | None
    states: tuple[StateMetaInfoSnapshot, ...]
    parallelism: int
    max_parallelism: int

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the files of a Spark partition, whose rows are ordered."""
        for subtask, runs in groupby(_runs(batches), attrgetter("subtask")):
            yield result_batch(subtask, self.write(subtask, runs))

    def write(self, subtask: int, runs: Iterable[_Run]) -> StateHandle:
        """Write the file of one subtask."""
        header = CanonicalHeader(
            self.key_type,
            KEY_ENCODING,
            self.max_parallelism,
            key_group_range(subtask, self.parallelism, self.max_parallelism),
            self.states,
        )

        def write(sink: BinaryIO) -> None:
            writer = CanonicalWriter(sink, header)
            codec = KeyCodec(self.key_type)
            for (group, state), of_state in groupby(runs, attrgetter("key_group", "state")):
                info = self.states[state]
                if info.kind == StateKind.LIST.value:
                    writer.write(info.key, group, _in_order(info, codec, chain.from_iterable(map(_Run.entries, of_state))))
                    continue
                last: tuple[bytes, bytes] | None = None
                for run in of_state:
                    last = run.check_places(info, codec, last)
                    writer.write_parts(info.key, group, run.parts())
            writer.finish()

        return self.location.write_state(f"{self.prefix}-{subtask}-keyed", write, INLINE_BYTES)

    def described(self, subtask: int, handle: StateHandle) -> KeyedStateHandle:
        """Return the entry of `_metadata` for a file."""
        groups = key_group_range(subtask, self.parallelism, self.max_parallelism)
        return KeyedStateHandle(groups.start, groups.end, _CANONICAL, handle)


@dataclass(frozen=True)
class _Run:
    """Consecutive entries of one state and key group in a batch."""

    subtask: int
    key_group: int
    state: int
    keys: list[bytes]
    sub_keys: list[bytes]
    values: list[bytes]

    def entries(self) -> Iterator[Entry]:
        """Return the entries, one by one."""
        return zip(self.keys, self.sub_keys, self.values, strict=True)

    def parts(self) -> list[bytes]:
        """Return keys, sub-keys and values in turn."""
        parts = [b""] * (3 * len(self.keys))
        parts[0::3], parts[1::3], parts[2::3] = self.keys, self.sub_keys, self.values
        return parts

    def check_places(
        self, info: StateMetaInfoSnapshot, codec: KeyCodec, last: tuple[bytes, bytes] | None
    ) -> tuple[bytes, bytes]:
        """Reject duplicate addresses, also of the last one of the previous run; return the last one."""
        places = list(zip(self.keys, self.sub_keys, strict=True))
        for before, place in pairwise(places if last is None else chain((last,), places)):
            if before == place:
                raise _twice(info, codec, place[0])
        return places[-1]


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[_Run]:
    """Split ordered batches where a new subtask, key group or state begins."""
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers = [column.to_numpy() for column in batch.columns[:3]]
        differ = np.any([column[1:] != column[:-1] for column in numbers], axis=0)
        bounds = [0, *(np.flatnonzero(differ) + 1).tolist(), batch.num_rows]
        keys, sub_keys, values = (column.to_pylist() for column in batch.columns[3:])
        for start, end in pairwise(bounds):
            subtask, key_group, state = (int(column[start]) for column in numbers)
            yield _Run(subtask, key_group, state, keys[start:end], sub_keys[start:end], values[start:end])


def _in_order(info: StateMetaInfoSnapshot, codec: KeyCodec, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return the ordered entries of a list state, with parts of the proper size."""
    checked = _once(info, codec, entries)
    for (key, begin), of_address in groupby(checked, lambda entry: (entry[0], entry[1][: namespace_end(info, entry[1])])):
        elements = (element for _, _, value in of_address for element in unpack_part(value))
        for number, part in enumerate(list_parts(elements, _PART_BYTES)):
            yield key, part_sub_key(number, begin), pack_part(part)


def _once(info: StateMetaInfoSnapshot, codec: KeyCodec, entries: Iterable[Entry]) -> Iterator[Entry]:
    last: tuple[bytes, bytes] | None = None
    for key, sub_key, value in entries:
        if (key, sub_key) == last:
            raise _twice(info, codec, key)
        last = key, sub_key
        yield key, sub_key, value


def _twice(info: StateMetaInfoSnapshot, codec: KeyCodec, data: bytes) -> SnapshotError:
    key = codec.external(codec.decode(data))
    what = {StateKind.LIST.value: "a list element of one index", StateKind.MAP.value: "one map key"}
    message = f"State {info.name!r} gets {what.get(info.kind, 'a value')} of key {key!r} twice."
    return SnapshotError(message, hint="make the rows unique")
