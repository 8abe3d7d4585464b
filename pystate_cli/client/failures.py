"""The root cause of a job's failure, for its author."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import PystateError, UserFunctionError, error_from_dict
from pystate.common.user_frames import add_user_frame


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
        add_user_frame(error, trace)
    error.__cause__ = JobStackTrace(trace) if trace else None
    return error
