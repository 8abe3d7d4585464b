"""`sum`, `min` and `max` of a field on whole batches, with the same results as `reduce` element by element.

Where columns can't give exactly those results (nulls, NaN, infinity, signed zero, overflowing sums), a batch is processed
element by element.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pystate.common.row import rows_of
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.aggregation import AccumulateType
from pystate.core.records.codec import RecordCodec
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, ColumnOutput, DistinctKeys
from pystate.runtime.slot.operators.operator_output import Emit
from pystate.runtime.slot.operators.rolling_results import RollingResults

NUMBERS: dict[TypeKind, tuple[type, int]] = {
    TypeKind.SHORT: (np.int64, 1 << 15),
    TypeKind.INT: (np.int64, 1 << 31),
    TypeKind.LONG: (np.int64, 1 << 62),
    TypeKind.DOUBLE: (np.float64, 0),
}
"""The field types that are aggregated by columns: numpy's type, and the bound below which all sums of integers must stay."""

UFUNCS: dict[AccumulateType, np.ufunc] = {
    AccumulateType.SUM: np.add,
    AccumulateType.MIN: np.minimum,
    AccumulateType.MAX: np.maximum,
}

_SHORT = 16
"""Groups of up to this many numbers are accumulated together."""

Numbers = npt.NDArray[Any]


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


class OneByOne:
    """Processes batches element by element that columns can't process.

    Args:
        type_info: The type of the elements.
        backend: The state backend.
        handle: Processes an element under its key.
        where: The operator's name in errors.
    """

    def __init__(self, type_info: TypeInformation, backend: KeyedStateBackend, handle: Emit, where: str) -> None:
        self._codec = RecordCodec(type_info, where)
        self._backend = backend
        self._handle = handle

    def process(self, data: pa.RecordBatch, distinct: DistinctKeys) -> None:
        """Process the elements of a batch."""
        context = self._backend.key_context
        for place, element in zip(distinct.index.to_pylist(), self._codec.decode(data), strict=True):
            context.set_current_key(distinct.internal[place], distinct.groups[place])
            self._handle(element)


