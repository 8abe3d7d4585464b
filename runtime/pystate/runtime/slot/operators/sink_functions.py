"""Operators of sink functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.core.api.functions import SinkFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.event_time.chain_time import ChainTimeReader
from pystate.runtime.slot.operators.one_input import callables
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output


class SinkContext(ChainTimeReader, SinkFunction.Context):
    """The context of `SinkFunction.invoke`."""

    def timestamp(self) -> int | None:
        """Return the timestamp of the element."""
        return self._time.timestamp


class SinkFunctionOperator(Operator):
    """Passes each element to a sink."""

    kinds: ClassVar = (OperatorKind.SINK,)

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        (call,) = callables(self.spec.kind, self.spec.function)
        context = SinkContext(self._time, self._watermark)

        def run_sink(element: Any) -> None:
            call(element, context)

        return [run_sink]

    @override
    def commit_rest(self) -> None:
        if isinstance(self._function, SinkOperator):
            self._function.commit_rest()
