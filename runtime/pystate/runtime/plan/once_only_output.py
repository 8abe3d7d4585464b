"""Finds the sinks that would write results twice if a job restarted from a snapshot before its newest one."""

from __future__ import annotations

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import CheckpointingOptions
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.operators.sink_operator import SinkOperator
from pystate.connectors.sink import SupportsCommitter
from pystate.core.api.transformations import SinkKind
from pystate.runtime.plan.chain import function_object
from pystate.runtime.plan.delivery_guarantees import sink_name
from pystate.runtime.plan.job_plan import JobPlan


def once_only_sinks(plan: JobPlan, configuration: Configuration) -> list[str]:
    """Return the names of sinks that are exactly-once only because the job always continues from its newest snapshot.

    Sinks that commit are, and functions that get each epoch with its number. Upserts are not, since they may be repeated;
    nor are results for the program, which are never taken back.

    Args:
        plan: The job.
        configuration: The options in force.
    """
    names = [
        sink_name(operator.name, function)
        for task in plan.tasks
        for operator in task.operators
        for function in [function_object(operator.function)]
        if isinstance(function, SinkOperator)
        and isinstance(function.sink, SupportsCommitter)
        and function.sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    ]
    if configuration.get(CheckpointingOptions.EVERY_EPOCH) and not plan.batch:
        names += [sink.step.name for sink in plan.sinks if sink.step.kind is SinkKind.FOR_EACH_BATCH]
    return list(dict.fromkeys(names))
