"""Functions over single fields of elements: rolling sums and extremes by key, and projections of tuples."""

from __future__ import annotations

import copy
import difflib
import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.common.type_rules import LISTS
from pystate.core.api.functions import AggregateFunction, MapFunction, ReduceFunction


class AccumulateType(Enum):
    """The kind of aggregation."""

    MIN = 1
    MAX = 2
    MIN_BY = 3
    MAX_BY = 4
    SUM = 5


_FIELD_OF: dict[AccumulateType, Callable[[Any, Any], Any]] = {
    AccumulateType.MIN: lambda first, second: second if second < first else first,
    AccumulateType.MAX: lambda first, second: second if second > first else first,
    AccumulateType.SUM: operator.add,
}

_IS_BETTER: dict[AccumulateType, Callable[[Any, Any], Any]] = {
    AccumulateType.MIN_BY: operator.lt,
    AccumulateType.MAX_BY: operator.gt,
}


class FieldAggregation(ReduceFunction):
    """Merges two elements by one field.

    SUM, MIN and MAX put the result into that field of the first element; its other fields stay. MIN_BY and MAX_BY keep
    one element as it is, of equal ones the first. Tuples, lists and rows have fields; any other element is its own field 0.

    Args:
        kind: What is kept.
        field: The field, by position or by name.
    """

    def __init__(self, kind: AccumulateType, field: int | str) -> None:
        self.kind = kind
        self.field = field

    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the combined value; a new object unless it is one of the two.

        Raises:
            RecordError: The elements have no such field, or these can't be added or compared.
        """
        try:
            return self._merge(value1, value2)
        except (TypeError, IndexError, KeyError, ValueError) as error:
            message = f"{self._method}({self.field!r}) can't merge {value1!r} and {value2!r}: {error}."
            raise RecordError(message, hint="name a field whose values can be added or compared") from error

    @property
    def _method(self) -> str:
        return self.kind.name.lower()

    def _merge(self, first: Any, second: Any) -> Any:
        has_fields, field = isinstance(second, (tuple, list, Row)), self.field
        if not has_fields and field != 0:
            message = "the elements have no fields, so only position 0 stands for them"
            raise TypeError(message)
        if self.kind in _IS_BETTER:
            is_better = _IS_BETTER[self.kind]
            return second if (is_better(second[field], first[field]) if has_fields else is_better(second, first)) else first
        merge = _FIELD_OF[self.kind]
        if not has_fields:
            return merge(first, second)
        merged = merge(first[field], second[field])
        if isinstance(first, tuple):
            values = list(first)
            values[field] = merged  # type: ignore[index]  # a name has failed above
            return tuple(values)
        result = copy.copy(first)
        result[field] = merged
        return result


class ElementCount(AggregateFunction):
    """Counts elements, whatever they are."""

    def create_accumulator(self) -> int:
        """Return 0."""
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        """Count one more."""
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        """Return the count."""
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        """Return the sum of both."""
        return acc_a + acc_b


def check_field(field: Any, elements: TypeInformation | None, method: str) -> None:
    """Reject a field that no element of a known type can have.

    Args:
        field: The field as the program named it.
        elements: Their type; None if unknown.
        method: The method that the error names.

    Raises:
        JobGraphError: It is neither a position nor a name, or the field doesn't exist.
    """
    if not isinstance(field, (int, str)) or isinstance(field, bool):
        message = f"{method}() takes the position of a field, or its name, not {field!r}."
        raise JobGraphError(message)
    if elements is None or elements.kind is TypeKind.PICKLED_BYTE_ARRAY:
        return
    if elements.kind is TypeKind.ROW:
        count = len(elements.elements)
        names = list(elements.names or [])
        known = field in names if isinstance(field, str) else -count <= field < count
        what = f"have {count} fields{': ' + ', '.join(names) if names else ''}"
    elif elements.kind is TypeKind.TUPLE:
        count = len(elements.elements)
        known = not isinstance(field, str) and -count <= field < count
        what = f"are tuples of {count} fields, which have no names"
    elif elements.kind in LISTS:
        known, what = not isinstance(field, str), "are lists, whose fields have no names"
    else:
        known, what = field == 0, "have no fields, so only position 0 stands for them"
    if not known:
        message = f"{method}({field!r}): the elements are {elements.name}; they {what}."
        near = difflib.get_close_matches(str(field), elements.names or [], n=1) if elements.kind is TypeKind.ROW else []
        raise JobGraphError(message, hint=f"did you mean {near[0]!r}?" if near else "name a field that they have")


class Projection(MapFunction):
    """Makes tuples of some fields of tuples.

    Args:
        positions: Of the fields, in the order that they are to have.
        output_type: The type of the tuples that it makes.
    """

    def __init__(self, positions: Sequence[int], output_type: TypeInformation) -> None:
        self._positions = tuple(positions)
        self.output_type = output_type

    @staticmethod
    def of(positions: Sequence[int], elements: TypeInformation | None) -> Projection:
        """Return the projection of elements of a type.

        Raises:
            JobGraphError: They are no declared tuples, or have no such fields.
        """
        if elements is None or elements.kind is not TypeKind.TUPLE:
            message = f"project() takes a stream of tuples, this one has {'no type' if elements is None else elements.name}."
            raise JobGraphError(message, hint="declare them with Types.TUPLE([...]), or use map()")
        fields = elements.elements
        for position in positions:
            if not isinstance(position, int) or isinstance(position, bool) or not 0 <= position < len(fields):
                message = f"project({position!r}): a field has a number from 0 to {len(fields) - 1}."
                raise JobGraphError(message)
        if not positions:
            message = "project() takes the positions of one or more fields."
            raise JobGraphError(message)
        return Projection(positions, Types.TUPLE([fields[position] for position in positions]))

    def map(self, value: Any) -> Any:
        """Return the tuple of the fields."""
        return tuple(value[position] for position in self._positions)
