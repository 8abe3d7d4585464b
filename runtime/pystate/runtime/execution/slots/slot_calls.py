"""RPCs of subtasks to the coordinator: acknowledge and decline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystate.common.errors import ControlError, CorruptSnapshotError, error_from_dict
from pystate.core.snapshot.operator_state import TaskState
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.pending_checkpoint import AckResult
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics

if TYPE_CHECKING:
    from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator


CHECKPOINT_CALLS = frozenset({"acknowledge", "decline"})


def answer_slot_call(coordinator: CheckpointCoordinator, op: str, arguments: dict[str, Any]) -> Any:
    """Answer a call of a slot's subtasks: of several that acknowledge, or of one that declines.

    Raises:
        PystateError: It is refused.
    """
    if op == "acknowledge":
        return [_acknowledge(coordinator, part) for part in arguments["parts"]]
    if op == "decline":
        reason = CheckpointFailureReason[arguments["reason"]]
        return coordinator.decline(arguments["checkpoint_id"], error_from_dict(arguments["error"]), reason)
    message = f"The coordinator does not know the op {op!r}."
    raise ControlError(message)


def _acknowledge(coordinator: CheckpointCoordinator, part: dict[str, Any]) -> str:
    """Process the acknowledgement of a subtask; the checkpoint is declined if it can't be read."""
    checkpoint_id, uid, subtask = part["checkpoint_id"], part["uid"], part["subtask"]
    try:
        state = TaskState.from_packed(part["state"])
        metrics = SubtaskCheckpointMetrics.from_plain(part["metrics"])
    except CorruptSnapshotError as error:
        error.where = f"subtask {subtask} of {uid!r}"
        coordinator.decline(checkpoint_id, error, CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
        return AckResult.DISCARDED.value
    return coordinator.acknowledge(checkpoint_id, uid, subtask, state, metrics).value
