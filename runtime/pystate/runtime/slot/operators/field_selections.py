"""`min_by` and `max_by` of a field on whole batches, with the same results as `reduce` element by element.

Where columns can't give exactly those results (nulls, NaN, infinity, signed zero), a batch is processed element by element.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from pystate.common.type_info import TypeInformation
from pystate.core.api.aggregation import AccumulateType
from pystate.core.records.codec import RecordCodec
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.field_aggregations import (
    Numbers,
    OneByOne,
    accumulate,
    are_plain_doubles,
    key_lines,
    numbers_of,
)
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, ColumnOutput, DistinctKeys, held_values

EXTREMES: dict[AccumulateType, tuple[np.ufunc, np.ufunc]] = {
    AccumulateType.MIN_BY: (np.minimum, np.less),
    AccumulateType.MAX_BY: (np.maximum, np.greater),
}
"""How a field's best value so far is kept, and the comparison by which another one is better."""


class ColumnSelection(ColumnHandler):
    """A rolling selection of one element by a field.

    Args:
        kind: MIN_BY or MAX_BY.
        position: The position of the field; None for elements that are the field themselves.
        type_info: The type of the elements.
        state: The element of each key.
        columns: Receives the results.
        one_by_one: Processes the batches that columns can't process.
        where: The operator's name in errors.
        epoch: Receives the last result of each key, instead of `columns`; None for all results.
    """

    needs_plain: ClassVar = True  # see `ColumnAggregation`

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
        self._best, self._is_better = EXTREMES[kind]
        self._position = position
        self._dtype, _ = numbers_of(type_info, position)
        self._state = state
        self._columns = columns
        self._one_by_one = one_by_one
        self._codec = RecordCodec(type_info, where)
        self._epoch = epoch

    def process(self, data: pa.RecordBatch, timestamps: pa.Array | None, distinct: DistinctKeys) -> None:
        """Select among the elements of a batch and the previous results, and emit the best one after each element."""
        assert timestamps is None  # noqa: S101 - `needs_plain` is set
        results = held_values(self._state, distinct)
        column = data.column(self._position or 0)
        chosen = None if column.null_count else self._chosen(column, distinct, results)
        if chosen is None:
            self._one_by_one.process(data, distinct)
            return
        rolling, last = chosen
        held = [result for result in results if result is not None]
        new = np.flatnonzero(last >= len(held))
        if len(new):
            elements = self._codec.decode(data.take(pa.array(last[new] - len(held))))
            places = new.tolist()
            for place, element in zip(places, elements, strict=True):
                results[place] = element
            keys, groups = distinct.internal, distinct.groups
            self._state.hold_all([keys[place] for place in places], [groups[place] for place in places], elements)
        if self._epoch is not None:
            self._epoch.note_all(distinct.internal, results)
            return
        rows = pa.array(rolling)
        arrays = [
            pa.concat_arrays([before, _as(data.column(place), before.type)]).take(rows)
            for place, before in enumerate(self._encoded(held))
        ]
        self._columns.emit(pa.RecordBatch.from_arrays(arrays, schema=self._codec.schema), None)

    def _encoded(self, elements: list[Any]) -> list[pa.Array]:
        prepare = self._codec.prepare
        return self._codec.encode(elements if prepare is None else list(map(prepare, elements)))

    def _chosen(self, column: pa.Array, distinct: DistinctKeys, results: list[Any]) -> tuple[Numbers, Numbers] | None:
        """Return which element is the best one after each row, and after the last row of each key.

        Elements are numbered: first the existing previous results, in the order of their keys, then those of the batch. None
        if columns can't be used.
        """
        values = column.to_numpy(zero_copy_only=False).astype(self._dtype)
        place = self._position
        try:
            found = [result if place is None else result[place] for result in results if result is not None]
            before: Numbers = np.array(found, dtype=self._dtype)
        except (OverflowError, TypeError, ValueError):  # None, or a number in restored state
            return None
        if self._dtype is np.float64 and not are_plain_doubles(np.concatenate((values, before))):
            return None
        lines = key_lines(distinct.index.to_numpy(), [result is not None for result in results])
        line: Numbers = np.empty(lines.size, dtype=self._dtype)
        number: Numbers = np.empty(lines.size, dtype=np.int64)
        line[lines.places], number[lines.places] = values, len(before) + np.arange(len(values))
        line[lines.fronts], number[lines.fronts] = before, np.arange(len(before))
        best = line.copy()
        accumulate(self._best, best, lines.starts, lines.ends)
        better: Numbers = np.zeros(lines.size, dtype=bool)
        better[1:] = self._is_better(line[1:], best[:-1])
        better[lines.starts] = True
        at = np.maximum.accumulate(np.where(better, np.arange(lines.size), 0))
        return number[at[lines.places]], number[at[lines.ends - 1]]


def _as(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return array if array.type == arrow_type else array.cast(arrow_type)
