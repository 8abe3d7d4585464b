"""Triggers of checkpoints, savepoints and stops, and what became of them."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobNotFoundError, JobTerminatedError
from pystate.ops.jobmanager.cached_operations import OperationNotFoundError
from pystate.ops.jobmanager.rest.parameters import CHOSEN_TRIGGER_ID, JOB_ID, TRIGGER_ID
from pystate.ops.jobmanager.rest.route import RestRequest
from pystate.runtime.rest.operation_messages import TriggerResponse


def triggered(request: RestRequest, op: str, **arguments: Any) -> TriggerResponse:
    """Trigger an operation and return the answer with its id.

    Flink takes a request for a job that it doesn't know, or that has ended, and answers who asks for the result that it
    failed. A person at our own command is told at once.

    Args:
        request: The request.
        op: What the driver calls it.
        arguments: Further ones of the driver.

    Raises:
        JobNotFoundError, JobTerminatedError: Our own client asks, and there is no such job, or it has ended.
        RequestRefusedError: The driver refuses it.
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
    """Return what is known of a trigger id, in the form of an operation's file.

    Args:
        request: The request.
        checkpoint: Whether checkpoints are asked for, or savepoints and stops.

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
