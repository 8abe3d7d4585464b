"""Steps that wait for the clock, and what becomes of them as long as the clock makes no epochs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pystate.api.interval_join_operation import IntervalJoinOperation
from pystate.api.job_graph import OneInputTransformation, Transformation, TwoInputTransformation
from pystate.api.window.operation import WindowOperation
from pystate.common.errors import JobGraphError
from pystate.plan.chain import has_on_timer
from pystate.plan.job_plan import JobPlan


def check_steps_that_wait_for_the_clock(steps: Iterable[Transformation]) -> Iterator[str]:
    """Refuse windows that fire by the clock, and yield what authors of functions with timers should know.

    Raises:
        JobGraphError: A window fires by the clock, which makes no epochs on a stream that stands still.
    """
    for step in steps:
        if not isinstance(step, (OneInputTransformation, TwoInputTransformation)):
            continue
        function = step.function
        if isinstance(function, WindowOperation):
            if function.fires_by_clock:
                message = f"{step.name!r} has windows that fire by the clock: it makes no epochs of a job yet."
                hint = "windows of event time, or count_window(...); pystate.testing runs all windows"
                raise JobGraphError(message, where=step.place, hint=hint)
        elif has_on_timer(function):
            yield (
                f"{step.name!r} has timers (on_timer): those of event time fire at the end of each epoch, those by "
                "the clock with the next epoch after their time, which begins when rows come."
            )


def waits_for_time(plan: JobPlan) -> bool:
    """Return whether a step does something at the end of event time that it has not done before."""
    heads = [task.head.function for task in plan.tasks if task.head is not None]
    return any(map(_waits_for_time, heads))


def _waits_for_time(function: Any) -> bool:
    if isinstance(function, WindowOperation):
        return function.needs_time
    return isinstance(function, IntervalJoinOperation) or has_on_timer(function)
