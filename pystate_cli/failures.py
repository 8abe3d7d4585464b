"""What a job failed of, as its author needs to see it."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Any

import pystate
from pystate.common.errors import PystateError, UserFunctionError, error_from_dict

_FRAME = re.compile(r'^ +(File "(?P<file>[^"\n]+)", line \d+(?:, in .+)?)$')
_HEADING = "Traceback (most recent call last):"
_OTHERS = (str(Path(pystate.__file__).parent), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


class JobStackTrace(Exception):
    """The cause of an error that happened in a job: the trace of there, which is worth more than ours."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def failure_of(cause: dict[str, Any]) -> PystateError:
    """Return the error in a failure cause, with its stack trace as the cause and the user's own last frame in its place."""
    trace = str(cause.get("stack-trace") or "")
    ours = cause.get("pystate")
    if not isinstance(ours, dict):
        return PystateError((trace or str(cause.get("class") or "unknown failure")).splitlines()[0])
    error = error_from_dict(ours)
    name = ours.get("class")
    foreign = type(error) is PystateError and name not in (None, PystateError.__name__)
    if foreign:
        # somebody else's exception: its message alone may say little
        error = PystateError(f"{name}: {error.message}", where=error.where, hint=error.hint)
    if foreign or isinstance(error, UserFunctionError):
        frame = user_frame(trace)
        if frame:
            error.where = _joined(error.where, frame)
    error.__cause__ = JobStackTrace(trace) if trace else None
    return error


def user_frame(stack_trace: str) -> list[str]:
    """Return the lines of the last frame that is the user's: `File "...", line N, in f`.

    A syntax error's frame goes on with the text of the line and the caret. Empty where there is no such frame.
    """
    lines = stack_trace.rpartition(_HEADING)[2].splitlines()
    frames = [(index, found) for index, line in enumerate(lines) if (found := _FRAME.match(line)) is not None]
    own = [(index, found) for index, found in frames if not _is_library(found["file"])]
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


def _is_library(file: str) -> bool:
    if file.startswith("<frozen "):
        return True
    path = Path(file)
    return any(path.is_relative_to(folder) for folder in _OTHERS)


def _joined(where: str | None, frame: list[str]) -> str:
    first, *rest = frame
    if where is None:
        return "\n".join([first, *rest])
    found = re.fullmatch(r'File "(.+)", (line \d+)(?:, in .+)?', first)
    if found is not None and where in (found[1], f"{found[1]}, {found[2]}"):
        return "\n".join([first, *rest])
    return "\n".join([where, f"      {first}", *rest])
