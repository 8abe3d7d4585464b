"""The outputs of an operator: its main output, and side outputs by tag (Flink's Output)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pystate.core.api.output_tag import OutputTag

if TYPE_CHECKING:
    from pystate.runtime.slot.output_buffer import OutputBuffer

Emit = Callable[[Any], None]


class Output:
    """The outputs of one operator.

    Args:
        emit: Receives the elements of the main output.
        side: By tag name: receives the elements of that side output. Side outputs without a reader are missing.
        buffers: The output buffers that the main output goes to, if it goes nowhere else; else None.

    Attributes:
        buffers: The given buffers.
        emit: The given function.
    """

    __slots__ = ("_side", "buffers", "emit")

    def __init__(
        self, emit: Emit, side: Mapping[str, Emit] | None = None, buffers: Sequence[OutputBuffer] | None = None
    ) -> None:
        self.buffers = buffers
        self.emit = emit
        self._side = side or {}

    def emit_tagged(self, tag: OutputTag, value: Any) -> None:
        """Emit a value to a side output; it is dropped if the output has no reader, as in Flink."""
        emit = self._side.get(tag.tag_id)
        if emit is not None:
            emit(value)

    def collect(self, result: Any) -> None:
        """Emit a result, which may be `(OutputTag, value)`."""
        if type(result) is tuple and result and type(result[0]) is OutputTag:
            tag, value = result
            self.emit_tagged(tag, value)
        else:
            self.emit(result)
