"""Selects the reduce functions that run on columns."""

from __future__ import annotations

import operator
from typing import Any

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.aggregation import AccumulateType, FieldAggregation
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.field_aggregations import NUMBERS, UFUNCS, ColumnAggregation, OneByOne, position_of
from pystate.runtime.slot.operators.field_selections import EXTREMES, ColumnSelection
from pystate.runtime.slot.operators.keyed import reduce_state
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, ColumnOutput
from pystate.runtime.slot.operators.operator_output import Emit

_KNOWN: list[tuple[Any, AccumulateType]] = [
    (operator.add, AccumulateType.SUM),
    (min, AccumulateType.MIN),
    (max, AccumulateType.MAX),
]
"""Python functions that do the same on numbers as an aggregation."""


def column_reduce(
    function: Any,
    type_info: TypeInformation | None,
    backend: KeyedStateBackend,
    columns: ColumnOutput,
    handle: Emit,
    where: str,
    epoch: EpochResults | None = None,
) -> ColumnHandler | None:
    """Return the column handler for a reduce function; None if it must run element by element.

    Args:
        function: The function.
        type_info: The type of the elements.
        backend: The state backend.
        columns: Receives the results.
        handle: Processes an element under its key, where columns can't be used.
        where: The operator's name in errors.
        epoch: Receives the last result of each key; None if all results are emitted.
    """
    if type_info is None:
        return None
    known = _known(function, type_info)
    if known is None:
        return None
    kind, position = known
    state = reduce_state(backend, type_info)
    if not isinstance(state, OverlayValueState):  # of a backend with its own state classes
        return None
    one_by_one = OneByOne(type_info, backend, handle, where)
    if kind in EXTREMES:
        return ColumnSelection(kind, position, type_info, state, columns, one_by_one, where, epoch)
    return ColumnAggregation(kind, position, type_info, state, columns, one_by_one, where, epoch)


def _known(function: Any, type_info: TypeInformation) -> tuple[AccumulateType, int | None] | None:
    """Return a function's kind of accumulation, and its field: None for elements that are the field themselves."""
    if type_info.kind in (TypeKind.ROW, TypeKind.TUPLE):
        if type(function) is not FieldAggregation:
            return None
        position = position_of(function.field, type_info)
        if position is None or type_info.elements[position].kind not in NUMBERS:
            return None
        return (function.kind, position) if function.kind in UFUNCS or function.kind in EXTREMES else None
    if type_info.kind not in NUMBERS:
        return None
    if type(function) is FieldAggregation:
        return (function.kind, None) if function.kind in UFUNCS or function.kind in EXTREMES else None
    return next(((kind, None) for known, kind in _KNOWN if function is known), None)
