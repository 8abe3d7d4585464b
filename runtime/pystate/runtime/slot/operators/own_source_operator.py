"""The operator of a source that runs in slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.slot.operators.operator import Operator
from pystate.runtime.slot.operators.operator_output import Emit, Output
from pystate.runtime.slot.operators.source_input import SourceInput


class OwnSourceOperator(Operator):
    """Reads a source that runs in slots: its elements come from its `source` instead of an input."""

    kinds: ClassVar = (OperatorKind.SOURCE,)

    @override
    def _handlers(self, output: Output, input_types: Sequence[TypeInformation | None]) -> list[Emit]:
        self.source = SourceInput(self.spec.function, output, self._time, self.spec.uid, self._touch)
        return [output.emit]

    def _touch(self) -> None:
        self.touched = True
