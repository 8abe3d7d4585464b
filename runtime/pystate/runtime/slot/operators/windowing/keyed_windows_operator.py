"""The operator of windows over a keyed stream: chooses among the ways to keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.aggregation import AccumulateType, ElementCount, FieldAggregation
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.window.assigners import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from pystate.core.api.window.triggers import EventTimeTrigger
from pystate.core.api.window.window_operation import WindowOperation
from pystate.core.snapshot.reading.window_states import PaneState
from pystate.runtime.slot.operators.keyed_operators import KeyedOperator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.operators.windowing.aligned_windows import AlignedWindowOperator
from pystate.runtime.slot.operators.windowing.session_windows import SessionWindowOperator
from pystate.runtime.slot.operators.windowing.window_columns import window_columns
from pystate.runtime.slot.operators.windowing.window_operator import WindowOperator

_EXTREMES = {AccumulateType.MIN: "min", AccumulateType.MAX: "max"}
_INTEGERS = (TypeKind.BYTE, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.BIG_INT)


class KeyedWindowsOperator(KeyedOperator):
    """Collects the elements of each key in windows."""

    kinds: ClassVar = (OperatorKind.WINDOW,)

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        backend, timers = self.keyed
        operation, (input_type,) = self.spec.function, input_types
        rest = operation, input_type, backend, self._context, self._time, timers, output, self._where
        if is_session(operation) and not self._time.sorted_input:
            sessions = SessionWindowOperator(*rest)
            self.process_batch = sessions.process_batch
            return [sessions.process_element]
        if not is_aligned(operation) or self._time.sorted_input:
            return [WindowOperator(*rest).process_element]
        windows = AlignedWindowOperator(pane_state(operation, input_type), *rest)
        self.process_batch = windows.process_batch
        self.columns = window_columns(operation, input_type, windows, self._where)
        return [windows.process_element]


def is_aligned(operation: WindowOperation) -> bool:
    """Return whether `AlignedWindowOperator` can run a step's windows: user-defined classes may do anything."""
    return type(operation.assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows) and _fires_at_end(operation)


def is_session(operation: WindowOperation) -> bool:
    """Return whether `SessionWindowOperator` can run a step's windows; see `is_aligned`."""
    function = operation.aggregate_function
    return (
        type(operation.assigner) in (EventTimeSessionWindows, DynamicEventTimeSessionWindows)
        and _fires_at_end(operation)
        and (function is None or callable(getattr(function, "merge", None)))
    )


def _fires_at_end(operation: WindowOperation) -> bool:
    """Return whether windows have accumulators, and fire once, at their end."""
    return (
        type(operation.trigger) is EventTimeTrigger
        and operation.allowed_lateness == 0
        and operation.evictor is None
        and (operation.reduce_function is not None or operation.aggregate_function is not None)
    )


def pane_state(operation: WindowOperation, input_type: TypeInformation | None) -> PaneState | None:
    """Return the pane state of a step; None if its windows can't share panes.

    They can if neither the order of elements nor that of merging makes a difference: counts, and sums and extremes of
    integers. Elements with fields are excluded: their other fields are those of the first element of a window, which panes
    don't store. So are sums of smaller types than LONG: more sums than those of windows could exceed the type.
    """
    assigner: Any = operation.assigner
    if not is_aligned(operation) or type(assigner) is not SlidingEventTimeWindows:
        return None
    size, slide = assigner.size, assigner.slide
    if size <= slide or size % slide:
        return None
    if type(operation.aggregate_function) is ElementCount:
        return PaneState("count", size, slide)
    function = operation.reduce_function
    if type(function) is not FieldAggregation or input_type is None or input_type.kind not in _INTEGERS:
        return None
    if function.kind is AccumulateType.SUM and input_type.kind in (TypeKind.LONG, TypeKind.BIG_INT):
        return PaneState("sum", size, slide)
    kind = _EXTREMES.get(function.kind)
    return None if kind is None else PaneState(kind, size, slide)
