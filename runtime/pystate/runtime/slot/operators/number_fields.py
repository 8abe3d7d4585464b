"""The aggregations of a field that run on columns, with the same results as Python's operators on single elements."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.aggregation import AccumulateType, FieldAggregation

Numbers = npt.NDArray[Any]

_NUMBERS: dict[TypeKind, tuple[type, int]] = {
    TypeKind.SHORT: (np.int64, 1 << 15),
    TypeKind.INT: (np.int64, 1 << 31),
    TypeKind.LONG: (np.int64, 1 << 62),
    TypeKind.DOUBLE: (np.float64, 0),
}
"""The field types that are aggregated by columns: numpy's type, and the bound below which all sums of integers must stay."""

_UFUNCS: dict[AccumulateType, np.ufunc] = {
    AccumulateType.SUM: np.add,
    AccumulateType.MIN: np.minimum,
    AccumulateType.MAX: np.maximum,
    AccumulateType.MIN_BY: np.minimum,
    AccumulateType.MAX_BY: np.maximum,
}

_IS_BETTER: dict[AccumulateType, np.ufunc] = {AccumulateType.MIN_BY: np.less, AccumulateType.MAX_BY: np.greater}

_OF_PYTHON: list[tuple[Any, AccumulateType]] = [
    (operator.add, AccumulateType.SUM),
    (min, AccumulateType.MIN),
    (max, AccumulateType.MAX),
]
"""Python functions that do the same on numbers as an aggregation."""


class NumberField:
    """A field and its aggregation.

    Args:
        kind: The aggregation.
        position: The position of the field; None for elements that are the field themselves.
        type_info: The type of the elements.

    Attributes:
        position: As given.
        at: The index of the field's column.
        dtype: The dtype of its numbers.
        ufunc: Merges two numbers.
        is_better: Tells whether another number's element is kept in place of the first one's. None if the first element is
            kept, with the merged number in the field.
        sums_doubles: Whether results depend on the order of numbers, in their last digits.
    """

    def __init__(self, kind: AccumulateType, position: int | None, type_info: TypeInformation) -> None:
        self.position = position
        self.at = position or 0
        self.dtype, self._limit = _NUMBERS[(type_info if position is None else type_info.elements[position]).kind]
        self.ufunc = _UFUNCS[kind]
        self.is_better = None if position is None else _IS_BETTER.get(kind)
        self._sums = kind is AccumulateType.SUM
        self.sums_doubles = self._sums and self.dtype is np.float64

    @staticmethod
    def of(function: Any, type_info: TypeInformation | None) -> NumberField | None:
        """Return the field that a reduce function aggregates; None if the function must run element by element."""
        if type_info is None:
            return None
        if type_info.kind in (TypeKind.ROW, TypeKind.TUPLE):
            position = _position_of(function.field, type_info) if type(function) is FieldAggregation else None
            if position is None or type_info.elements[position].kind not in _NUMBERS:
                return None
            return NumberField(function.kind, position, type_info)
        if type_info.kind not in _NUMBERS:
            return None
        kind = function.kind if type(function) is FieldAggregation else None
        kind = next((one for known, one in _OF_PYTHON if function is known), kind)
        return None if kind is None else NumberField(kind, None, type_info)

    def numbers(self, data: pa.RecordBatch) -> Numbers | None:
        """Return the field of the elements of a batch; None if one is null."""
        column = data.column(self.at)
        if column.null_count:
            return None
        numbers: Numbers = column.to_numpy(zero_copy_only=False).astype(self.dtype)
        return numbers

    def numbers_of(self, elements: Sequence[Any]) -> Numbers | None:
        """Return the field of some elements; None if one is None, or of another type, in restored state."""
        try:
            return np.array(elements if self.position is None else [one[self.position] for one in elements], self.dtype)
        except (OverflowError, TypeError, ValueError):
            return None

    def are_exact(self, *parts: Numbers) -> bool:
        """Return whether numpy merges numbers, in whatever groups, as Python's operators do.

        It doesn't if there is NaN, infinity or a signed zero, nor if a sum may overflow.
        """
        if self.dtype is np.float64:
            numbers = np.concatenate(parts)
            return bool(np.isfinite(numbers).all()) and not (np.signbit(numbers) & (numbers == 0)).any()
        if not self._sums:
            return True
        largest = max((abs(int(part.min())) + abs(int(part.max())) for part in parts if len(part)), default=0)
        return largest * (len(parts[0]) + 1) < self._limit


def _position_of(field: int | str, type_info: TypeInformation) -> int | None:
    """Return the position of a field; None if it doesn't exist."""
    if isinstance(field, str):
        return list(type_info.names or ()).index(field) if field in (type_info.names or ()) else None
    return field % len(type_info.elements) if -len(type_info.elements) <= field < len(type_info.elements) else None
