"""The operators that need no slot: those of sources' stages run without one (`chain/compiled_chain.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.operators.one_input import stateless_handler
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks


class StatelessOperator(Operator):
    """Calls a function with each element; after key_by() it may have state all the same."""

    kinds: ClassVar = (OperatorKind.MAP, OperatorKind.FLAT_MAP, OperatorKind.FILTER, OperatorKind.PLAIN_PROCESS)

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        return [stateless_handler(self.spec.kind, self.spec.function, output, self._time, self._watermark)]


class TimestampsOperator(Operator):
    """Assigns timestamps, and generates watermarks."""

    kinds: ClassVar = (OperatorKind.ASSIGN_TIMESTAMPS,)

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        self.assigner = TimestampsAndWatermarks(self.spec.function, output.emit, self._time, self.spec.name)
        return [self.assigner.process_element]

    @override
    def finish_epoch(self) -> list[Callable[[], None]]:
        changes = super().finish_epoch()
        return changes if self.assigner is None else [*changes, self.assigner.finish_epoch]

    @override
    def roll_back_epoch(self) -> bool:
        if self.assigner is not None:
            self.assigner.roll_back_epoch()
        return super().roll_back_epoch()
