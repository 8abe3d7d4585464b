"""Entries of keyed state as DataFrames, and from there into the canonical files of a savepoint.

Every way to write keyed state comes down to rows (key group, state, key, sub-key, value) as they stand in the files. One
shuffle brings them to the subtask that owns the key group and sorts them, so that a file is written as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from pystate.api.state import StateKind
from pystate.common.errors import SnapshotError, StateError
from pystate.common.key_groups import key_group_range
from pystate.common.type_info import TypeInformation
from pystate.snapshot.handles import StateHandle
from pystate.snapshot.keyed_state_handle import KeyedStateHandle
from pystate.snapshot.metadata import OperatorSubtaskState
from pystate.snapshot.storage import SnapshotLocation
from pystate.state.base.canonical import CanonicalHeader, CanonicalWriter, Entry, StateMetaInfoSnapshot
from pystate.state.base.keys import KEY_ENCODING, KeyCodec
from pystate.state.base.list_parts import list_parts, pack_part, part_sub_key, unpack_part
from pystate.state.base.schema import namespace_end
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
    """Some keyed states of one operator, to be written.

    Attributes:
        key_type: The declared type of the keys, None for untyped.
        states: What the savepoint says of the states.
        frame: Their entries, with the columns of `ENTRY_SCHEMA`; a state's number is its place in `states`.
    """

    key_type: TypeInformation | None
    states: tuple[StateMetaInfoSnapshot, ...]
    frame: DataFrame


def entry_batches(rows: Iterable[EntryRow]) -> Iterator[pa.RecordBatch]:
    """Gather entries in Arrow batches."""
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


def subtask_of(column: str, parallelism: int, max_parallelism: int) -> str:
    """Return the SQL expression of the subtask that owns the key group in a column."""
    return f"cast(cast({column} as bigint) * {parallelism} div {max_parallelism} as int)"


def merged(uid: str, entries: Sequence[KeyedEntries]) -> KeyedEntries:
    """Return several states of one operator as one.

    Raises:
        StateError: Two have one name, or their keys are of different types.
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
        entries: All of it.
        location: Where.
        prefix: How the names of its files begin.
        parallelism: How many subtasks, that is files, there are.
        max_parallelism: The number of key groups.

    Returns:
        By subtask, what `_metadata` says.

    Raises:
        SnapshotError: It can't be written, or a value is there twice.
    """
    from pyspark.sql import functions as F

    target = _Target(location, prefix, entries.key_type, entries.states, parallelism, max_parallelism)
    subtask = F.expr(subtask_of("key_group", parallelism, max_parallelism))
    routed = entries.frame.withColumn(_SUBTASK, subtask).repartitionById(parallelism, F.col(_SUBTASK))
    ordered = routed.sortWithinPartitions(_SUBTASK, "key_group", "state", "key", "sub_key")
    columns = ordered.select(_SUBTASK, *ENTRY_SCHEMA.names)
    handles = collect(columns.mapInArrow(target.write_all, result_schema()))
    for index in range(parallelism):
        if index not in handles:  # a subtask without entries still stands for its key groups
            handles[index] = target.write(index, ())
    return {index: OperatorSubtaskState(keyed_state=[target.described(index, handles[index])]) for index in sorted(handles)}


@dataclass(frozen=True)
class _Target:
    """Where and as what entries are written."""

    location: SnapshotLocation
    prefix: str
    key_type: TypeInformation | None
    states: tuple[StateMetaInfoSnapshot, ...]
    parallelism: int
    max_parallelism: int

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the files of a Spark partition; its rows are ordered."""
        rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        for subtask, of_subtask in groupby(rows, itemgetter(0)):
            yield result_batch(subtask, self.write(subtask, (row[1:] for row in of_subtask)))

    def write(self, subtask: int, rows: Iterable[Any]) -> StateHandle:
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
            for (group, state), of_state in groupby(rows, itemgetter(0, 1)):
                info = self.states[state]
                writer.write(info.key, group, _in_order(info, codec, (row[2:] for row in of_state)))
            writer.finish()

        return self.location.write_state(f"{self.prefix}-{subtask}-keyed", write, INLINE_BYTES)

    def described(self, subtask: int, handle: StateHandle) -> KeyedStateHandle:
        """Return what `_metadata` says of a file."""
        groups = key_group_range(subtask, self.parallelism, self.max_parallelism)
        return KeyedStateHandle(groups.start, groups.end, _CANONICAL, handle)


def _in_order(info: StateMetaInfoSnapshot, codec: KeyCodec, entries: Iterable[Entry]) -> Iterator[Entry]:
    """Return ordered entries; parts of a list are made as large as they should be."""
    checked = _once(info, codec, entries)
    if info.kind != StateKind.LIST.value:
        yield from checked
        return
    for (key, begin), of_address in groupby(checked, lambda entry: (entry[0], entry[1][: namespace_end(info, entry[1])])):
        elements = (element for _, _, value in of_address for element in unpack_part(value))
        for number, part in enumerate(list_parts(elements, _PART_BYTES)):
            yield key, part_sub_key(number, begin), pack_part(part)


def _once(info: StateMetaInfoSnapshot, codec: KeyCodec, entries: Iterable[Entry]) -> Iterator[Entry]:
    last: tuple[bytes, bytes] | None = None
    for entry in entries:
        place = entry[0], entry[1]
        if place == last:
            key = codec.external(codec.decode(entry[0]))
            what = {StateKind.LIST.value: "a list element of one index", StateKind.MAP.value: "one map key"}
            message = f"State {info.name!r} gets {what.get(info.kind, 'a value')} of key {key!r} twice."
            raise SnapshotError(message, hint="make the rows unique")
        last = place
        yield entry
