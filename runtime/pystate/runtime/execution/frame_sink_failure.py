"""Converts exceptions of `for_each_batch` functions to failures of their sinks."""

from __future__ import annotations

from pystate.common.errors import UserFunctionError
from pystate.common.user_code.user_errors import user_failure
from pystate.common.user_code.user_frames import user_frame, user_stack_trace
from pystate.core.api.transformations import SinkTransformation


def failure_of_frame_sink(step: SinkTransformation, error: BaseException) -> UserFunctionError:
    """Return the failure for an exception of a sink's function.

    Args:
        step: The sink.
        error: What the function raised.
    """
    failure = user_failure(error, f"sink {step.name}" + (f" (uid {step.uid})" if step.uid else ""))
    if isinstance(error, TypeError) and not user_frame(user_stack_trace(error)):
        failure.hint = "for_each_batch() calls function(frame, epoch)"
    return failure
