"""RPCs of subtasks to the coordinator: acknowledge and decline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystate.common.errors import ControlError, error_from_dict
from pystate.core.snapshot.metadata import TaskState
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics

if TYPE_CHECKING:
    from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator


CHECKPOINT_CALLS = frozenset({"acknowledge", "decline"})


def answer_slot_call(coordinator: CheckpointCoordinator, op: str, arguments: dict[str, Any]) -> Any:
    """Answer a call of a subtask.

    Raises:
        PystateError: It is refused.
    """
    uid, subtask = arguments["uid"], arguments["subtask"]
    if op == "acknowledge":
        state = TaskState.from_plain(arguments["state"])
        metrics = SubtaskCheckpointMetrics.from_plain(arguments["metrics"])
        return coordinator.acknowledge(arguments["checkpoint_id"], uid, subtask, state, metrics).value
    if op == "decline":
        reason = CheckpointFailureReason[arguments["reason"]]
        return coordinator.decline(arguments["checkpoint_id"], error_from_dict(arguments["error"]), reason)
    message = f"The coordinator does not know the op {op!r}."
    raise ControlError(message)
