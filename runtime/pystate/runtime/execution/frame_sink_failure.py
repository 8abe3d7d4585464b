"""What a function of `for_each_batch` raises, as a failure of its sink."""

from __future__ import annotations

from pystate.common.errors import UserFunctionError
from pystate.common.user_code.user_errors import user_failure
from pystate.common.user_code.user_frames import user_frame, user_stack_trace
from pystate.core.api.job_graph import SinkTransformation


def failure_of_frame_sink(step: SinkTransformation, error: BaseException) -> UserFunctionError:
    """Return the failure that an exception of a sink's function is.

    Args:
        step: The sink.
        error: What the function raised.
    """
    failure = user_failure(error, f"sink {step.name}" + (f" (uid {step.uid})" if step.uid else ""))
    if isinstance(error, TypeError) and not user_frame(user_stack_trace(error)):
        failure.hint = "for_each_batch() calls function(frame, epoch)"
    return failure
