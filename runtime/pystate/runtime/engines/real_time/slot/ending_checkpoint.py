"""The checkpoint after which a job ends: a subtask that has taken it does nothing that a restart from it would repeat.

Timers, results of asynchronous calls, elements of a source: all output after the barrier would be repeated. Flink's tasks
end after a synchronous savepoint; these wait, since it may fail and the job then continues.
"""

from __future__ import annotations

from pystate.runtime.checkpoint.barrier import CheckpointBarrier


class EndingCheckpoint:
    """The ending checkpoint of one subtask."""

    def __init__(self) -> None:
        self._taken = 0
        self._failed = 0

    @property
    def is_taken(self) -> bool:
        """Whether the subtask must not produce anything any more."""
        return self._taken > self._failed

    def taken(self, barrier: CheckpointBarrier) -> None:
        """Record that a barrier was taken, whether or not it is the last one."""
        if barrier.hold:
            self._taken = barrier.checkpoint_id

    def failed(self, checkpoint_id: int) -> None:
        """Record that the ending checkpoint has failed; its barrier may still arrive."""
        self._failed = max(self._failed, checkpoint_id)
