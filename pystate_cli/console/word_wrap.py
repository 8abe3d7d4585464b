"""Word wrapping for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a line of text as lines that fit a terminal, broken between words.

    A word that is longer than a line, such as a path, isn't broken: the terminal wraps it, and it can be copied.

    Args:
        text: Without line ends.
        width: Columns of the terminal.
        indent: The prefix of all lines but the first.
    """
    from rich.cells import cell_len

    first, *words = text.split(" ")
    lines, room = [first], width - cell_len(first)
    for word in words:
        cells = cell_len(word)
        if cells < room:
            lines[-1] += f" {word}"
            room -= cells + 1
        elif word:
            lines.append(indent + word)
            room = width - len(indent) - cells
    return lines


def folded(text: str, style: str = "") -> Text:
    """Return a text of which nothing is cut off where a live region is narrow: it goes on in the next line.

    Args:
        text: One line or several.
        style: Rich's.
    """
    from rich.text import Text

    return Text(text, style=style, overflow="fold", no_wrap=False)
