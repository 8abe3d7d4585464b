"""The current attempt, of which checkpoints are taken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from pystate.common.errors import CheckpointFailedError, ControlError, PystateError
from pystate.runtime.checkpoint.barrier_placement import BarrierPlacement
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint


class AttemptOverError(ControlError):
    """The execution attempt has ended; raised to callers that wait in it."""


class CheckpointSlots(Protocol):
    """The slots of an attempt, for notifications of checkpoints."""

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[bool]:
        """Notify all subtasks of how a checkpoint ended; done when the idle ones have been notified."""


class LiveAttempt:
    """The current attempt, if any, with its slots and engine.

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
        self._stopped = False  # a savepoint after which nothing may follow is complete
        self._job_ends = False

    def begin(
        self, slots: CheckpointSlots, barriers: BarrierPlacement, on_intolerable: Callable[[PystateError], None]
    ) -> None:
        """Begin an attempt; see `CheckpointCoordinator.attempt_started`."""
        with self._lock:
            self._slots, self._barriers, self._on_intolerable = slots, barriers, on_intolerable
            self._had_one = True

    def end(self, slots: CheckpointSlots | None, *, job_ends: bool) -> bool:
        """End the attempt: callers that wait for its engine get AttemptOverError.

        Args:
            slots: Its slots; None for the current attempt.
            job_ends: The job was stopped or cancelled, or has finished.

        Returns:
            Whether no attempt runs now; False if another one has begun since.
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

    def stop_after(self, checkpoint: PendingCheckpoint) -> None:
        """Let nothing follow a completed savepoint that was requested with `hold`."""
        with self._lock:
            self._stopped = self._stopped or (checkpoint.request.hold and self.runs)

    def place(self, checkpoint: PendingCheckpoint) -> Callable[[], None] | None:
        """Let the engine place a barrier, see `BarrierPlacement.place`; None if that isn't possible any more."""
        with self._lock:
            return None if self._barriers is None else self._barriers.place(checkpoint)

    @property
    def runs(self) -> bool:
        """Whether an attempt runs."""
        return self._barriers is not None

    @property
    def barriers(self) -> BarrierPlacement | None:
        """The barrier placement of its engine; None if no attempt runs. To be called under the lock."""
        return self._barriers

    @property
    def on_intolerable(self) -> Callable[[PystateError], None]:
        """The callback that fails the attempt because of its checkpoints."""
        return self._on_intolerable

    @property
    def stopped(self) -> bool:
        """Whether nothing may follow any more, because a held savepoint is complete."""
        return self._stopped

    @property
    def job_ends(self) -> bool:
        """Whether the job was stopped or cancelled, or has finished: no attempt begins any more."""
        return self._job_ends

    def check_runs(self) -> None:
        """Check that an attempt runs.

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
        """Return the error for a checkpoint that is unfinished when the attempt ends."""
        happened = "was stopped or cancelled, or has finished," if self._job_ends else "ended or restarted"
        return CheckpointFailedError(f"The job {happened} before the checkpoint was complete.")

    def tell(self, checkpoint: PendingCheckpoint, *, completed: bool) -> Future[bool]:
        """Notify the job's functions of how a checkpoint ended.

        A savepoint is owned by users: unless the job ends after it, functions must not commit because of it.

        Returns:
            Done when the idle ones have been called; the result says whether all that should be called were.
        """
        with self._lock:
            slots = self._slots
        needless = completed and not checkpoint.commits
        if slots is None or needless:
            nobody: Future[bool] = Future()
            nobody.set_result(needless)
            return nobody
        return slots.notify(checkpoint.checkpoint_id, completed=completed)
