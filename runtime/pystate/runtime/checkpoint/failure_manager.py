"""Decides what a failed checkpoint means for the job."""

from __future__ import annotations

from enum import Enum

from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason


class CheckpointFailureDecision(Enum):
    """The decision about a failed checkpoint."""

    IGNORE = "ignore"  # the failure says nothing about the job's ability to take checkpoints
    TOLERATE = "tolerate"  # counted, and still within bounds
    FAIL_JOB = "fail job"


# those that Flink counts
_COUNTED = frozenset(
    {
        CheckpointFailureReason.IO_EXCEPTION,
        CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE,
        CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        CheckpointFailureReason.CHECKPOINT_DECLINED,
        CheckpointFailureReason.CHECKPOINT_EXPIRED,
        CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)


class CheckpointFailureManager:
    """Counts consecutive checkpoint failures.

    Args:
        tolerable: How many consecutive failures are tolerated before the job fails over.
    """

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._failed_ids: set[int] = set()

    @property
    def continuous_failures(self) -> int:
        """The number of consecutive failures."""
        return len(self._failed_ids)

    def handle_failure(
        self, checkpoint_id: int, reason: CheckpointFailureReason, *, is_savepoint: bool = False
    ) -> CheckpointFailureDecision:
        """Decide about a failure. A checkpoint counts once, a savepoint never: its requester gets the error.

        Args:
            checkpoint_id: Which checkpoint.
            reason: Why.
            is_savepoint: Whether it was a savepoint.
        """
        if is_savepoint or reason not in _COUNTED:
            return CheckpointFailureDecision.IGNORE
        self._failed_ids.add(checkpoint_id)
        if self.continuous_failures <= self._tolerable:
            return CheckpointFailureDecision.TOLERATE
        self.reset()
        return CheckpointFailureDecision.FAIL_JOB

    def reset(self) -> None:
        """Reset the count: a checkpoint has completed, or a new execution attempt begins."""
        self._failed_ids.clear()
