"""Who may run an epoch in a subtask: the rules of the epoch transaction, free of threads and sockets.

Spark may ask for the same epoch more than once: a task is retried, or runs twice at the same time, or a second action needs
the same rows. An epoch changes state exactly once all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ClaimResult(Enum):
    """What an asker has to do."""

    RUN = "run"  # nobody runs it: it is yours
    FENCE = "fence"  # an older attempt runs it: stop that one, then it is yours
    WAIT = "wait"  # another stage runs it: wait for its end, then ask again
    REPLAY = "replay"  # it is finished: take the kept output
    STALE = "stale"  # a newer attempt of your task runs or has run it
    PAST = "past"  # a later epoch has begun: its output is no longer kept


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
        running: The epoch in the overlay and who runs it, None between epochs.

    Args:
        finished: The epoch the restored state stands at, -1 for none.
    """

    def __init__(self, finished: int = -1) -> None:
        self.finished = finished
        self.begun = finished
        self.running: tuple[int, Asker] | None = None

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
        if epoch == self.finished:
            return ClaimResult.REPLAY
        self.running = (epoch, asker)
        self.begun = epoch
        return ClaimResult.RUN

    def finish(self) -> int:
        """Record that the running epoch is finished and return it."""
        if self.running is None:
            message = "no epoch is running"
            raise RuntimeError(message)
        self.finished = self.running[0]
        self.running = None
        return self.finished

    def roll_back(self) -> None:
        """Record that the running epoch was given up."""
        self.running = None
