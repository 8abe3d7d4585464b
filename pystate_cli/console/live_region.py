"""A region at the end of a terminal's output that is redrawn in place, below whatever else is printed."""

from __future__ import annotations

import io
import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import RenderableType

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_ERASE_BELOW = "\x1b[J"
_TERMINATED = 128 + signal.SIGTERM


class LiveRegion:
    """A few lines that are redrawn in place. The cursor rests below them; other output has to erase them first.

    Args:
        stream: The terminal.
        screen: A console of rich on it, which knows its size and its colours.
        keep: Whether the last drawing stays when the region is closed.
    """

    def __init__(self, stream: TextIO, screen: Any, *, keep: bool) -> None:
        self._stream = stream
        self._screen = screen
        self._keep = keep
        self._drawn: list[int] = []  # the length of each line as drawn
        self._lines: list[str] = []
        self._handler: Any = None

    def __enter__(self) -> LiveRegion:
        """Hide the cursor, until the region is closed or the process is told to end."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handler = signal.signal(signal.SIGTERM, _exit)
        self._write(_HIDE_CURSOR)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Restore the terminal."""
        if not self._keep:
            self.erase()
        self._write(_SHOW_CURSOR)
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)

    @property
    def width(self) -> int:
        """The number of columns of the terminal."""
        return int(self._screen.width)

    @property
    def height(self) -> int:
        """The number of lines that can be drawn; the cursor needs one more."""
        return max(1, int(self._screen.height) - 1)

    def draw(self, renderable: RenderableType) -> None:
        """Replace the previous drawing by a renderable of rich, truncated to the height of the terminal."""
        with self._screen.capture() as captured:
            self._screen.print(renderable, no_wrap=True, overflow="ellipsis", crop=True)
        self._lines = captured.get().rstrip("\n").split("\n")[: self.height]
        self._show(self._erasing())

    def erase(self) -> None:
        """Erase the lines, to print something in their place."""
        self._write(self._erasing())
        self._drawn = []

    def redraw(self) -> None:
        """Put the lines back below what was printed."""
        self._show("")

    def _show(self, before: str) -> None:
        from rich.text import Text

        self._drawn = [Text.from_ansi(line).cell_len for line in self._lines]
        self._write(before + "".join(f"{line}\n" for line in self._lines))

    def _erasing(self) -> str:
        # a terminal that was made narrower has wrapped the lines
        width = max(1, self.width)
        rows = sum(max(1, -(-length // width)) for length in self._drawn)
        return f"\x1b[{rows}A\r{_ERASE_BELOW}" if rows else ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def drawn_lines(renderables: Sequence[RenderableType], width: int) -> int:
    """Return how many lines renderables of rich take, one below the other, in so many columns."""
    from rich.console import Console, Group

    measure = Console(width=width, file=io.StringIO(), force_terminal=False)
    return len(measure.render_lines(Group(*renderables), measure.options, pad=False))


def _exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(_TERMINATED)
