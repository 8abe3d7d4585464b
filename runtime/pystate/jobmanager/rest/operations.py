"""What became of checkpoints and savepoints that were triggered."""

from __future__ import annotations

from typing import Any

from pystate.jobmanager.rest import messages
from pystate.jobmanager.rest.parameters import TRIGGER_ID
from pystate.jobmanager.rest.route import RestRequest
from pystate.jobmanager.supervised_job import OperationNotFoundError


def operation_result(request: RestRequest, *, checkpoint: bool) -> dict[str, Any]:
    """Return the answer about a trigger id.

    Args:
        request: The request.
        checkpoint: Whether checkpoints are asked for, or savepoints and stops.

    Raises:
        OperationNotFoundError: The job has no such operation, or it is of the other kind.
    """
    trigger_id = request[TRIGGER_ID]
    operation = request.job.operation(trigger_id)
    if operation["status"] == "COMPLETED" and messages.is_checkpoint(operation) is not checkpoint:
        wanted = "checkpoint" if checkpoint else "savepoint"
        message = f"The operation with trigger id {trigger_id} is no {wanted}."
        raise OperationNotFoundError(message)
    return messages.operation_result(operation)
