"""Generated checks of tuples and rows, specialized for their fields.

They run for each record whose state is a tuple. A loop over the fields takes two to three times as long, since it looks up
what is already known for each field when the state is declared. The code only contains numbers, and no external text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_, itemgetter
from typing import Any, cast

from pystate.core.state.formats.type_format import Right

MAX_FIELDS = 100
"""Python's compiler refuses conditions with a few thousand parts; those of very wide tuples are left to a loop."""


def fields_check(rights: Sequence[Right]) -> Callable[[Sequence[Any]], bool]:
    """Return a check whether all fields, as many as `rights`, are exactly of their types."""
    if len(rights) > MAX_FIELDS:
        pairs = list(enumerate(rights))
        return lambda values: all(_is_right(values[index], right) for index, right in pairs)
    made = _compiled(f"lambda values: {_condition('values', rights)}", rights)
    return cast("Callable[[Sequence[Any]], bool]", made)


def tuple_check(rights: Sequence[Right], otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that returns a tuple of exact field types unchanged, and calls `otherwise` for all other values."""
    if len(rights) > MAX_FIELDS:
        return otherwise
    is_right = f"type(value) is tuple and len(value) == {len(rights)} and {_condition('value', rights)}"
    made = _compiled(f"lambda value: value if {is_right} else otherwise(value)", rights, otherwise=otherwise)
    return cast("Callable[[Any], Any]", made)


def columns_are_right(rights: Sequence[Right], values: Sequence[Any]) -> bool:
    """Return whether values are lists with as many fields as `rights`, all exactly of their types.

    A pass over each column by what is written in C: a tenth of the time of a check for each value.
    """
    if not all(map(is_, map(type, values), repeat(list))):
        return False
    if not values or not set(map(len, values)) <= {len(rights)}:
        return not values
    for place, right in enumerate(rights):  # `zip(*values)` takes all of them as arguments: twice as slow
        column = list(map(itemgetter(place), values))
        if not all(map(is_, map(type, column), repeat(right.python_type))):
            return False
        if right.python_type is int and not (right.low <= min(column) and max(column) <= right.high):
            return False
    return True


def _condition(name: str, rights: Sequence[Right]) -> str:
    parts = []
    for index, right in enumerate(rights):
        if right.python_type is int:
            parts.append(f"type(part := {name}[{index}]) is type_{index} and {right.low} <= part <= {right.high}")
        else:
            parts.append(f"type({name}[{index}]) is type_{index}")
    return " and ".join(parts) or "True"


def _compiled(code: str, rights: Sequence[Right], **names: Any) -> Any:
    types = {f"type_{index}": right.python_type for index, right in enumerate(rights)}
    return eval(code, {**types, **names})  # noqa: S307 - made above, of indexes and of the ranges of integer types


def _is_right(value: Any, right: Right) -> bool:
    if right.python_type is not int:
        return type(value) is right.python_type
    return type(value) is int and right.low <= value <= right.high
