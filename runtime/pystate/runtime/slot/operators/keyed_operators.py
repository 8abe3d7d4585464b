"""Operators that stand directly after key_by()."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.state.base.keyed_state_backend import KeyedStateBackend
from pystate.runtime.slot.operators.keyed import keyed_context
from pystate.runtime.slot.operators.keyed_batches import ColumnOutput, KeyedBatchHandler, takes_batches
from pystate.runtime.slot.operators.one_input import callables, process_handler
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.timers.internal_timer_service import InternalTimeServiceManager


class KeyedOperator(Operator):
    """An operator that can't do without keyed state."""

    @property
    def keyed(self) -> tuple[KeyedStateBackend, InternalTimeServiceManager]:
        """Its backend and timer services.

        Raises:
            JobGraphError: It has none.
        """
        if self.backend is None or self.timers is None:
            message = f"{self.spec.name!r} doesn't stand directly after key_by()."
            raise JobGraphError(message, where=self._where, hint="put key_by(...) before it")
        return self.backend, self.timers


class KeyedProcessOperator(KeyedOperator):
    """Calls a keyed process function with elements, or with columns if it defines `process_batch`."""

    kinds: ClassVar = (OperatorKind.PROCESS,)

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        backend, timers = self.keyed
        function, (input_type,) = self.spec.function, input_types
        calls = callables(self.spec.kind, function)
        context = keyed_context(function, output, self._time, backend, timers)
        if takes_batches(function):
            if input_type is None or input_type.kind is TypeKind.PICKLED_BYTE_ARRAY:
                message = f"process_batch of {self.spec.name!r} takes columns, and the elements have no type."
                raise JobGraphError(message, where=self._where, hint="give the step before key_by() an output_type")
            columns = ColumnOutput(output, self.spec.output_type, self._where)
            self.columns = KeyedBatchHandler(function.process_batch, context, backend, self._time, output, columns)
        return [process_handler(call, output, context) for call in calls]
