"""The operator of `reduce`, and of the aggregations that are one, and which of them run on columns."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, ClassVar

from pystate.common.configuration.execution_options import ExecutionOptions
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.aggregation import AccumulateType, FieldAggregation
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.core.state.kinds.value_states import OverlayValueState
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.field_aggregations import NUMBERS, UFUNCS, ColumnAggregation, OneByOne, position_of
from pystate.runtime.slot.operators.field_selections import EXTREMES, ColumnSelection
from pystate.runtime.slot.operators.keyed import final_reduce_handler, reduce_handler, reduce_state
from pystate.runtime.slot.operators.keyed_batches import ColumnHandler, ColumnOutput
from pystate.runtime.slot.operators.keyed_operators import KeyedOperator
from pystate.runtime.slot.operators.one_input import callables
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager

_KNOWN: list[tuple[Any, AccumulateType]] = [
    (operator.add, AccumulateType.SUM),
    (min, AccumulateType.MIN),
    (max, AccumulateType.MAX),
]
"""Python functions that do the same on numbers as an aggregation."""


class ReduceOperator(KeyedOperator):
    """Merges the elements of each key.

    It emits each new result; with `execution.mini-batch.enabled` only the last one of each key and epoch, and with sorted
    input only the last one of each key.
    """

    kinds: ClassVar = (OperatorKind.REDUCE,)
    _epoch_results: EpochResults | None = None

    @override
    def _keyed_handlers(
        self,
        output: Output,
        input_types: Sequence[TypeInformation | None],
        backend: KeyedStateBackend,
        timers: InternalTimeServiceManager,
    ) -> list[Emit]:
        function, emit, (input_type,) = self.spec.function, output.emit, input_types
        (call,) = callables(self.spec.kind, function)
        if self._time.sorted_input:
            return [final_reduce_handler(call, emit, backend, input_type, timers)]
        if self._context.get_job_configuration().get(ExecutionOptions.MINI_BATCH_ENABLED):
            self._epoch_results = EpochResults(backend.key_context, self._time, emit)
            emit = self._epoch_results.note
        one_by_one = reduce_handler(call, emit, backend, input_type)
        columns, results = ColumnOutput(output, input_type, self._where), self._epoch_results
        self.columns = column_reduce(function, input_type, backend, columns, one_by_one, self._where, results)
        return [one_by_one]

    @override
    def drain(self) -> None:
        if self._epoch_results is not None:
            self._epoch_results.drain()

    @override
    def roll_back_epoch(self) -> bool:
        if self._epoch_results is not None:
            self._epoch_results.roll_back_epoch()
        return super().roll_back_epoch()


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