class ColumnAggregation(ColumnHandler):
    """A rolling aggregation of one field.

    Args:
        kind: SUM, MIN or MAX.
        position: The position of the field; None for elements that are the field themselves.
        type_info: The type of the elements.
        state: The result of each key.
        columns: Receives the results.
        one_by_one: Processes the batches that columns can't process.
        where: The operator's name in errors.
        epoch: Receives the last result of each key, instead of `columns`; None for all results.
    """

    needs_plain: ClassVar = True  # each result has its element timestamp; a bounded run has one per key

    def __init__(
        self,
        kind: AccumulateType,
        position: int | None,
        type_info: TypeInformation,
        state: OverlayValueState,
        columns: ColumnOutput,
        one_by_one: OneByOne,
        where: str,
        epoch: EpochResults | None = None,
    ) -> None:
        self._ufunc = UFUNCS[kind]
        self._sums = kind is AccumulateType.SUM
        self._position = position
        self._at = position or 0
        self._dtype, self._limit = numbers_of(type_info, position)
        self._epoch = epoch
        self._columns = columns
        self._one_by_one = one_by_one
        self._codec = RecordCodec(type_info, where)
        names = type_info.row_names if type_info.kind is TypeKind.ROW else None
        self._results = RollingResults(state, position, len(self._codec.schema), names, self._dtype, epoch)
        self._looked_up: tuple[DistinctKeys, Numbers] | None = None  # by `unread`, for the following `process`
        if epoch is not None:
            epoch.read_from(state, self._drain)

    def process(self, data: pa.RecordBatch, timestamps: pa.Array | None, distinct: DistinctKeys) -> None:
        """Aggregate the elements of a batch, and emit the result after each."""
        assert timestamps is None  # noqa: S101 - `needs_plain` is set
        column = data.column(self._at)
        rolled = None if column.null_count else self._rolled(data, column, distinct)
        if rolled is None:
            self._results.settle()
            self._one_by_one.process(data, distinct)
            return
        rolling, places = rolled
        if self._epoch is not None:
            return
        arrays = self._other_columns(data, distinct, places)
        arrays[self._at] = pa.array(rolling, type=self._codec.schema.field(self._at).type)
        self._columns.emit(pa.RecordBatch.from_arrays(arrays, schema=self._codec.schema), None)

    def unread(self, distinct: DistinctKeys) -> tuple[Sequence[Hashable], Sequence[int]]:
        """See `ColumnHandler.unread`."""
        self._looked_up = distinct, self._results.places_of(distinct)
        unknown = np.flatnonzero(self._looked_up[1] < 0).tolist()
        return [distinct.internal[place] for place in unknown], [distinct.groups[place] for place in unknown]

    def _other_columns(self, data: pa.RecordBatch, distinct: DistinctKeys, places: Numbers) -> list[pa.Array]:
        """Return the columns of all result rows; the aggregated field's column is a placeholder."""
        fields = range(len(self._codec.schema))
        if all(field in (self._at, distinct.field) for field in fields):  # then the key is the same in all its elements
            return [data.column(field).cast(self._codec.schema.field(field).type) for field in fields]
        return [array.take(distinct.index) for array in self._encoded(self._results.results(places))]

    def _encoded(self, results: list[Any]) -> list[pa.Array]:
        prepare = self._codec.prepare
        return self._codec.encode(results if prepare is None else list(map(prepare, results)))

    def _drain(self, alone: bool) -> None:
        """Emit the last result of each key, or have the keys noted after others."""
        if not alone:
            self._results.settle()
        elif results := self._results.hand_on():
            self._columns.emit(pa.RecordBatch.from_arrays(self._encoded(results), schema=self._codec.schema), None)

    def _rolled(self, data: pa.RecordBatch, column: pa.Array, distinct: DistinctKeys) -> tuple[Numbers, Numbers] | None:
        """Return the field's result after each row, and the places of the keys' results; None if columns can't be used."""
        values = column.to_numpy(zero_copy_only=False).astype(self._dtype)
        looked_up, self._looked_up = self._looked_up, None
        is_known = looked_up is not None and looked_up[0] is distinct
        places = looked_up[1] if is_known and looked_up is not None else self._results.places_of(distinct)
        known = places >= 0
        unknown = np.flatnonzero(~known).tolist()
        keys, groups = [distinct.internal[at] for at in unknown], [distinct.groups[at] for at in unknown]
        elements = self._results.stored(keys, groups)
        before: Numbers = np.zeros(len(places), self._dtype)
        before[known] = self._results.numbers(places[known])
        loaded = [at for at, element in enumerate(elements) if element is not None]
        if loaded:
            found, at_loaded = [elements[at] for at in loaded], [unknown[at] for at in loaded]
            try:
                before[at_loaded] = found if self._position is None else [element[self._position] for element in found]
            except (OverflowError, TypeError, ValueError):  # None, or a number in restored state
                return None
            known[at_loaded] = True
        if not self._is_safe(values, before[known]):
            return None
        if len(loaded) < len(elements):
            new = [at for at, element in enumerate(elements) if element is None]
            first = data.take(pa.array(distinct.first[[unknown[at] for at in new]]))
            for at, element in zip(new, self._codec.decode(first), strict=True):
                elements[at] = element
        places[unknown] = self._results.add(keys, groups, elements)
        lines = key_lines(distinct.rows, known)
        line: Numbers = np.empty(lines.size, dtype=self._dtype)
        line[lines.places] = values
        line[lines.fronts] = before[known]
        with np.errstate(over="ignore"):  # what is too large for a double becomes infinite, without a warning
            accumulate(self._ufunc, line, lines.starts, lines.ends)
        self._results.put(places, line[lines.ends - 1])
        return line[lines.places], places

    def _is_safe(self, values: Numbers, before: Numbers) -> bool:
        """Return whether columns give the same results as Python's operators."""
        if self._dtype is np.int64:
            largest = max((abs(int(part.min())) + abs(int(part.max())) for part in (values, before) if len(part)), default=0)
            return not self._sums or largest * (len(values) + 1) < self._limit
        return are_plain_doubles(np.concatenate((values, before)))


def numbers_of(type_info: TypeInformation, position: int | None) -> tuple[type, int]:
    """Return the entry of `NUMBERS` for a field."""
    return NUMBERS[(type_info if position is None else type_info.elements[position]).kind]


def are_plain_doubles(numbers: Numbers) -> bool:
    """Return whether numpy compares these doubles as Python does: no NaN, no infinity, no signed zero."""
    return bool(np.isfinite(numbers).all()) and not (np.signbit(numbers) & (numbers == 0)).any()


def with_field(elements: Sequence[Any], place: int, values: Sequence[Any], names: tuple[str, ...] | None) -> list[Any]:
    """Return elements with the values of one field replaced.

    Args:
        elements: Tuples or rows.
        place: The index of the field.
        values: The new value of each element.
        names: The field names of rows; None for tuples.
    """
    columns = list(zip(*elements, strict=True))
    columns[place] = tuple(values)
    return list(zip(*columns, strict=True)) if names is None else rows_of(names, columns)


def position_of(field: int | str, type_info: TypeInformation) -> int | None:
    """Return the position of a field; None if it doesn't exist."""
    if isinstance(field, str):
        return list(type_info.names or ()).index(field) if field in (type_info.names or ()) else None
    return field % len(type_info.elements) if -len(type_info.elements) <= field < len(type_info.elements) else None
