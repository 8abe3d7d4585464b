"""Triggers of checkpoints, savepoints and stops, and their results."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobNotFoundError, JobTerminatedError
from pystate.ops.jobmanager.rest.parameters import CHOSEN_TRIGGER_ID, JOB_ID, TRIGGER_ID
from pystate.ops.jobmanager.rest.route import RestRequest
from pystate.ops.jobmanager.supervision.cached_operations import OperationNotFoundError
from pystate.runtime.rest.operation_messages import TriggerResponse


def triggered(request: RestRequest, op: str, **arguments: Any) -> TriggerResponse:
    """Trigger an operation and return the answer with its id.

    Flink accepts a request for an unknown or ended job, and reports its failure with the result. pystate's own commands get
    the error at once.

    Args:
        request: The request.
        op: The driver's operation.
        arguments: Further arguments of the operation.

    Raises:
        JobNotFoundError, JobTerminatedError: The request is from pystate's client, and there is no such job, or it has
            ended.
        RequestRefusedError: The driver rejects it.
    """
    chosen = request[CHOSEN_TRIGGER_ID]
    try:
        request_id = request.job.operations.trigger(op, chosen, **arguments)
    except (JobNotFoundError, JobTerminatedError) as error:
        if request.is_ours:
            raise
        request_id = request.context.failed_triggers.add(request[JOB_ID], chosen, op.removeprefix("trigger_"), error)
    return TriggerResponse(request_id=request_id)


def operation(request: RestRequest, *, checkpoint: bool) -> dict[str, Any]:
    """Return the result of a trigger id, in the form of an operation's file.

    Args:
        request: The request.
        checkpoint: Whether to look for checkpoints, or for savepoints and stops.

    Raises:
        OperationNotFoundError: The job has no such operation, or it is of the other kind.
    """
    trigger_id = request[TRIGGER_ID]
    failed = request.context.failed_triggers.result(request[JOB_ID], trigger_id)
    found = request.job.operations.result(trigger_id) if failed is None else failed
    if found["status"] == "COMPLETED" and (found["kind"] == "checkpoint") is not checkpoint:
        wanted = "checkpoint" if checkpoint else "savepoint"
        message = f"The operation with trigger id {trigger_id} is no {wanted}."
        raise OperationNotFoundError(message)
    return found
