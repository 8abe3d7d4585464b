"""The operator of windows over a keyed stream: chooses among the ways to keep them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.operators.keyed_operators import KeyedOperator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.operators.windowing.aligned_operations import is_aligned, pane_state
from pystate.runtime.slot.operators.windowing.aligned_windows import AlignedWindowOperator
from pystate.runtime.slot.operators.windowing.window_columns import window_columns
from pystate.runtime.slot.operators.windowing.window_operator import WindowOperator


class KeyedWindowsOperator(KeyedOperator):
    """Collects the elements of each key in windows."""

    kinds: ClassVar = (OperatorKind.WINDOW,)

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        backend, timers = self.keyed
        operation, (input_type,) = self.spec.function, input_types
        rest = operation, input_type, backend, self._context, self._time, timers, output, self._where
        if not is_aligned(operation) or self._time.sorted_input:
            return [WindowOperator(*rest).process_element]
        windows = AlignedWindowOperator(pane_state(operation, input_type), *rest)
        self.process_batch = windows.process_batch
        self.columns = window_columns(operation, input_type, windows, self._where)
        return [windows.process_element]
