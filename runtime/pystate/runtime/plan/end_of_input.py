"""What a job has to do at the end of its input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.sink import SupportsCommitter
from pystate.core.api.checkpointed import BoundedOneInput
from pystate.runtime.plan.chain import function_object
from pystate.runtime.plan.job_plan import JobPlan


def hears_of_the_end(plan: JobPlan) -> bool:
    """Return whether a function is to be notified of the end of input."""
    return any(isinstance(function, BoundedOneInput) for function in _functions(plan))


def commits(plan: JobPlan) -> bool:
    """Return whether a sink commits what it has written once a checkpoint is complete."""
    operators = (function for function in _functions(plan) if isinstance(function, SinkOperator))
    return any(isinstance(operator.sink, SupportsCommitter) for operator in operators)


def writes_to_sinks(plan: JobPlan) -> bool:
    """Return whether a sink has writers, which may buffer elements."""
    return any(isinstance(function, SinkOperator) for function in _functions(plan))


def _functions(plan: JobPlan) -> Iterator[Any]:
    return (function_object(operator.function) for task in plan.tasks for operator in task.operators)
