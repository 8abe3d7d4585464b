"""Finds stack frames of user code, in stack traces and on the current stack."""

from __future__ import annotations

import functools
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from types import FrameType

import pystate
from pystate.common.errors import PystateError
from pystate.common.text.bounded_text import MAX_TRACE, bounded_text

_FRAME = re.compile(r'^ +(File "(?P<file>[^"\n]+)", line \d+(?:, in .+)?)$')
_PLACE = re.compile(r'File "(.+)", (line \d+)(?:, in .+)?')
_HEADING = "Traceback (most recent call last):"
_OURS = str(Path(pystate.__file__).parent)
_OTHERS = (_OURS, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
_SHIPPED = re.compile(r"[/\\](pystate-[0-9a-f]{16}\.zip|site-packages|dist-packages)[/\\]")
"""Where an executor keeps what isn't the author's: pystate as it was shipped, and the packages of a Python of its own."""


def user_frame(stack_trace: str) -> list[str]:
    """Return the lines of the last user frame: `File "...", line N, in f`.

    For a syntax error, they include the text of the line and the caret. Empty if there is no such frame.
    """
    lines = stack_trace.rpartition(_HEADING)[2].splitlines()
    frames = [(index, found) for index, line in enumerate(lines) if (found := _FRAME.match(line)) is not None]
    own = [(index, found) for index, found in frames if not is_library(found["file"])]
    if not own:
        return []
    index, found = own[-1]
    if ", in " in found[1]:
        return [found[1]]
    rest = []
    for line in lines[index + 1 :]:
        if not line.startswith("    "):
            break
        rest.append(line)
    return [found[1], *rest]


def user_stack_trace(error: BaseException) -> str:
    """Return the stack trace from the first frame outside of pystate; the whole trace if there is none."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return bounded_text("".join(traceback.format_exception(type(error), error, trace or error.__traceback__)), MAX_TRACE)


def add_user_frame(error: PystateError, stack_trace: str) -> None:
    """Add the last user frame of the stack trace to an error, unless it names one already."""
    frame = user_frame(stack_trace)
    if frame and frame[0] not in (error.where or ""):
        error.where = _joined(error.where, frame)


def program_line() -> str | None:
    """Return the program's current line: the innermost user frame of the calling thread, as "FILE, line N"."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - what `inspect` does, at a thousandth of the cost
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else f"{frame.f_code.co_filename}, line {frame.f_lineno}"


@functools.lru_cache(maxsize=1024)
def is_library(file: str) -> bool:
    """Whether a file belongs to pystate, Python or an installed package, and not to the author of a job."""
    if file.startswith(("<frozen ", "<string>")) or _SHIPPED.search(file):
        return True
    path = Path(file)
    return any(path.is_relative_to(folder) for folder in _OTHERS)


def _joined(where: str | None, frame: list[str]) -> str:
    first, *rest = frame
    if where is None:
        return "\n".join([first, *rest])
    found = _PLACE.fullmatch(first)
    if found is not None and where in (found[1], f"{found[1]}, {found[2]}"):
        return "\n".join([first, *rest])
    return "\n".join([where, f"      {first}", *rest])
