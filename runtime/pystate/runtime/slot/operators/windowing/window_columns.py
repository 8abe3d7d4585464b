"""Windows with built-in aggregations: a batch is grouped by key and pane, and windows get one value per group.

For integers, and for extremes, the order of merging makes no difference, so results equal those of single elements.
Otherwise, or if columns can't be used (nulls, NaN, signed zero, overflowing sums, late elements), or if most groups have one
element, a batch is processed element by element. After a batch of mostly different keys a sample of the next one's tells
whether it is another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pystate.common.overrides import override
from pystate.common.row import rows_of
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.aggregation import ElementCount
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.records.codec import RecordCodec
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, DistinctKeys, seem_different
from pystate.runtime.slot.operators.number_fields import NumberField
from pystate.runtime.slot.operators.windowing.aligned_windows import AlignedWindowOperator

_MOST_GROUPS = 0.7
"""If a batch has more groups than this share of its rows, grouping costs more than it saves."""

_FAR = 1 << 62
"""Later times are processed element by element."""

Integers = npt.NDArray[np.int64]


class _Partials(ABC):
    """Computes the accumulators of the groups of a batch."""

    @abstractmethod
    def of(self, data: pa.RecordBatch, order: Integers, bounds: Integers) -> list[Any] | None:
        """Return the accumulator of each group; None if columns can't be used.

        Args:
            data: The elements.
            order: Their row indexes, grouped, in the original order within each group.
            bounds: The start of each group in `order`.
        """


class _Counts(_Partials):
    @override
    def of(self, data: pa.RecordBatch, order: Integers, bounds: Integers) -> list[Any] | None:
        counts: list[int] = np.diff(bounds, append=len(order)).tolist()
        return counts


class _Fields(_Partials):
    def __init__(self, field: NumberField, type_info: TypeInformation, codec: RecordCodec) -> None:
        self._field = field
        self._codec = codec
        self._names = type_info.row_names if type_info.kind is TypeKind.ROW else None

    @override
    def of(self, data: pa.RecordBatch, order: Integers, bounds: Integers) -> list[Any] | None:
        values = self._field.numbers(data)
        if values is None or not self._field.are_exact(values):
            return None
        merged: list[Any] = self._field.ufunc.reduceat(values[order], bounds).tolist()
        if self._field.position is None:
            return merged
        first = self._codec.decode_columns(data.take(pa.array(order[bounds])))
        fields = list(zip(*self._codec.elements_of(first), strict=True))  # of the first elements
        fields[self._field.position] = tuple(merged)
        return list(zip(*fields, strict=True)) if self._names is None else rows_of(self._names, fields)


class WindowColumns(ColumnHandler):
    """Processes batches for windows with a built-in aggregation.

    Args:
        windows: The window operator.
        partials: The aggregation.
    """

    needs_plain: ClassVar = False

    def __init__(self, windows: AlignedWindowOperator, partials: _Partials) -> None:
        self._windows = windows
        self._partials = partials
        self._mostly_different = False  # the keys of the last batch: only after such a one it pays to look at a sample

    @override
    def declines(self, keys: pa.Array) -> bool:
        self._mostly_different = self._mostly_different and seem_different(keys)
        return self._mostly_different

    def process(self, data: pa.RecordBatch, timestamps: pa.Array | None, distinct: DistinctKeys) -> bool:
        """Add the elements of a batch to their windows, group by group."""
        if timestamps is None or timestamps.null_count or not data.num_rows:
            return False
        most = _MOST_GROUPS * data.num_rows
        if len(distinct.internal) > most:
            self._mostly_different = True
            return False
        times = timestamps.to_numpy()
        if int(times.min()) < -_FAR or int(times.max()) > _FAR:
            return False
        size, offset = self._windows.pane_size, self._windows.pane_offset
        starts, panes = np.unique(times - (times - offset) % size, return_inverse=True)
        numbers = distinct.index.to_numpy().astype(np.int64) * len(starts) + panes
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        bounds = np.flatnonzero(np.diff(ordered, prepend=-1))
        if len(bounds) > most or not self._windows.are_open(starts.tolist()):
            return False
        partials = self._partials.of(data, order, bounds)
        if partials is None:
            return False
        keys, groups = distinct.internal, distinct.groups
        numbers = ordered[bounds]
        if len(starts) > 1:  # other fields are those of the first element, so its group comes first
            turns = np.argsort(order[bounds])
            numbers, partials = numbers[turns], [partials[turn] for turn in turns.tolist()]
        places, of_pane = np.divmod(numbers, len(starts))
        for place, start, partial in zip(places.tolist(), starts[of_pane].tolist(), partials, strict=True):
            self._windows.merge(keys[place], groups[place], start, partial)
        return True


def window_columns(
    operation: WindowOperation, type_info: TypeInformation | None, windows: AlignedWindowOperator, where: str
) -> WindowColumns | None:
    """Return the column handler for a step; None if it must run element by element."""
    if type_info is None or type_info.kind is TypeKind.PICKLED_BYTE_ARRAY:
        return None
    if type(operation.aggregate_function) is ElementCount:
        return WindowColumns(windows, _Counts())
    field = NumberField.of(operation.reduce_function, type_info)
    if field is None or field.is_better is not None or field.sums_doubles:
        return None
    return WindowColumns(windows, _Fields(field, type_info, RecordCodec(type_info, where)))
