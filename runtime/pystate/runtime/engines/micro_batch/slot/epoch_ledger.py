"""Who may run an epoch in a subtask: the rules of the epoch transaction, free of threads and sockets.

Spark may ask for the same epoch more than once: a task is retried, or runs twice at the same time, or a second action needs
the same rows. An epoch changes state exactly once all the same.

An epoch whose last row is in is *prepared*, not finished: input that ended may be input that broke, and only Spark knows
which of the two it was. Until the driver says that Spark counts the attempt as successful the epoch can be rolled back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ClaimResult(Enum):
    """What an asker has to do."""

    RUN = "run"  # nobody runs it: it is yours
    FENCE = "fence"  # an older attempt runs it: stop that one, then it is yours
    WAIT = "wait"  # another stage runs it: wait for its end, then ask again
    PREPARED = "prepared"  # another attempt has brought it to its end: ask Spark what became of that one
    REPLAY = "replay"  # it is finished, or yours: take the kept output
    STALE = "stale"  # a newer attempt of your task runs or has run it
    PAST = "past"  # a later epoch has begun: its output is no longer kept
    UNCONFIRMED = "unconfirmed"  # an earlier epoch is prepared, and nobody has said what becomes of it


class TaskOutcome(Enum):
    """What Spark says of a task attempt."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # or killed: Spark uses nothing of it
    UNKNOWN = "unknown"  # Spark has no record of it (yet)


@dataclass(frozen=True)
class Asker:
    """A Spark task attempt. Retries of one task share the stage; a second action has a stage of its own.

    Attributes:
        task_attempt_id: Spark's number, unique and growing over all attempts of all tasks.
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
        begun: The last epoch that anyone began; past `finished` while it runs and after it was rolled back.
        running: The epoch in the overlay whose rows still come, and who brings them; None if there is none.
        prepared: The epoch in the overlay whose rows are all in, and who brought them; None if there is none.

    Args:
        finished: The epoch the restored state stands at, -1 for none.
    """

    def __init__(self, finished: int = -1) -> None:
        self.finished = finished
        self.begun = finished
        self.running: tuple[int, Asker] | None = None
        self.prepared: tuple[int, Asker] | None = None

    @property
    def is_between_epochs(self) -> bool:
        """Whether all state is as a finished epoch has left it."""
        return self.running is None and self.prepared is None

    def claim(self, epoch: int, asker: Asker) -> ClaimResult:
        """Say what `asker` has to do to get `epoch`; RUN records it as the runner."""
        if epoch < self.begun:
            return ClaimResult.PAST
        if self.running is not None:
            running_epoch, runner = self.running
            if epoch > running_epoch:
                return ClaimResult.FENCE
            if asker.stage_id != runner.stage_id:
                return ClaimResult.WAIT
            return ClaimResult.FENCE if asker.is_newer_than(runner) else ClaimResult.STALE
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
        """Record that all rows of the running epoch are in."""
        if self.running is None:
            message = "no epoch is running"
            raise RuntimeError(message)
        self.prepared, self.running = self.running, None

    def finish(self) -> int:
        """Record that the prepared epoch is finished and return it."""
        if self.prepared is None:
            message = "no epoch is prepared"
            raise RuntimeError(message)
        self.finished, _ = self.prepared
        self.prepared = None
        return self.finished

    def roll_back(self) -> None:
        """Record that the epoch in the overlay was given up."""
        self.running = None
        self.prepared = None
