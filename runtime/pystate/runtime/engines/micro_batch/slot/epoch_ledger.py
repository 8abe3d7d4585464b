"""The rules that decide which task attempt may run an epoch in a subtask, without threads and sockets.

Spark may request the same epoch more than once: a task is retried, runs twice at the same time, or a second action needs the
same rows. Even so, an epoch changes state exactly once.

An epoch that has its last row is *prepared*, not finished: the input may have ended or broken off, and only Spark knows
which. Until the driver reports that Spark counts the attempt as successful, the epoch can be rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ClaimResult(Enum):
    """What a task attempt that requests an epoch must do."""

    RUN = "run"  # no attempt runs it: run it
    FENCE = "fence"  # an older attempt runs it: stop that one, then run it
    WAIT = "wait"  # another stage runs it: wait for its end, then ask again
    TAKE_OVER = "take over"  # an older attempt runs what the subtask reads itself: hang up on that one, and wait
    PREPARED = "prepared"  # another attempt has prepared it: ask Spark for the outcome of that attempt
    REPLAY = "replay"  # it is finished, or prepared by this attempt: take the kept output
    STALE = "stale"  # a newer attempt of the same task runs or has run it
    PAST = "past"  # a later epoch has begun: the output is no longer kept
    UNCONFIRMED = "unconfirmed"  # an earlier epoch is prepared, and its outcome is unknown


class TaskOutcome(Enum):
    """The outcome of a task attempt, as Spark reports it."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # or killed: Spark uses none of its output
    UNKNOWN = "unknown"  # Spark has no record of it (yet)


@dataclass(frozen=True)
class Asker:
    """A Spark task attempt that requests an epoch. Retries of a task share its stage; a second action has its own stage.

    Attributes:
        task_attempt_id: Spark's number, unique and increasing over all attempts of all tasks.
    """

    stage_id: int
    task_attempt_id: int

    def is_newer_than(self, other: Asker) -> bool:
        """Whether Spark started this attempt of the same task later."""
        return self.task_attempt_id > other.task_attempt_id


class EpochLedger:
    """The epochs of one subtask.

    Attributes:
        finished: The last epoch whose changes are in the backend, -1 before the first.
        begun: The last epoch that any attempt began; above `finished` while it runs and after it was rolled back.
        running: The epoch in the overlay that still receives rows, and the attempt that sends them; None if there is none.
        prepared: The epoch in the overlay that has all its rows, and the attempt that sent them; None if there is none.

    Args:
        finished: The epoch number of the restored state, -1 for none.
        reads_itself: The subtask is that of a source that runs in slots: its rows don't come from the task attempt, so an
            attempt that died takes none of them away. Its epoch isn't run again, but passed on to the next attempt.
    """

    def __init__(self, finished: int = -1, *, reads_itself: bool = False) -> None:
        self._reads_itself = reads_itself
        self.finished = finished
        self.begun = finished
        self.running: tuple[int, Asker] | None = None
        self.prepared: tuple[int, Asker] | None = None

    @property
    def is_between_epochs(self) -> bool:
        """Whether all state is that of a finished epoch."""
        return self.running is None and self.prepared is None

    def claim(self, epoch: int, asker: Asker) -> ClaimResult:
        """Return what `asker` must do to get `epoch`; RUN records it as the runner."""
        if epoch < self.begun:
            return ClaimResult.PAST
        if self.running is not None:
            running_epoch, runner = self.running
            if epoch > running_epoch:
                return ClaimResult.FENCE
            if asker.stage_id != runner.stage_id:
                return ClaimResult.WAIT
            if not asker.is_newer_than(runner):
                return ClaimResult.STALE
            return ClaimResult.TAKE_OVER if self._reads_itself else ClaimResult.FENCE
        if self.prepared is not None:
            return self._claim_prepared(epoch, asker, *self.prepared)
        if epoch == self.finished:
            return ClaimResult.REPLAY
        self.running = (epoch, asker)
        self.begun = epoch
        return ClaimResult.RUN

    @staticmethod
    def _claim_prepared(epoch: int, asker: Asker, prepared: int, bringer: Asker) -> ClaimResult:
        if epoch > prepared:
            return ClaimResult.UNCONFIRMED
        if asker == bringer:
            return ClaimResult.REPLAY
        if asker.stage_id == bringer.stage_id and not asker.is_newer_than(bringer):
            return ClaimResult.STALE
        return ClaimResult.PREPARED

    def prepare(self) -> None:
        """Record that the running epoch has all its rows."""
        if self.running is None:
            message = "no epoch is running"
            raise RuntimeError(message)
        self.prepared, self.running = self.running, None

    def take_over(self, asker: Asker) -> bool:
        """Pass the prepared epoch of an attempt that failed on to another one, if its rows were not that attempt's."""
        if self.prepared is None or not self._reads_itself:
            return False
        epoch, _ = self.prepared
        self.prepared = epoch, asker
        return True

    def finish(self) -> int:
        """Record that the prepared epoch is finished, and return it."""
        if self.prepared is None:
            message = "no epoch is prepared"
            raise RuntimeError(message)
        self.finished, _ = self.prepared
        self.prepared = None
        return self.finished

    def roll_back(self) -> None:
        """Record that the epoch in the overlay was rolled back."""
        self.running = None
        self.prepared = None
