"""Input splits: the part of a savepoint that each Spark task reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle, IncrementalKeyedStateHandle
from pystate.core.snapshot.operator_state import OperatorState
from pystate.core.snapshot.reading.keyed_files import open_keyed_file, open_keyed_state
from pystate.core.snapshot.reading.snapshot_reader import KeyFilter, SnapshotReader
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.core.state.files.canonical import CanonicalReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_BYTES = 32 << 20
"""A task reads key groups of about that many bytes of one file at most, and at least one."""

_LEAST_BYTES = 1 << 20
"""Splits are made no smaller than that to have one for each task that can run."""


@dataclass(frozen=True)
class KeyedSplit:
    """Some key groups of one file.

    Attributes:
        handle: The handle of the file.
        key_groups: The key groups, ascending.
    """

    handle: AnyKeyedStateHandle
    key_groups: tuple[int, ...]


def keyed_splits(
    snapshot: SnapshotReader,
    operator: OperatorState,
    states: Iterable[str] | None,
    wanted: KeyFilter | None,
    split_bytes: int,
    tasks: int = 1,
) -> list[KeyedSplit]:
    """Split the keyed state of an operator; reads only the indexes of canonical files, and nothing of native ones.

    Each native file is converted as a whole, by one task.

    Args:
        snapshot: The snapshot.
        operator: The operator.
        states: The names of the states to read; None for all.
        wanted: The keys; None for all.
        split_bytes: The approximate maximum size of a split in bytes.
        tasks: The number of concurrent tasks: splits are made smaller to have about as many, within reason.

    Raises:
        SnapshotError: A file can't be read.
    """
    names = None if states is None else set(states)
    splits = []
    canonical: list[tuple[AnyKeyedStateHandle, dict[int, int]]] = []
    for _, subtask in sorted(operator.subtasks.items()):
        for handle in subtask.keyed_state:
            if wanted is not None and not any(group in handle.key_group_range for group in wanted.by_group):
                continue
            if isinstance(handle, IncrementalKeyedStateHandle):
                groups = range(handle.start_key_group, handle.end_key_group + 1)
                splits.append(KeyedSplit(handle, tuple(one for one in groups if wanted is None or one in wanted.by_group)))
                continue
            with open_keyed_state(snapshot.location, operator, handle, partly=True) as reader:
                sizes = _sizes(reader, names)
            if wanted is not None:
                sizes = {group: size for group, size in sizes.items() if group in wanted.by_group}
            canonical.append((handle, sizes))
    total = sum(sum(sizes.values()) for _, sizes in canonical)
    limit = min(split_bytes, max(_LEAST_BYTES, -(-total // tasks)))
    splits += [KeyedSplit(handle, of_split) for handle, sizes in canonical for of_split in _cut(sizes, limit)]
    return splits


def _sizes(reader: CanonicalReader, names: set[str] | None) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for info in reader.header.states:
        if names is None or info.name in names:
            for group, size in reader.key_group_bytes(info).items():
                sizes[group] = sizes.get(group, 0) + size
    return sizes


def _cut(sizes: dict[int, int], limit: int) -> Iterator[tuple[int, ...]]:
    groups: list[int] = []
    size = 0
    for group in sorted(sizes):
        groups.append(group)
        size += sizes[group]
        if size >= limit:
            yield tuple(groups)
            groups, size = [], 0
    if groups:
        yield tuple(groups)


@dataclass(frozen=True)
class SplitSource:
    """Opens splits in a task.

    Attributes:
        location: The savepoint's directory.
        operator: The operator of the state, without its handles.
    """

    location: SnapshotLocation
    operator: OperatorState

    @staticmethod
    def of(snapshot: SnapshotReader, operator: OperatorState) -> SplitSource:
        """Return the source of an operator's splits."""
        return SplitSource(snapshot.location, replace(operator, subtasks={}))

    @contextmanager
    def open(self, split: KeyedSplit) -> Iterator[tuple[CanonicalReader, BinaryIO]]:
        """Open the file of a split.

        Raises:
            SnapshotError: It can't be read.
        """
        with open_keyed_file(self.location, self.operator, split.handle, partly=True) as opened:
            yield opened


def tasks_of(spark: SparkSession) -> int:
    """Return the number of concurrent tasks."""
    return max(1, spark.sparkContext.defaultParallelism)


def frame_of(
    spark: SparkSession, items: Sequence[Any], schema: pa.Schema, read: Callable[[Any], Iterator[pa.RecordBatch]]
) -> DataFrame:
    """Return a DataFrame of the rows that a function reads for each item, with a task per item."""
    from pyspark.sql.pandas.types import from_arrow_schema

    fixed = list(items)

    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read(fixed[number])

    count = len(fixed)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(stage, from_arrow_schema(schema))
