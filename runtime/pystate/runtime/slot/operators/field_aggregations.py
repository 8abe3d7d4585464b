"""Rolling aggregations of a field on whole batches, with the same results as `reduce` element by element.

Where columns can't give exactly those results (nulls, NaN, infinity, signed zero, overflowing sums), a batch is processed
element by element.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import is_not
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pystate.common.row import Row, RowKind, kinds_are_expected
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.records.codec import RecordCodec
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.keyed import reduce_state
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, ColumnOutput, DistinctKeys, of_type
from pystate.runtime.slot.operators.number_fields import NumberField, Numbers
from pystate.runtime.slot.operators.rolling_results import RollingResults

_SHORT = 16
"""Groups of up to this many numbers are accumulated together."""


@dataclass(frozen=True)
class KeyLines:
    """The rows of a batch arranged in one array, grouped by key, each group preceded by the key's previous result.

    Attributes:
        places: The array index of each row.
        fronts: The array indexes of the previous results, in the order of the keys that have one.
        starts: The start of each key's group.
        ends: The end of each key's group.
    """

    places: Numbers
    fronts: Numbers
    starts: Numbers
    ends: Numbers

    @property
    def size(self) -> int:
        """The length of the array."""
        return len(self.places) + len(self.fronts)


def key_lines(index: Numbers, held: Sequence[bool] | Numbers) -> KeyLines:
    """Return the arrangement of a batch's rows.

    Args:
        index: The key of each row.
        held: For each key whether it has a previous result.
    """
    counts = np.bincount(index, minlength=len(held))
    known = np.array(held, dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(counts + known)[:-1]))
    order = np.argsort(index, kind="stable")
    within = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    places: Numbers = np.empty(len(index), dtype=np.int64)
    places[order] = np.repeat(starts + known, counts) + within
    return KeyLines(places, starts[known == 1], starts, starts + counts + known)


def accumulate(ufunc: np.ufunc, line: Numbers, starts: Numbers, ends: Numbers) -> None:
    """Accumulate each group of an array from its first number on: short groups together, long ones separately."""
    lengths = ends - starts
    short = lengths <= _SHORT
    for turn in range(1, _SHORT):
        at = starts[short & (lengths > turn)] + turn
        if not len(at):
            break
        line[at] = ufunc(line[at - 1], line[at])
    for start, end in zip(starts[~short].tolist(), ends[~short].tolist(), strict=True):
        line[start:end] = ufunc.accumulate(line[start:end])


class ColumnAggregation(ColumnHandler):
    """A rolling aggregation of one field.

    Args:
        field: The field and its aggregation.
        type_info: The type of the elements.
        state: The result of each key.
        columns: Receives the results.
        where: The operator's name in errors.
        epoch: Receives the last result of each key, instead of `columns`; None for all results.
    """

    needs_plain: ClassVar = True  # each result has its element timestamp; a bounded run has one per key

    def __init__(
        self,
        field: NumberField,
        type_info: TypeInformation,
        state: OverlayValueState,
        columns: ColumnOutput,
        where: str,
        epoch: EpochResults | None = None,
    ) -> None:
        self._field = field
        self._epoch = epoch
        self._columns = columns
        self._codec = RecordCodec(type_info, where)
        names = type_info.row_names if type_info.kind is TypeKind.ROW else None
        self._others = [place for place in range(len(self._codec.schema)) if place != field.at]
        self._results = RollingResults(state, field.position, len(self._codec.schema), names, field.dtype, epoch)
        self._looked_up: tuple[DistinctKeys, Numbers] | None = None  # by `unread`, for the following `process`
        if epoch is not None:
            epoch.drain_columns = self._drain

    def process(self, data: pa.RecordBatch, timestamps: pa.Array | None, distinct: DistinctKeys) -> bool:
        """Aggregate the elements of a batch, and emit the result after each."""
        assert timestamps is None  # noqa: S101 - `needs_plain` is set
        if self._aggregate(data, distinct):
            return True
        self._results.settle()
        return False

    def before_elements(self) -> None:
        """See `ColumnHandler.before_elements`."""
        self._results.settle()

    def unread(self, distinct: DistinctKeys) -> tuple[Sequence[Hashable], Sequence[int]]:
        """See `ColumnHandler.unread`."""
        places = self._results.places_of(distinct)
        self._looked_up = distinct, places
        return _at(np.flatnonzero(places < 0), distinct)

    def _aggregate(self, data: pa.RecordBatch, distinct: DistinctKeys) -> bool:
        """Aggregate the elements of a batch, or do nothing and return False."""
        field, results = self._field, self._results
        (looked_up, places), self._looked_up = self._looked_up or (None, None), None
        if looked_up is not distinct or places is None:
            places = results.places_of(distinct)
        in_memory = places >= 0
        keys, groups, others = distinct.internal, distinct.groups, np.arange(len(places))
        if in_memory.any():
            others = np.flatnonzero(~in_memory)
            keys, groups = _at(others, distinct)
        elements = results.stored(keys, groups)
        stored, in_state = elements, others
        if not all(is_stored := list(map(is_not, elements, repeat(None)))):
            stored, in_state = list(compress(elements, is_stored)), others[is_stored]
        values, of_stored = field.numbers(data), field.numbers_of(stored)
        if values is None or of_stored is None or (kinds_are_expected() and not all(map(_is_inserted, stored))):
            return False
        held = in_memory.copy()
        held[in_state] = True
        before: Numbers = np.zeros(len(places), field.dtype)
        before[in_memory], before[in_state] = results.numbers(places[in_memory]), of_stored
        if not field.are_exact(values, before[held]):
            return False
        lines = key_lines(distinct.rows, held)
        line: Numbers = np.empty(lines.size, field.dtype)
        line[lines.places], line[lines.fronts] = values, before[held]
        chosen, last = self._accumulate(lines, line, distinct, held)
        if self._epoch is None:
            numbers, rows = line[lines.places], last[distinct.rows] if chosen is None else chosen
            self._emit(data, distinct, numbers, rows, held, places, stored)
        after, count = line[lines.ends - 1], len(lines.fronts)
        is_new = last >= count  # keys whose result gets its other fields from the batch
        results.put(places[in_memory], after[in_memory])
        if is_new.any():
            better = np.flatnonzero(is_new & in_memory)
            results.replace(places[better].tolist(), self._elements(data, last[better] - count))
            made = np.flatnonzero(is_new[others])
            for place, element in zip(made.tolist(), self._elements(data, last[others[made]] - count), strict=True):
                elements[place] = element
        if self._epoch is None and not (changed := is_new[others] | (after[others] != before[others])).all():
            keys, groups, elements = (list(compress(each, changed)) for each in (keys, groups, elements))
            others = others[changed]  # results that stay as they are need not be written
        if len(others):
            results.put(results.add(keys, groups, elements), after[others])
        return True

    def _elements(self, data: pa.RecordBatch, rows: Numbers) -> list[Any]:
        return self._codec.elements_of(self._codec.decode_columns(data.take(pa.array(rows)))) if len(rows) else []

    def _accumulate(
        self, lines: KeyLines, line: Numbers, distinct: DistinctKeys, held: Numbers
    ) -> tuple[Numbers | None, Numbers]:
        """Accumulate the numbers of a batch, and return which element gives the results their other fields.

        Elements are numbered: first the previous results, in the order of their keys, then those of the batch.

        Returns:
            The element after each row, None if that is the same for all rows of a key; and the element after the last row of
            each key.
        """
        is_better, count = self._field.is_better, len(lines.fronts)
        values = line if is_better is None else line.copy()
        with np.errstate(over="ignore"):  # what is too large for a double becomes infinite, without a warning
            accumulate(self._field.ufunc, line, lines.starts, lines.ends)
        if is_better is None:
            return None, np.where(held, np.cumsum(held) - 1, count + distinct.first)
        number: Numbers = np.empty(lines.size, np.int64)
        number[lines.fronts], number[lines.places] = np.arange(count), count + np.arange(len(lines.places))
        changes: Numbers = np.zeros(lines.size, bool)
        changes[1:] = is_better(values[1:], line[:-1])
        changes[lines.starts] = True
        number = number[np.maximum.accumulate(np.where(changes, np.arange(lines.size), 0))]
        return number[lines.places], number[lines.ends - 1]

    def _emit(
        self,
        data: pa.RecordBatch,
        distinct: DistinctKeys,
        numbers: Numbers,
        chosen: Numbers,
        held: Numbers,
        places: Numbers,
        stored: list[Any],
    ) -> None:
        """Emit the result after each row: the fields of the chosen elements, and the accumulated numbers."""
        schema = self._codec.schema
        if self._others in ([], [distinct.field]):
            arrays = list(data.columns)  # the key is the same in all its elements
        else:
            previous, is_in_memory = stored, places[held] >= 0
            if is_in_memory.any():  # after an epoch's first batch
                in_memory, in_state = iter(self._results.results(places[places >= 0])), iter(stored)
                previous = [next(in_memory if there else in_state) for there in is_in_memory.tolist()]
            rows = pa.array(chosen)
            arrays = [
                pa.concat_arrays([before, of_type(column, before.type)]).take(rows)
                for before, column in zip(self._encoded(previous), data.columns, strict=True)
            ]
        arrays[self._field.at] = pa.array(numbers)
        self._columns.emit(pa.RecordBatch.from_arrays(list(map(of_type, arrays, schema.types)), schema=schema), None)

    def _encoded(self, results: list[Any]) -> list[pa.Array]:
        prepare = self._codec.prepare
        return self._codec.encode(results if prepare is None else list(map(prepare, results)))

    def _drain(self, alone: bool) -> None:
        """Emit the last result of each key, or have the keys noted after others."""
        if not alone:
            self._results.settle()
        elif results := self._results.hand_on():
            self._columns.emit(pa.RecordBatch.from_arrays(self._encoded(results), schema=self._codec.schema), None)


def _at(places: Numbers, distinct: DistinctKeys) -> tuple[list[Hashable], list[int]]:
    """Return some of the keys of a batch, and their key groups."""
    at = places.tolist()
    return list(map(distinct.internal.__getitem__, at)), list(map(distinct.groups.__getitem__, at))


def column_reduce(
    function: Any,
    type_info: TypeInformation | None,
    backend: KeyedStateBackend,
    columns: ColumnOutput,
    where: str,
    epoch: EpochResults | None = None,
) -> ColumnHandler | None:
    """Return the column handler for a reduce function; None if it must run element by element.

    Args:
        function: The function.
        type_info: The type of the elements.
        backend: The state backend.
        columns: Receives the results.
        where: The operator's name in errors.
        epoch: Receives the last result of each key; None if all results are emitted.
    """
    field = NumberField.of(function, type_info)
    if type_info is None or field is None:
        return None
    state = reduce_state(backend, type_info)
    if not isinstance(state, OverlayValueState):  # of a backend with its own state classes
        return None
    return ColumnAggregation(field, type_info, state, columns, where, epoch)


def _is_inserted(element: Any) -> bool:
    """Whether an element is no row of another kind than INSERT, which columns don't show."""
    return not isinstance(element, Row) or element.get_row_kind() is RowKind.INSERT
