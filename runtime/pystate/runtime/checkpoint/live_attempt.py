"""The attempt that checkpoints are taken of, while one runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from pystate.common.errors import CheckpointFailedError, ControlError, PystateError
from pystate.runtime.checkpoint.barrier_placement import BarrierPlacement
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint


class AttemptOverError(ControlError):
    """The execution attempt has ended; whoever waits in it gives up."""


class CheckpointSlots(Protocol):
    """The slots of an attempt, as far as checkpoints go."""

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[bool]:
        """Tell all subtasks what became of a checkpoint; done when those that are idle have heard of it."""


class LiveAttempt:
    """Which attempt runs, if any; slots and engine of it.

    Args:
        lock: The coordinator's.
        job_id: The job.
    """

    def __init__(self, lock: threading.Condition, job_id: str) -> None:
        self._lock = lock
        self._job_id = job_id
        self._slots: CheckpointSlots | None = None
        self._barriers: BarrierPlacement | None = None
        self._on_intolerable: Callable[[PystateError], None] = lambda _: None
        self._had_one = False
        self._stopped = False  # a savepoint is complete behind which nothing may come
        self._job_ends = False

    def begin(
        self, slots: CheckpointSlots, barriers: BarrierPlacement, on_intolerable: Callable[[PystateError], None]
    ) -> None:
        """Begin an attempt; see `CheckpointCoordinator.attempt_started`."""
        with self._lock:
            self._slots, self._barriers, self._on_intolerable = slots, barriers, on_intolerable
            self._had_one = True

    def end(self, slots: CheckpointSlots | None, *, job_ends: bool) -> bool:
        """End it: whoever waits for its engine gets AttemptOverError.

        Args:
            slots: Its slots; None for whichever attempt runs.
            job_ends: The job was stopped or cancelled, or has finished.

        Returns:
            Whether none runs now: with these slots another one may have begun since.
        """
        with self._lock:
            if slots is not None and self._slots is not None and slots is not self._slots:
                return False
            if self._barriers is not None:
                self._barriers.end()
            self._slots = self._barriers = None
            self._stopped = False
            self._job_ends = self._job_ends or job_ends
            return True

    def stop_behind(self, checkpoint: PendingCheckpoint) -> None:
        """Let nothing come behind a completed savepoint that was asked for with `hold`."""
        with self._lock:
            self._stopped = self._stopped or (checkpoint.request.hold and self.runs)

    def place(self, checkpoint: PendingCheckpoint) -> Callable[[], None] | None:
        """Have its engine place a barrier, see `BarrierPlacement.place`; None if that isn't possible any more."""
        with self._lock:
            return None if self._barriers is None else self._barriers.place(checkpoint)

    @property
    def runs(self) -> bool:
        """Whether an attempt runs."""
        return self._barriers is not None

    @property
    def barriers(self) -> BarrierPlacement | None:
        """Where its engine places barriers; None if none runs. To be called under the lock."""
        return self._barriers

    @property
    def on_intolerable(self) -> Callable[[PystateError], None]:
        """What ends it because of its checkpoints."""
        return self._on_intolerable

    @property
    def stopped(self) -> bool:
        """Whether nothing may come any more, because a savepoint is complete."""
        return self._stopped

    @property
    def job_ends(self) -> bool:
        """Whether the job was stopped or cancelled, or has finished: no attempt begins any more."""
        return self._job_ends

    def check_runs(self) -> None:
        """Make sure that there is one.

        Raises:
            AttemptOverError: There is none; says what the job does instead, and when to ask again.
        """
        if self.runs:
            return
        if self._job_ends:
            message = "The job is ending: it takes no checkpoint or savepoint any more."
            raise AttemptOverError(message)
        message = f"The job is {'restarting' if self._had_one else 'starting'}: it can take no checkpoint or savepoint yet."
        raise AttemptOverError(
            message, hint=f"try again in a moment, or wait for it: pystate wait {self._job_id} --for running"
        )

    def over(self) -> CheckpointFailedError:
        """Return what is said of a checkpoint that an attempt's end leaves unfinished."""
        happened = "was stopped or cancelled, or has finished," if self._job_ends else "ended or restarted"
        return CheckpointFailedError(f"The job {happened} before the checkpoint was complete.")

    def tell(self, checkpoint: PendingCheckpoint, *, completed: bool) -> Future[bool]:
        """Tell the job's functions how a checkpoint ended.

        A savepoint is for people: unless the job ends behind it, functions must not commit anything because of it.

        Returns:
            Done when those that are idle have been called; says whether all that should have been.
        """
        with self._lock:
            slots = self._slots
        needless = completed and not checkpoint.commits
        if slots is None or needless:
            nobody: Future[bool] = Future()
            nobody.set_result(needless)
            return nobody
        return slots.notify(checkpoint.checkpoint_id, completed=completed)
