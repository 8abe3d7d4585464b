"""What subtasks tell the coordinator and ask of it, as it comes over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystate.checkpoint.metadata import TaskState
from pystate.checkpoint.stats.checkpoint_stats import SubtaskCheckpointMetrics
from pystate.common.errors import ControlError, error_from_dict
from pystate.slot.micro_batch.prepared_epoch import PreparedEpoch

if TYPE_CHECKING:
    from pystate.driver.checkpoint_coordinator import CheckpointCoordinator


def answer_slot_call(coordinator: CheckpointCoordinator, op: str, arguments: dict[str, Any]) -> Any:
    """Answer a call of a subtask.

    Raises:
        PystateError: It is refused.
    """
    uid, subtask = arguments["uid"], arguments["subtask"]
    if op == "epoch_prepared":
        return coordinator.state.subtask_prepared(uid, subtask, PreparedEpoch.from_plain(arguments["prepared"]))
    if op == "acknowledge":
        state = TaskState.from_plain(arguments["state"])
        metrics = SubtaskCheckpointMetrics.from_plain(arguments["metrics"])
        return coordinator.state.acknowledge(arguments["checkpoint_id"], uid, subtask, state, metrics).value
    if op == "decline":
        return coordinator.state.decline(arguments["checkpoint_id"], error_from_dict(arguments["error"]))
    message = f"The coordinator does not know the op {op!r}."
    raise ControlError(message)
