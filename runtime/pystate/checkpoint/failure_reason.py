"""Why a checkpoint did not complete: Flink's closed list."""

from __future__ import annotations

from enum import Enum


class CheckpointFailureReason(Enum):
    """A reason, with its sentence; `pre_flight` ones kept the checkpoint from being triggered at all."""

    PERIODIC_SCHEDULER_SHUTDOWN = (True, "Periodic checkpoints are switched off.")
    TOO_MANY_CHECKPOINT_REQUESTS = (True, "Too many checkpoint requests are waiting already.")
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = (True, "The minimum pause since the last checkpoint is not over yet.")
    NOT_ALL_REQUIRED_TASKS_RUNNING = (True, "Not all tasks of the job are running.")
    IO_EXCEPTION = (True, "The checkpoint could not be started on its storage.")
    BLOCKING_OUTPUT_EXIST = (True, "A task has an output that blocks until it ends.")
    CHECKPOINT_ASYNC_EXCEPTION = (False, "A subtask could not write its state.")
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = (False, "Another subtask that writes to the same file failed.")
    CHECKPOINT_EXPIRED = (False, "The checkpoint expired before it was complete.")
    CHECKPOINT_SUBSUMED = (False, "A newer checkpoint completed first.")
    CHECKPOINT_DECLINED = (False, "A subtask declined the checkpoint.")
    CHECKPOINT_DECLINED_TASK_NOT_READY = (False, "A subtask declined the checkpoint: it was not ready.")
    CHECKPOINT_DECLINED_TASK_CLOSING = (False, "A subtask declined the checkpoint: it was closing.")
    CHECKPOINT_DECLINED_SUBSUMED = (False, "A subtask declined the checkpoint: the barrier of a newer one was there.")
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = (
        False,
        "A subtask declined the checkpoint: an upstream task cancelled it.",
    )
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = (False, "A subtask declined the checkpoint: one of its inputs has ended.")
    CHECKPOINT_COORDINATOR_SHUTDOWN = (False, "The checkpoint coordinator shut down.")
    CHECKPOINT_COORDINATOR_SUSPEND = (False, "The checkpoint coordinator was suspended.")
    JOB_FAILOVER_REGION = (False, "The tasks are being restarted.")
    TASK_FAILURE = (False, "A task failed.")
    TASK_CHECKPOINT_FAILURE = (False, "A subtask could not take its part of the checkpoint.")
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = (False, "A checkpoint notification named an unknown task.")
    FINALIZE_CHECKPOINT_FAILURE = (False, "The checkpoint could not be finalized.")
    TRIGGER_CHECKPOINT_FAILURE = (False, "The checkpoint could not be triggered.")

    def __init__(self, pre_flight: bool, message: str) -> None:
        self.pre_flight = pre_flight
        self.message = message
