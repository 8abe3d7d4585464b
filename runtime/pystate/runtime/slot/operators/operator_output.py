"""Where an operator's results go: its main output, and side outputs by tag (Flink's Output)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pystate.core.api.output_tag import OutputTag, await_first_tag

if TYPE_CHECKING:
    from pystate.runtime.slot.output_buffer import OutputBuffer

Emit = Callable[[Any], None]


class Output:
    """The outputs of one operator.

    Args:
        emit: Takes what goes into the main output.
        side: By the name of a tag: takes what goes into that side output. One that nobody reads is missing.
        buffers: The output buffers that the main output goes to, where it goes to nothing else; else None.

    Attributes:
        buffers: As given.
        emit: As given.
        collect: Takes a result of a process function, which may be `(OutputTag, value)`. It is `emit` itself as long as this
            process has no tags: so who doesn't use them doesn't pay for them.
        heeds_tags: Has something in it from the first tag of the process on; for code that asks per result.
    """

    __slots__ = ("__weakref__", "_side", "buffers", "collect", "emit", "heeds_tags")

    def __init__(
        self, emit: Emit, side: Mapping[str, Emit] | None = None, buffers: Sequence[OutputBuffer] | None = None
    ) -> None:
        self.buffers = buffers
        self.emit = emit
        self._side = side or {}
        self.collect = emit
        self.heeds_tags: list[bool] = []
        await_first_tag(self)

    def heed_tags(self) -> None:
        """Look for tags from now on."""
        self.collect = self.collect_tagged
        self.heeds_tags.append(True)

    def emit_tagged(self, tag: OutputTag, value: Any) -> None:
        """Hand a value to a side output; it is dropped where nobody reads that, as in Flink."""
        emit = self._side.get(tag.tag_id)
        if emit is not None:
            emit(value)

    def collect_tagged(self, result: Any) -> None:
        """Take a result, which may be `(OutputTag, value)`."""
        if type(result) is tuple and result and type(result[0]) is OutputTag:
            tag, value = result
            self.emit_tagged(tag, value)
        else:
            self.emit(result)
