"""The definition of an interval join."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.api.functions import Function, RuntimeContext
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.core.api.output_tag import OutputTag


@dataclass(eq=False)
class IntervalJoinOperation(Function):
    """An interval join. It is itself a function: its `open` and `close` call those of the program's function.

    Attributes:
        lower: The least difference between the times of the right and the left element, ms; may be negative.
        upper: The greatest difference, ms.
        function: Gets each pair.
        left_late_tag: The side output of late left elements; None to drop them.
        right_late_tag: The same for right ones.
    """

    lower: int
    upper: int
    function: ProcessJoinFunction
    left_late_tag: OutputTag | None = None
    right_late_tag: OutputTag | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the program's function."""
        self.function.open(runtime_context)

    def close(self) -> None:
        """Close the program's function."""
        self.function.close()
