"""What a program says of an interval join, all together."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.api.functions import Function, RuntimeContext
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.core.api.output_tag import OutputTag


@dataclass(eq=False)
class IntervalJoinOperation(Function):
    """An interval join. It is a function, so that it has the life of one, and opens the program's.

    Attributes:
        lower: How much later than the left element the right one is at least, ms; negative for earlier.
        upper: How much later it is at most, ms.
        function: Gets each pair.
        left_late_tag: The side output of left elements behind the watermark; None to drop them.
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
