"""`--watch`: polls and redraws until the end, or until the user stops it."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from pystate.common.errors import UsageError
from pystate_cli.console.console import Console

if TYPE_CHECKING:
    from rich.console import RenderableType

WatchOption = Annotated[
    bool, typer.Option("--watch", help="Show it again and again; q or Ctrl-C ends that.", show_default=False)
]
IntervalOption = Annotated[float, typer.Option("-n", "--interval", metavar="SECONDS", min=0.1, help="How often to look.")]
DEFAULT_INTERVAL = 2.0


def refuse_watched_json(watched: bool, as_json: bool) -> None:
    """Reject `--watch` together with `--json`.

    Raises:
        UsageError: Both were given.
    """
    if watched and as_json:
        message = "--watch shows no JSON."
        raise UsageError(message, hint="leave one of --watch and --json out")


class Watched(Protocol):
    """The output of a command at one point in time."""

    @property
    def is_last(self) -> bool:
        """Whether nothing will change any more."""

    def block(self) -> list[str]:
        """Return the lines for a pipe; a block like the one before is not printed."""

    def view(self, width: int, height: int) -> RenderableType:
        """Return the output for a terminal of that size."""


def watch(console: Console, look: Callable[[], Watched], seconds: float, *, gap: bool = True) -> None:
    """Show what `look` returns, redrawn in place on a terminal, a block per change in a pipe.

    It ends with the last sample, with q and with Ctrl-C; none of these is a failure.

    Args:
        console: The console.
        look: Takes a sample.
        seconds: The time between two samples.
        gap: Whether to print an empty line between blocks in a pipe.
    """
    with ExitStack() as stack:
        keyboard = stack.enter_context(Keyboard())
        try:
            if console.is_terminal:
                _watch_on_terminal(console, look, seconds, keyboard)
            else:
                _watch_in_pipe(console, look, seconds, keyboard, gap=gap)
        except KeyboardInterrupt:
            return


def _watch_on_terminal(console: Console, look: Callable[[], Watched], seconds: float, keyboard: Keyboard) -> None:
    with console.redrawn_result() as region:
        while True:
            watched = look()
            region.draw(watched.view(region.width, region.height))
            if watched.is_last or "q" in keyboard.wait(seconds).lower():
                return


def _watch_in_pipe(console: Console, look: Callable[[], Watched], seconds: float, keyboard: Keyboard, *, gap: bool) -> None:
    before: list[str] | None = None
    while True:
        watched = look()
        block = watched.block()
        if block != before:
            for line in [*([""] if gap and before is not None else []), *block]:
                console.result(line)
            before = block
        if watched.is_last:
            return
        keyboard.wait(seconds)


_STDIN = 0


class Keyboard:
    """A context manager that reads keys without echo; if stdin isn't a terminal it only waits."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Keyboard:
        """Read keys as they are pressed. Ctrl-C stays a signal."""
        if sys.stdin is not None and os.isatty(_STDIN):
            self._before = termios.tcgetattr(_STDIN)
            tty.setcbreak(_STDIN)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Restore the terminal."""
        if self._before is not None:
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Return the keys pressed within that time, as soon as there are some; else an empty string."""
        if self._before is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([_STDIN], [], [], seconds)
        return os.read(_STDIN, 64).decode(errors="replace") if ready else ""
