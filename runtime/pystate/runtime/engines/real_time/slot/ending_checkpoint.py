"""The barrier behind which a job ends: a subtask that has taken it does nothing that a start from it would do once more.

Timers that are due, calls that come back, elements of a source: whatever came out behind the barrier would come out once
more. Flink's tasks end behind a synchronous savepoint; these wait, since it may fail, and the job goes on then.
"""

from __future__ import annotations

from pystate.core.snapshot.barrier import CheckpointBarrier


class EndingCheckpoint:
    """That of one subtask."""

    def __init__(self) -> None:
        self._taken = 0
        self._failed = 0

    @property
    def is_taken(self) -> bool:
        """Whether nothing may come any more."""
        return self._taken > self._failed

    def taken(self, barrier: CheckpointBarrier) -> None:
        """Take note that a barrier was taken; it needs not be the last one."""
        if barrier.hold:
            self._taken = barrier.checkpoint_id

    def failed(self, checkpoint_id: int) -> None:
        """Take note that a checkpoint has failed behind which the job was to end; its barrier may be yet to come."""
        self._failed = max(self._failed, checkpoint_id)
