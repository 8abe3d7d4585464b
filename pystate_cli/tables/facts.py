"""Name-value pairs, laid out in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pystate_cli.console.word_wrap import folded

if TYPE_CHECKING:
    from rich.text import Text

_GAP = 3


def flowing(facts: Iterable[Text], width: int, gap: int = _GAP) -> list[Text]:
    """Lay out facts next to each other while there is room, then on the next line.

    Args:
        facts: The facts.
        width: Columns of the terminal.
        gap: How many of them are left free between two facts.
    """
    lines = [folded("")]
    for fact in facts:
        if lines[-1].cell_len and lines[-1].cell_len + gap + fact.cell_len > width:
            lines.append(folded(""))
        lines[-1].append(" " * (gap if lines[-1].cell_len else 0))
        lines[-1].append_text(fact)
    return lines


def labelled(pairs: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Return lines of label and text: side by side, or stacked if the terminal is too narrow.

    So a path is never broken, and can be copied.
    """
    label_width = max((len(label) for label, _ in pairs), default=0)
    if all(label_width + 2 + len(text) <= width for _, text in pairs):
        return [f"{label:<{label_width}}  {text}" for label, text in pairs]
    return [line for label, text in pairs for line in (f"{label}:", text)]
