"""Output of the commands: the only module that prints.

stdout has only the result of a command: an id, a path, a table, the output of an attached job. Everything else goes to
    stderr.

Names, messages and values come from untrusted snapshots, jobs and files. So control characters and line breaks are removed
from all text here, whatever view it comes from. The output of a job goes to a pipe unchanged.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from pystate.common.errors import PystateError
from pystate.common.text.bounded_text import steady_line, steady_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.status import Status

    from pystate.common.stream_guarantee import StreamGuarantee
    from pystate_cli.console.live_region import LiveRegion
    from pystate_cli.console.terminal_filter import TerminalFilter

ShowProgress = Callable[[int, int, int, str], None]
"""Takes how many subtasks acknowledged, of how many, and the bytes written so far."""

_RED, _YELLOW, _DIM, _RESET = "\x1b[1;31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"
_MIN_WIDTH = 40
_DELETE, _DELETE_IN_JSON = "\x7f", "\\u007f"
_INDENT = "  "
_MAX_UNFINISHED_BYTES = 1 << 20


class OutputError(PystateError):
    """stdout can't be written: it is closed, or its disk is full."""


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
        self._region: LiveRegion | None = None
        self._spinner: Status | None = None
        self._unfinished_line = b""
        self._filter: TerminalFilter | None = None
        for stream in (self._stdout, self._stderr):
            if hasattr(stream, "reconfigure"):  # the name of a job must not break a terminal without UTF-8
                stream.reconfigure(errors="backslashreplace")

    @property
    def is_terminal(self) -> bool:
        """Whether stdout is a terminal."""
        return self._stdout.isatty()

    # -- stdout

    def result(self, line: str) -> None:
        """Print a line of the result.

        Raises:
            OutputError: It can't be written.
        """
        self.result_text(steady_line(line))

    def result_text(self, text: str) -> None:
        """Print a result that may have several lines.

        Raises:
            OutputError: It can't be written.
        """
        with self._writing():
            self._stdout.write(f"{steady_text(text)}\n")
            self._stdout.flush()

    def result_json(self, data: Any) -> None:
        """Print the result as JSON, with camelCase keys."""
        import json

        from pystate.common.text.plain_data import to_plain
        from pystate_cli.console.json_keys import with_our_keys

        self.result_text(json.dumps(with_our_keys(to_plain(data)), indent=2).replace(_DELETE, _DELETE_IN_JSON))

    def result_json_line(self, data: Any) -> None:
        """Print one of many results as JSON, on one line."""
        import json

        self.result(json.dumps(data).replace(_DELETE, _DELETE_IN_JSON))

    def raw(self, data: bytes) -> None:
        """Write the output of a job: unchanged to a pipe, filtered to a terminal.

        Above a live view on the same terminal only whole lines are printed, very long ones in pieces.
        """
        if self._region is not None and self._stdout.isatty():
            whole, newline, rest = (self._unfinished_line + data).rpartition(b"\n")
            if len(rest) >= _MAX_UNFINISHED_BYTES:
                whole, newline, rest = whole + newline + rest, b"\n", b""
            data, self._unfinished_line = whole + newline, rest
        if self._stdout.isatty():
            data = self._filtered(data)
        with self._writing():
            self._stdout.flush()
            self._stdout.buffer.write(data)
            self._stdout.buffer.flush()

    def render(self, renderable: RenderableType) -> None:
        """Print a renderable of rich."""
        with self._writing():
            # a path longer than a line must not be broken: the terminal wraps it, and it can be copied
            self._rich(self._stdout).print(renderable, soft_wrap=True)

    @contextlib.contextmanager
    def redrawn_result(self) -> Iterator[LiveRegion]:
        """Yield a result that is redrawn in place on the terminal; its last drawing stays."""
        from pystate_cli.console.live_region import LiveRegion

        with LiveRegion(self._stdout, self._rich(self._stdout), keep=True) as region:
            yield region

    @property
    def width(self) -> int:
        """The number of columns of the terminal."""
        return max(_MIN_WIDTH, int(self._rich(self._stdout).width))

    @property
    def has_unicode(self) -> bool:
        """Whether stdout can show more than ASCII."""
        return _speaks_unicode(self._stdout)

    # -- stderr

    @property
    def can_redraw(self) -> bool:
        """Whether stderr is a terminal whose cursor can be moved."""
        return self._stderr.isatty() and not _is_dumb()

    @property
    def info_has_unicode(self) -> bool:
        """Whether stderr can show more than ASCII."""
        return _speaks_unicode(self._stderr)

    @contextlib.contextmanager
    def live_view(self) -> Iterator[LiveRegion]:
        """Yield a view below everything else that is printed meanwhile; it is erased at the end."""
        from pystate_cli.console.live_region import LiveRegion

        with LiveRegion(self._stderr, self._rich(self._stderr), keep=False) as region:
            self._region = region
            try:
                yield region
            finally:
                self._region = None
                region.erase()
                rest, self._unfinished_line = self._unfinished_line, b""
                if rest:
                    self.raw(rest + b"\n")

    def info(self, line: str) -> None:
        """Print an informational line."""
        self._tell(steady_line(line))

    def guarantees(self, guarantees: Sequence[StreamGuarantee]) -> None:
        """Print the delivery guarantees of a job; wrapped on a terminal."""
        from pystate.common.stream_guarantee import guarantee_lines

        width = max(_MIN_WIDTH, int(self._rich(self._stderr).width)) if self._stderr.isatty() else None
        for line in guarantee_lines(guarantees, width, unicode=self.info_has_unicode):
            self.info(line)

    def warning(self, line: str) -> None:
        """Print a warning; wrapped between words on a terminal."""
        head = "warning:"
        lines = _indented(f"{head} {line}")
        if self._stderr.isatty():
            from pystate_cli.console.word_wrap import wrapped

            width = max(_MIN_WIDTH, int(self._rich(self._stderr).width))
            lines = [part for line in lines for part in wrapped(line, width, _INDENT)]
        first, *rest = lines
        self._tell("\n".join([self._style(_YELLOW, head) + first.removeprefix(head), *rest]))

    def error(self, error: PystateError) -> None:
        """Print an error: what happened, where, and what to do."""
        first, *rest = _indented(str(error) or type(error).__name__)
        self._tell("\n".join([f"{self._style(_RED, 'error:')} {first}", *rest]))
        if self.verbose:
            from pystate_cli.client.failures import JobStackTrace

            there = error.__cause__
            trace = there.text if isinstance(there, JobStackTrace) else "".join(traceback.format_exception(error))
            self._tell(self._style(_DIM, steady_text(trace.rstrip())))

    @property
    def can_ask(self) -> bool:
        """Whether a user can answer a question."""
        return sys.stdin.isatty() and self._stderr.isatty()

    def confirm(self, question: str) -> bool:
        """Ask on stderr, and return whether the answer is yes; an empty answer is no."""
        self.info(f"{question} [y/N]")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Show a waiting indicator on a terminal."""
        if not self.can_redraw:
            yield
            return
        with self._rich(self._stderr).status(text, spinner="dots" if self.info_has_unicode else "line") as spinner:
            self._spinner = spinner
            try:
                yield
            finally:
                self._spinner = None

    @contextlib.contextmanager
    def progress(self, text: str, *, waiter: str | None = None) -> Iterator[ShowProgress | None]:
        """Yield a function that updates a progress bar of acknowledgements on a terminal.

        Args:
            text: What the bar is for.
            waiter: Without a bar, a line reports once that this waits for an epoch's end; None for no line.
        """
        if not self.can_redraw:
            yield None if waiter is None else self._tell_wait(waiter)
            return
        from pystate_cli.console.progress_bar import progress_bar

        with progress_bar(self._rich(self._stderr), text, unicode=self.info_has_unicode) as show:
            yield show

    @contextlib.contextmanager
    def bytes_progress(self, text: str, total: int) -> Iterator[Callable[[int], object]]:
        """Yield a function that updates a progress bar of bytes on a terminal."""
        if not self.can_redraw:
            yield lambda _: None
            return
        from pystate_cli.console.progress_bar import bytes_bar

        with bytes_bar(self._rich(self._stderr), text, total, unicode=self.info_has_unicode) as show:
            yield show

    # -- internals

    def _tell(self, text: str) -> None:
        with self._above_region():
            self._stderr.write(f"{text}\n")
            self._stderr.flush()

    def _filtered(self, data: bytes) -> bytes:
        if self._filter is None:
            from pystate_cli.console.terminal_filter import TerminalFilter

            self._filter = TerminalFilter(self._stdout.encoding)
        return self._filter(data)

    def _tell_wait(self, waiter: str) -> ShowProgress:
        seen = 0

        def show(acknowledged: int, total: int, size: int, waits: str) -> None:
            nonlocal seen
            seen = seen + 1 if waits or seen >= 2 else 0
            if seen == 2:  # not at once: a wait that is over by the next poll isn't worth a line
                self.info(f"{waiter} {waits}.")

        return show

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Convert errors of stdout to `OutputError`, except a closed pipe."""
        with self._above_region():
            try:
                yield
            except BrokenPipeError:
                raise
            except OSError as error:
                message = f"The result can't be written to stdout: {error.strerror or error}."
                raise OutputError(message, hint="what stderr tells of is done all the same") from error

    @contextlib.contextmanager
    def _above_region(self) -> Iterator[None]:
        region, spinner = self._region, self._spinner
        if region is not None:
            region.erase()
        elif spinner is not None:
            spinner.stop()
        try:
            yield
        finally:
            if region is not None:
                region.redraw()
            elif spinner is not None:
                spinner.start()

    def _style(self, style: str, text: str) -> str:
        plain = not self.can_redraw or "NO_COLOR" in os.environ
        return text if plain else f"{style}{text}{_RESET}"

    @staticmethod
    def _rich(stream: TextIO) -> Any:
        from pystate_cli.console.steady_screen import SteadyScreen

        return SteadyScreen(file=stream, highlight=False, markup=False, emoji=False)


def _indented(text: str) -> list[str]:
    """Return the lines of a text; all but the first are indented, so that none looks like a separate message."""
    first, *rest = steady_text(text).split("\n")
    return [first, *(line if line.startswith(_INDENT) else _INDENT + line for line in rest)]


def _is_dumb() -> bool:
    return os.environ.get("TERM") == "dumb"


def _speaks_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")
