"""The root cause of a job's failure, for the author of the job."""

from __future__ import annotations

from pystate.common.errors import PystateError, UserFunctionError
from pystate.common.user_code.user_frames import add_user_frame
from pystate.runtime.rest.failure_messages import OurError


class JobStackTrace(Exception):
    """The cause of an error in a job, with the remote stack trace, which is more useful than the local one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def failure_of(ours: OurError, trace: str) -> PystateError:
    """Return an error with its remote stack trace as the cause, and the last frame of user code as its place."""
    error, name = ours.error(), ours.class_name
    foreign = type(error) is PystateError and name != PystateError.__name__
    if foreign:
        # an exception of other code: its message alone may say little
        error = PystateError(f"{name}: {error.message}", where=error.where, hint=error.hint)
    if foreign or isinstance(error, UserFunctionError):
        add_user_frame(error, trace)
    error.__cause__ = JobStackTrace(trace) if trace else None
    return error
