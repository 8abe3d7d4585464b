"""Functions over the elements of two streams."""

from __future__ import annotations

from typing import Any

from pystate.api.functions import CoProcessFunction
from pystate.api.job_graph import OperatorKind
from pystate.slot.operators.keyed import KeyedContext
from pystate.slot.operators.one_input import Emit, callables, many_handler, map_handler
from pystate.state.base.backend import KeyedStateBackend


class CoContext(CoProcessFunction.Context):
    """The context of `CoProcessFunction`."""


def two_input_handlers(kind: OperatorKind, function: Any, emit: Emit, backend: KeyedStateBackend | None) -> list[Emit]:
    """Return the handler of each input."""
    calls = callables(kind, function)
    if kind is OperatorKind.CO_MAP:
        return [map_handler(call, emit) for call in calls]
    if kind is OperatorKind.CO_FLAT_MAP:
        return [many_handler(call, emit) for call in calls]
    if kind is OperatorKind.KEYED_CO_PROCESS and backend is not None:
        keyed = KeyedContext(backend)
        return [many_handler(call, emit, keyed) for call in calls]
    plain = CoContext()
    return [many_handler(call, emit, plain) for call in calls]
