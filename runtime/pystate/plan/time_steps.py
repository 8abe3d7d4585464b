"""Steps that wait for time, and what becomes of them as long as no time reaches the tasks of a job."""

from __future__ import annotations

from collections.abc import Iterable

from pystate.api.job_graph import OneInputTransformation, Transformation, TwoInputTransformation
from pystate.api.window.operation import WindowOperation
from pystate.common.errors import JobGraphError
from pystate.plan.chain import has_on_timer


def refuse_steps_that_wait_for_time(steps: Iterable[Transformation]) -> None:
    """Refuse a job with timers, or with windows that fire by time: neither watermarks nor the clock reach its tasks yet.

    Raises:
        JobGraphError: It has such a step.
    """
    for step in steps:
        if isinstance(step, (OneInputTransformation, TwoInputTransformation)):
            function = step.function
            if isinstance(function, WindowOperation):
                what = "has windows that fire by time" if function.needs_time else None
            else:
                what = "has timers (on_timer)" if has_on_timer(function) else None
            if what is not None:
                message = f"{step.name!r} {what}: neither watermarks nor the clock reach the tasks of a job yet."
                hint = "count_window(...) needs no time; pystate.testing runs timers and all windows"
                raise JobGraphError(message, where=step.place, hint=hint)
