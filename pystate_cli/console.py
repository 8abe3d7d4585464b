"""The only place that prints.

stdout carries the result of a command and nothing else: an id, a path, a table, what an attached job prints. What is told on
the way goes to stderr.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from pystate.common.errors import PystateError

if TYPE_CHECKING:
    from rich.console import RenderableType

_RED, _YELLOW, _DIM, _RESET = "\x1b[1;31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"
_MIN_WIDTH = 40


class Console:
    """Prints for one command.

    Args:
        stdout: For results.
        stderr: For the rest.
    """

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self._stdout = stdout or sys.stdout
        self._stderr = stderr or sys.stderr
        self.verbose = False
        for stream in (self._stdout, self._stderr):
            if hasattr(stream, "reconfigure"):  # a name of a job must not be able to break a terminal without UTF-8
                stream.reconfigure(errors="backslashreplace")

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at stdout."""
        return self._stdout.isatty()

    # -- stdout

    def result(self, line: str) -> None:
        """Print a line of the result."""
        self._stdout.write(f"{line}\n")
        self._stdout.flush()

    def result_json(self, data: Any) -> None:
        """Print the result as JSON."""
        import json

        self.result(json.dumps(data, indent=2))

    def raw(self, data: bytes) -> None:
        """Hand bytes on as they are."""
        self._stdout.flush()
        self._stdout.buffer.write(data)
        self._stdout.buffer.flush()

    def render(self, renderable: RenderableType) -> None:
        """Print something of rich."""
        self._rich(self._stdout).print(renderable)

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return max(_MIN_WIDTH, int(self._rich(self._stdout).width))

    @property
    def has_unicode(self) -> bool:
        """Whether stdout can show more than ASCII."""
        return (self._stdout.encoding or "").lower().replace("-", "").startswith("utf")

    # -- stderr

    def story(self, line: str) -> None:
        """Tell what happens."""
        self._stderr.write(f"{line}\n")
        self._stderr.flush()

    def warning(self, line: str) -> None:
        """Tell what should be changed."""
        self.story(f"{self._style(_YELLOW, 'warning:')} {line}")

    def error(self, error: PystateError) -> None:
        """Tell what went wrong, where, and what to do."""
        first, *rest = str(error).splitlines() or [type(error).__name__]
        self.story(f"{self._style(_RED, 'error:')} {first}")
        for line in rest:
            self.story(line)
        if self.verbose:
            self.story(self._style(_DIM, "".join(traceback.format_exception(error)).rstrip()))

    def details(self, text: str) -> None:
        """Tell what only -v asks for."""
        if self.verbose:
            self.story(self._style(_DIM, text.rstrip()))

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show on a terminal that something takes its time."""
        if not self._stderr.isatty() or os.environ.get("TERM") == "dumb":
            yield
            return
        with self._rich(self._stderr).status(text):
            yield

    # -- inner workings

    def _style(self, style: str, text: str) -> str:
        plain = not self._stderr.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        return text if plain else f"{style}{text}{_RESET}"

    @staticmethod
    def _rich(stream: TextIO) -> Any:
        from rich.console import Console as RichConsole

        return RichConsole(file=stream, highlight=False, markup=False, emoji=False)
