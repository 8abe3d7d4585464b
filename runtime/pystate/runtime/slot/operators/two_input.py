"""Handlers for functions over the elements of two streams."""

from __future__ import annotations

from typing import Any

from pystate.core.api.operator_kind import OperatorKind
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.runtime.slot.event_time.chain_time import ChainTime
from pystate.runtime.slot.operators.keyed import keyed_context
from pystate.runtime.slot.operators.one_input import (
    Emit,
    PlainContext,
    callables,
    many_handler,
    process_handler,
    some_handler,
)
from pystate.runtime.slot.operators.operator_output import Output
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager


def two_input_handlers(
    kind: OperatorKind,
    function: Any,
    output: Output,
    time: ChainTime,
    backend: KeyedStateBackend | None,
    timers: InternalTimeServiceManager | None,
) -> list[Emit]:
    """Return the handler of each input."""
    calls = callables(kind, function)
    if kind is OperatorKind.CO_MAP:
        return [some_handler(call, output.emit) for call in calls]
    if kind is OperatorKind.CO_FLAT_MAP:
        return [many_handler(call, output.emit) for call in calls]
    if kind is OperatorKind.KEYED_CO_PROCESS and backend is not None and timers is not None:
        context = keyed_context(function, output, time, backend, timers)
        return [process_handler(call, output, context) for call in calls]
    plain = PlainContext(time)
    return [process_handler(call, output, plain) for call in calls]
