"""Tracks the epochs of an attempt: the running one, the subtasks that have prepared and finished it, its barrier's decision.

It uses no threads; callers hold the coordinator's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystate.common.errors import ControlError
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId


class EpochTracker:
    """The state of the epochs of one execution attempt.

    Args:
        subtasks: All subtasks of the job.
        restored_epoch: The epoch number of the restored state.
        restored_batch: Spark's batch number of that epoch.
        next_timer: When the first processing-time timer is due; see the attribute.
        rows_first: Whether an epoch with rows comes first; see the attribute.

    Attributes:
        finished: The last epoch that all subtasks and sinks have finished.
        finished_batch: Spark's batch number of it.
        running: The epoch that has begun and not ended, None between epochs.
        decided: Whether the running epoch's barrier is decided: it has all its rows, and subtasks are told to finish it.
        next_timer: When the first processing-time timer of all subtasks is due after the last finished epoch, ms since 1970;
            None if there is none.
        rows_first: The next epoch reruns rows: an epoch without rows that began before it would take its number.
        input_available: A source has input that no epoch has been requested for yet.
        sources_ended: Whether the last finished epoch has read the last element of every source in slots.
        prepared: The reports of the subtasks that have received all rows of the running epoch.
    """

    def __init__(
        self,
        subtasks: Iterable[SubtaskId],
        restored_epoch: int,
        restored_batch: int,
        next_timer: int | None = None,
        *,
        rows_first: bool = False,
    ) -> None:
        self._in_order = list(subtasks)
        self._subtasks = frozenset(self._in_order)
        self.finished = restored_epoch
        self.finished_batch = restored_batch
        self.next_timer = next_timer
        self.rows_first = rows_first
        self.input_available = False
        self.sources_ended = False
        self.running: int | None = None
        self.decided = False
        self.prepared: dict[SubtaskId, PreparedEpoch] = {}
        self._done: set[SubtaskId] = set()

    def begin(self, epoch: int) -> None:
        """Begin an epoch.

        Raises:
            ControlError: Another epoch runs, or this one doesn't follow the last one.
        """
        if self.running is not None or epoch <= self.finished:
            message = f"Epoch {epoch} can't begin: {self.running} runs, {self.finished} was finished last."
            raise ControlError(message)
        self.running = epoch
        self.rows_first = False
        self.decided = False
        self.prepared = {}
        self._done = set()

    def prepare(self, subtask: SubtaskId, prepared: PreparedEpoch) -> None:
        """Record that a subtask has received all rows of an epoch; the newest task attempt that sent them counts.

        Raises:
            ControlError: That epoch isn't running, or can't receive rows any more.
        """
        if prepared.epoch != self.running or subtask not in self._subtasks or self.decided:
            message = f"Subtask {subtask} is at the end of epoch {prepared.epoch}, but epoch {self.running} runs."
            raise ControlError(message)
        before = self.prepared.get(subtask)
        if before is None or not before.bringer.is_newer_than(prepared.bringer):
            self.prepared[subtask] = prepared

    def unprepared(self) -> list[SubtaskId]:
        """Return the subtasks that have not received all rows of the running epoch."""
        return sorted(self._subtasks - self.prepared.keys())

    def decide(self, epoch: int) -> bool:
        """Record that `epoch` has all its rows; return whether that is new.

        Raises:
            ControlError: That epoch isn't running, or a subtask has not received its rows.
        """
        missing = self.unprepared()
        if epoch != self.running or missing:
            message = f"Epoch {epoch} is not at its end: {self.running} runs, missing are {missing}."
            raise ControlError(message)
        first = not self.decided
        self.decided = True
        return first

    def subtasks_finished(self, epoch: int) -> bool:
        """Record that all subtasks' backends hold the changes of `epoch`; return whether that is new."""
        if epoch != self.running or not self.decided or self._done:
            return False
        self._done = set(self.prepared)
        return True

    def missing(self) -> list[SubtaskId]:
        """Return the subtasks that have not finished the running epoch."""
        return sorted(self._subtasks - self._done)

    def left_in(self, index: int) -> list[str]:
        """Return the tasks whose subtask with that index has not finished the running epoch, in the job's order."""
        missing = self.unprepared() or self.missing()
        return [uid for uid, subtask in self._in_order if subtask == index and (uid, subtask) in missing]

    def finish(self, epoch: int, batch: int) -> None:
        """End the running epoch, which all subtasks and sinks have finished.

        Raises:
            ControlError: A subtask has not finished it.
        """
        missing = self.missing()
        if epoch != self.running or missing:
            message = f"Epoch {epoch} can't end: {self.running} runs, missing are {missing}."
            raise ControlError(message)
        self.finished = epoch
        self.finished_batch = batch
        timers = [0] if self.input_available else [share.next_timer for share in self.prepared.values()]
        self.next_timer = min((timer for timer in timers if timer is not None), default=None)
        self.input_available = False
        self.sources_ended = all(share.source_ended is not False for share in self.prepared.values())
        self.running = None
