"""Calls user code: what it raises becomes a failure of its task."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pystate
from pystate.common.bounded_text import MAX_TRACE, bounded_text
from pystate.common.errors import ControlError, PystateError, RecordError, UserFunctionError

_NO_END = "a function can't end its job: return, raise an exception, or stop the job from outside"
_OUR_CODE = str(Path(pystate.__file__).parent)


class UserCode:
    """Turns what user code raises into a failure of the task, told with the user's own stack trace.

    Args:
        where: The subtask, for errors.
        fail: Takes the error and the stack trace.
    """

    def __init__(self, where: str, fail: Callable[[PystateError, str], None]) -> None:
        self._where = where
        self._fail = fail

    def __enter__(self) -> None:
        """Enter."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Report what is the user's; what is ours or the connection's goes on as it is."""
        if error is None or isinstance(error, (ControlError, GeneratorExit)):
            return
        stack_trace = user_stack_trace(error)
        if isinstance(error, PystateError):
            failure = error
            if isinstance(error, RecordError) and error.where is not None:
                failure.where = f"{self._where}, {error.where}"  # it knows the stream, we the operator
            failure.where = failure.where or self._where
        else:
            hint = None if isinstance(error, Exception) else _NO_END
            failure = UserFunctionError(bounded_text(f"{type(error).__name__}: {error}"), where=self._where, hint=hint)
        self._fail(failure, stack_trace)
        raise failure from error


def user_stack_trace(error: BaseException) -> str:
    """Return the stack trace from the first frame that isn't ours on; the whole of it where all frames are."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OUR_CODE):
        trace = trace.tb_next
    return bounded_text("".join(traceback.format_exception(type(error), error, trace or error.__traceback__)), MAX_TRACE)
