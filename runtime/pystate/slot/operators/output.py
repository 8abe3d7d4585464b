"""Where an operator's results go: its main output, and side outputs by tag (Flink's Output)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pystate.api.output_tag import OutputTag

Emit = Callable[[Any], None]


@dataclass(frozen=True)
class Output:
    """The outputs of one operator.

    Attributes:
        emit: Takes what goes into the main output.
        side: By the name of a tag: takes what goes into that side output. One that nobody reads is missing.
    """

    emit: Emit
    side: Mapping[str, Emit] = field(default_factory=dict)

    def emit_tagged(self, tag: OutputTag, value: Any) -> None:
        """Hand a value to a side output; it is dropped where nobody reads that, as in Flink."""
        emit = self.side.get(tag.tag_id)
        if emit is not None:
            emit(value)
