"""Selects the subtasks of the next task that get each row of a batch, see `Routing` (Flink's ChannelSelector)."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pystate.common.errors import ControlError
from pystate.core.records.codec import KEY_GROUP_FIELD, PARTITION_FIELD
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.channels import TaskChannels
from pystate.runtime.plan.task_output import OutputSpec, Routing

Groups = TypeVar("Groups")

Share = tuple[int, pa.RecordBatch]
"""A subtask index, and the rows for that subtask."""

_KEY_GROUPS = pa.field(KEY_GROUP_FIELD, pa.int32())

_MOST_KNOWN_KEYS = 200_000
"""The number of cached keys; a key group takes some 2 us to compute, and 60 ns to look up."""

_FEW = 32
"""So few rows are split by Python: what of NumPy and Arrow would do it is no longer in a processor's cache after a pause."""


def channel_selector(edge: OutputSpec, target: TaskChannels, subtask: int) -> Callable[[pa.RecordBatch], Iterator[Share]]:
    """Return the function that splits the batches of an edge.

    Args:
        edge: The edge.
        target: The task that the edge leads to.
        subtask: The index of the sending subtask.
    """
    count = target.parallelism
    if edge.routing is Routing.KEY:
        if edge.key is None:
            message = f"The edge {edge.name!r} has no key."
            raise ControlError(message)
        return KeyGroupSelector(edge.key, target).select
    if edge.routing in (Routing.BROADCAST, Routing.WATERMARK):
        return lambda batch: ((index, batch) for index in range(count))
    if edge.routing is Routing.FORWARD:
        return lambda batch: iter([(subtask % count, batch)])
    if edge.routing is Routing.GLOBAL or (count == 1 and edge.routing is not Routing.CUSTOM):
        return lambda batch: iter([(0, batch)])
    if edge.routing is Routing.CUSTOM:
        return lambda batch: _split(batch, np.asarray(batch.column(PARTITION_FIELD)), count)
    if edge.routing is Routing.SHUFFLE:
        generator = np.random.default_rng(random.SystemRandom().getrandbits(64))
        return lambda batch: _split(batch, generator.integers(0, count, batch.num_rows), count)
    return _Turns(count, subtask).select


class KeyGroupSelector:
    """Sends each row, with its key group, to the owner of that key group.

    Args:
        key: The position of the key in the rows.
        target: The task that the rows are for.
    """

    def __init__(self, key: KeyColumn, target: TaskChannels) -> None:
        self._column = key.column
        self._target = target
        self._codec = KeyCodec(key.key_type)
        self._decode = key.decoder(self._codec)
        self._known: dict[Hashable, int] = {}

    def select(self, batch: pa.RecordBatch) -> Iterator[Share]:
        """Yield the rows for each subtask that gets any, with their key groups."""
        keys = self._decode(batch.column(self._column))
        count, most = self._target.parallelism, self._target.max_parallelism
        if len(keys) <= _FEW:
            few = self._groups(keys, list)
            with_groups = batch.append_column(_KEY_GROUPS, pa.array(few, pa.int32()))
            return _split_few(with_groups, [group * count // most for group in few])
        groups = self._groups(keys, lambda found: np.fromiter(found, np.int32, len(keys)))
        with_groups = batch.append_column(_KEY_GROUPS, pa.array(groups))
        return _split(with_groups, groups.astype(np.int64) * count // most, count)

    def _groups(self, keys: list[Any], collect: Callable[[Iterator[int]], Groups]) -> Groups:
        known = self._known
        try:
            return collect(map(known.__getitem__, keys))
        except KeyError:
            if len(known) > _MOST_KNOWN_KEYS:
                known.clear()
            most, key_group = self._target.max_parallelism, self._codec.key_group
            for key in set(keys).difference(known):
                known[key] = key_group(key, most)
            return collect(map(known.__getitem__, keys))


class _Turns:
    """Distributes rows to the subtasks round-robin."""

    def __init__(self, count: int, first: int) -> None:
        self._count = count
        self._next = first

    def select(self, batch: pa.RecordBatch) -> Iterator[Share]:
        """Yield the rows for each subtask that gets any."""
        numbers = (self._next + np.arange(batch.num_rows)) % self._count
        self._next = (self._next + batch.num_rows) % self._count
        return _split(batch, numbers, self._count)


def _split(batch: pa.RecordBatch, owners: Any, count: int) -> Iterator[Share]:
    """Yield the rows of each owner, in order."""
    if not batch.num_rows:
        return
    lowest, highest = int(owners.min()), int(owners.max())
    if lowest < 0 or highest >= count:
        message = f"Rows for subtasks {lowest} to {highest} of a task with {count}."
        raise ControlError(message)
    if lowest == highest:
        yield lowest, batch
        return
    for index in range(lowest, highest + 1):
        rows = np.flatnonzero(owners == index)
        if len(rows):
            yield index, batch.take(pa.array(rows))


def _split_few(batch: pa.RecordBatch, owners: list[int]) -> Iterator[Share]:
    """Yield the rows of each owner, in order, as `_split` does."""
    for index in sorted(set(owners)):
        rows = [row for row, owner in enumerate(owners) if owner == index]
        if len(rows) == len(owners):
            yield index, batch
        elif rows[-1] - rows[0] < len(rows):
            yield index, batch.slice(rows[0], len(rows))
        else:
            yield index, batch.take(pa.array(rows))
