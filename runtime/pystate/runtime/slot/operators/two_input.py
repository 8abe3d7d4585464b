"""Operators of functions over the elements of two streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.operators.keyed import keyed_context
from pystate.runtime.slot.operators.one_input import (
    PlainContext,
    callables,
    many_handler,
    process_handler,
    some_handler,
)
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output


class TwoInputOperator(Operator):
    """Calls a function with the elements of two streams, both keyed or neither."""

    kinds: ClassVar = (
        OperatorKind.CO_MAP,
        OperatorKind.CO_FLAT_MAP,
        OperatorKind.CO_PROCESS,
        OperatorKind.KEYED_CO_PROCESS,
    )

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        kind, function, backend, timers, time = self.spec.kind, self.spec.function, self.backend, self.timers, self._time
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
