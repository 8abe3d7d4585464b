"""The reasons why checkpoints fail: those of Flink's list that can occur here."""

from __future__ import annotations

from enum import Enum


class CheckpointFailureReason(Enum):
    """The reason of a checkpoint failure, with its message."""

    IO_EXCEPTION = "The checkpoint could not be started on its storage."
    TRIGGER_CHECKPOINT_FAILURE = "The checkpoint could not be triggered."
    CHECKPOINT_ASYNC_EXCEPTION = "A subtask could not write its state."
    CHECKPOINT_EXPIRED = "The checkpoint expired before it was complete."
    CHECKPOINT_SUBSUMED = "A newer checkpoint completed first."
    CHECKPOINT_DECLINED = "A subtask declined the checkpoint."
    CHECKPOINT_DECLINED_SUBSUMED = "A subtask got the barrier of a newer checkpoint before all of this one's."
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "A task upstream of a subtask had cancelled the checkpoint."
    CHECKPOINT_COORDINATOR_SHUTDOWN = "The checkpoint coordinator shut down."
    CHECKPOINT_COORDINATOR_SUSPEND = "The checkpoint coordinator was suspended."
    TASK_CHECKPOINT_FAILURE = "A subtask could not take its part of the checkpoint."
    FINALIZE_CHECKPOINT_FAILURE = "The checkpoint could not be finalized."

    @property
    def message(self) -> str:
        """The message."""
        return self.value
