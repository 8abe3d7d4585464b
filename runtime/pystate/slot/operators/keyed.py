"""Functions directly behind key_by(), with state of the element's key at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pystate.api.functions import KeyedCoProcessFunction, KeyedProcessFunction
from pystate.api.state import ValueState, ValueStateDescriptor
from pystate.common.errors import StateError
from pystate.common.type_info import TypeInformation
from pystate.slot.operators.one_input import Emit
from pystate.state.base.backend import KeyedStateBackend

REDUCE_STATE = "_op_state"
"""The name of the state that holds the rolling result of reduce(), as in Flink's StreamGroupedReduceOperator."""


class KeyedContext(KeyedProcessFunction.Context, KeyedCoProcessFunction.Context):
    """The context of an element with a key."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self._backend = backend

    def get_current_key(self) -> Any:
        """Return the key of the element."""
        return self._backend.current_key


def reduce_handler(
    call: Callable[..., Any], emit: Emit, backend: KeyedStateBackend, type_info: TypeInformation | None
) -> Emit:
    """Return what merges each element into the result of its key, and emits that."""
    descriptor = ValueStateDescriptor(REDUCE_STATE, type_info)
    state = cast("ValueState[Any]", backend.get_partitioned_state(descriptor))
    value, update = state.value, state.update

    def run_reduce(element: Any) -> None:
        so_far = value()
        if so_far is not None:
            element = call(so_far, element)
            if element is None:
                message = "The reduce function returned None, which would forget what was reduced so far."
                raise StateError(message, where=f"state {REDUCE_STATE!r}", hint="return the merged value")
        update(element)
        emit(element)

    return run_reduce
