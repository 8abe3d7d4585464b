"""Converts errors of user code to failures of its task."""

from __future__ import annotations

from collections.abc import Callable

from pystate.common.errors import ControlError, PystateError, RecordError
from pystate.common.user_code.user_errors import user_failure
from pystate.common.user_code.user_frames import user_frame, user_stack_trace


class UserCode:
    """A context manager that reports errors of user code as task failures, with the user's own stack trace.

    Args:
        where: The subtask, for errors.
        fail: Receives the error and the stack trace.
        failed_at: Describes the record that the functions were processing; None if unknown.
    """

    def __init__(
        self, where: str, fail: Callable[[PystateError, str], None], failed_at: Callable[[], str | None] = lambda: None
    ) -> None:
        self._where = where
        self._fail = fail
        self._failed_at = failed_at

    def __enter__(self) -> None:
        """Enter."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Report errors of user code; errors of pystate or of connections propagate."""
        if error is None or isinstance(error, ControlError):
            return
        stack_trace = user_stack_trace(error)
        if isinstance(error, GeneratorExit) and not user_frame(stack_trace):
            return  # who asked for the rows has gone
        record = self._failed_at()
        where = self._where if record is None else f"{self._where}, {record}"
        if isinstance(error, PystateError):
            failure = error
            if isinstance(error, RecordError) and error.where is not None:
                failure.where = f"{where}, {error.where}"  # the error knows the stream, this object the operator
            failure.where = failure.where or where
        else:
            failure = user_failure(error, where)
            if isinstance(error, TypeError) and not user_frame(stack_trace) and "not iterable" in str(error):
                failure.hint = "yield the results, or return them in a list"  # the returned value has been iterated
        self._fail(failure, stack_trace)
        raise failure from error
