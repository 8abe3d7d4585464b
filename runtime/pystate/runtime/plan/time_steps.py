"""Steps with event-time or processing-time timers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.transformations import OneInputTransformation, Transformation, TwoInputTransformation
from pystate.core.api.window.window_operation import WindowOperation
from pystate.runtime.plan.chain import has_on_timer
from pystate.runtime.plan.job_plan import JobPlan


def timer_notices(steps: Iterable[Transformation]) -> Iterator[str]:
    """Yield notices for authors of functions with timers, if time only advances between epochs."""
    for step in steps:
        if isinstance(step, (OneInputTransformation, TwoInputTransformation)) and has_on_timer(step.function):
            yield (
                f"{step.name!r} has timers (on_timer): event-time timers fire at the end of each epoch, "
                "processing-time timers at the end of the first epoch after their time, which begins then if no rows come."
            )


def waits_for_time(plan: JobPlan) -> bool:
    """Return whether a step has timers: it acts at the end of event time, or in processing time."""
    heads = [task.head.function for task in plan.tasks if task.head is not None]
    return any(map(_waits_for_time, heads))


def _waits_for_time(function: Any) -> bool:
    if isinstance(function, WindowOperation):
        return function.needs_time
    return isinstance(function, IntervalJoinOperation) or has_on_timer(function)
