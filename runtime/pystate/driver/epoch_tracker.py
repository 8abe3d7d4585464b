"""Where the epochs of an attempt stand: which one runs, who has finished it, whether its barrier is decided.

Free of threads; the coordinator holds its lock around every call.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystate.common.errors import ControlError

SubtaskId = tuple[str, int]
"""The uid of a task and the index of one of its subtasks."""


class AttemptOverError(ControlError):
    """The execution attempt has ended; whoever waits in it gives up."""


class EpochTracker:
    """The epochs of one execution attempt.

    Args:
        subtasks: All subtasks of the job.
        restored_epoch: The epoch the restored state stands at.
        restored_batch: Spark's number of that epoch.

    Attributes:
        finished: The last epoch that all subtasks and sinks have finished.
        finished_batch: Spark's number of it.
        running: The epoch that has begun and not ended, None between epochs.
        decided: Whether the running epoch's barrier is decided: a subtask has asked at its end.
    """

    def __init__(self, subtasks: Iterable[SubtaskId], restored_epoch: int, restored_batch: int) -> None:
        self._subtasks = frozenset(subtasks)
        self.finished = restored_epoch
        self.finished_batch = restored_batch
        self.running: int | None = None
        self.decided = False
        self._done: set[SubtaskId] = set()

    def begin(self, epoch: int) -> None:
        """Begin an epoch.

        Raises:
            ControlError: Another one runs, or it is not behind the last one.
        """
        if self.running is not None or epoch <= self.finished:
            message = f"Epoch {epoch} can't begin: {self.running} runs, {self.finished} was finished last."
            raise ControlError(message)
        self.running = epoch
        self.decided = False
        self._done = set()

    def decide(self, subtask: SubtaskId, epoch: int) -> bool:
        """Take note that a subtask is at the end of `epoch`; return whether it is the first one.

        Raises:
            ControlError: That epoch doesn't run.
        """
        if epoch != self.running or subtask not in self._subtasks:
            message = f"Subtask {subtask} is at the end of epoch {epoch}, but epoch {self.running} runs."
            raise ControlError(message)
        first = not self.decided
        self.decided = True
        return first

    def subtask_finished(self, subtask: SubtaskId, epoch: int) -> bool:
        """Take note that a subtask's changes of `epoch` are in its backend; return whether that is news."""
        if epoch != self.running or subtask in self._done:
            return False
        self._done.add(subtask)
        return True

    def missing(self) -> list[SubtaskId]:
        """Return the subtasks that have not finished the running epoch."""
        return sorted(self._subtasks - self._done)

    def finish(self, epoch: int, batch: int) -> None:
        """End the running epoch: all subtasks and all sinks are done with it.

        Raises:
            ControlError: A subtask is missing.
        """
        missing = self.missing()
        if epoch != self.running or missing:
            message = f"Epoch {epoch} can't end: {self.running} runs, missing are {missing}."
            raise ControlError(message)
        self.finished = epoch
        self.finished_batch = batch
        self.running = None
