"""The metrics of subtasks by column, as the file of checkpoint statistics has them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any, TypeAlias

from pystate.common.overrides import override
from pystate.core.snapshot.plain import take, unsound
from pystate.runtime.checkpoint.stats.plain_stats import packed, unpacked
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics

NAMES = tuple(one.name for one in fields(SubtaskCheckpointMetrics))
"""The columns."""

_TIME, _MAYBE = "ack_timestamp", "alignment_ms"
_LATER = {"unaligned": 0, "buffered_data": 0}
"""The defaults of columns that older files don't have."""

Column: TypeAlias = Any
"""A number that all subtasks share, or a row with one for each: an array, or a list where some are None."""


class SubtaskColumns(Mapping[int, SubtaskCheckpointMetrics]):
    """The metrics of a task's subtasks, of which each is put together when it is asked for.

    A thousand checkpoints of two hundred subtasks are a few megabytes so, and are read in a fraction of a second.

    Args:
        indices: The subtasks, in order.
        columns: The numbers of each by name; times of acknowledgements count from `triggered`.
        triggered: When the checkpoint was triggered, ms since 1970.
    """

    def __init__(self, indices: Sequence[int], columns: Mapping[str, Column], triggered: int) -> None:
        self._indices = indices
        self._columns = columns
        self._triggered = triggered
        self._places = indices if isinstance(indices, range) else {index: place for place, index in enumerate(indices)}

    @classmethod
    def of(cls, subtasks: Mapping[int, SubtaskCheckpointMetrics], triggered: int) -> SubtaskColumns:
        """Return metrics by column.

        Args:
            subtasks: The metrics.
            triggered: When the checkpoint was triggered, ms since 1970.
        """
        if isinstance(subtasks, cls):
            return subtasks
        indices = sorted(subtasks)
        rows = {name: [getattr(subtasks[index], name) for index in indices] for name in NAMES}
        rows[_TIME] = [at - triggered for at in rows[_TIME]]
        whole = indices == list(range(len(indices)))
        return cls(range(len(indices)) if whole else indices, {name: _dense(row) for name, row in rows.items()}, triggered)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any], indices: Sequence[int], triggered: int) -> SubtaskColumns:
        """Read what `to_plain` gave.

        Raises:
            CorruptSnapshotError: It is something else.
        """
        if any(first >= second for first, second in pairwise(indices)):
            raise unsound(what="the subtasks that have acknowledged are in no order")
        given = {**_LATER, **data}
        try:
            columns = {name: _dense(unpacked(take(given, name), len(indices), name, gaps=name == _MAYBE)) for name in NAMES}
        except OverflowError:
            raise unsound(what="a subtask's number is too large") from None
        return cls(indices, columns, triggered)

    def to_plain(self) -> dict[str, Any]:
        """Return them as plain data: most numbers are equal or short."""
        return {name: list(row) if isinstance(row, array) else row for name, row in self._columns.items()}

    def aligned_in(self, milliseconds: int) -> SubtaskColumns:
        """Return them with that duration of the alignment wherever it is unknown."""
        row = self._columns[_MAYBE]
        if isinstance(row, list):
            row = [milliseconds if one is None else one for one in row]
        return SubtaskColumns(
            self._indices, {**self._columns, _MAYBE: milliseconds if row is None else row}, self._triggered
        )

    def column(self, name: str) -> Sequence[Any]:
        """Return one number of each subtask."""
        row = self._columns[name]
        numbers = row if isinstance(row, (array, list)) else [row] * len(self._indices)
        return [self._triggered + after for after in numbers] if name == _TIME else numbers

    @override
    def __getitem__(self, index: int) -> SubtaskCheckpointMetrics:
        if index not in self._places:
            raise KeyError(index)
        place = self._places[index]
        values = {name: row[place] if isinstance(row, (array, list)) else row for name, row in self._columns.items()}
        values[_TIME] += self._triggered
        return SubtaskCheckpointMetrics(**values)

    @override
    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    @override
    def __len__(self) -> int:
        return len(self._indices)


def column_of(subtasks: Mapping[int, SubtaskCheckpointMetrics], name: str) -> Sequence[Any]:
    """Return one number of each subtask."""
    if isinstance(subtasks, SubtaskColumns):
        return subtasks.column(name)
    return [getattr(one, name) for one in subtasks.values()]


def _dense(row: list[Any]) -> Column:
    """Return numbers in little memory: one that all share alone, others as machine words where none is missing."""
    kept = packed(row)
    return array("q", kept) if isinstance(kept, list) and None not in kept else kept
