"""A console of rich that neutralizes control characters in all text."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from pystate.common.text.bounded_text import steady_line, steady_text


class SteadyScreen(Console):
    """Renders as rich does; but a text is one line, and control characters in it are shown as `?`."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of a renderable."""
        if isinstance(renderable, str):
            renderable = Text(renderable)
        if isinstance(renderable, Text):
            renderable = _one_line(renderable)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=steady_text(segment.text))


def _one_line(text: Text) -> Text:
    plain = steady_line(text.plain)
    if plain == text.plain:
        return text
    text = text.copy()
    text.plain = plain  # as long as before, so that styles stay where they are
    return text
