"""The operator of `reduce`, and of the aggregations that are one, and which of them run on columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pystate.common.configuration.groups.execution_options import ExecutionOptions
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.operators.epoch_results import EpochResults
from pystate.runtime.slot.operators.field_aggregations import column_reduce
from pystate.runtime.slot.operators.keyed import reduce_handler
from pystate.runtime.slot.operators.keyed_batches import ColumnOutput
from pystate.runtime.slot.operators.keyed_operators import KeyedOperator
from pystate.runtime.slot.operators.one_input import callables
from pystate.runtime.slot.operators.operator_output import Emit, Output


class ReduceOperator(KeyedOperator):
    """Merges the elements of each key.

    It emits each new result; with `execution.mini-batch.enabled` only the last one of each key and epoch, and with sorted
    input only the last one of each key.
    """

    kinds: ClassVar = (OperatorKind.REDUCE,)
    _epoch_results: EpochResults | None = None

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        backend, _ = self.keyed
        function, emit, (input_type,) = self.spec.function, output.emit, input_types
        (call,) = callables(self.spec.kind, function)
        if self._time.sorted_input or self._context.get_job_configuration().get(ExecutionOptions.MINI_BATCH_ENABLED):
            self._epoch_results = EpochResults(backend.key_context, self._time, emit)
            emit = self._epoch_results.note
        columns = ColumnOutput(output, input_type, self._where)
        self.columns = column_reduce(function, input_type, backend, columns, self._where, self._epoch_results)
        return [reduce_handler(call, emit, backend, input_type)]

    @override
    def drain(self) -> None:
        if self._epoch_results is not None:
            self._epoch_results.drain()

    @override
    def roll_back_epoch(self) -> bool:
        if self._epoch_results is not None:
            self._epoch_results.roll_back_epoch()
        return super().roll_back_epoch()
