"""The seam between the coordinator and an engine: where the barriers of an attempt go."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint


class BarrierPlacement(Protocol):
    """An engine's half of the coordinator, for one attempt. Every call is made under the coordinator's lock.

    A checkpoint that is triggered waits for a place. The engine puts its barrier where its records flow, now or by itself
    later, notes in the checkpoint where that was (`epoch`, `alignment`, `hand_out`), captures how far the sources were read
    there (`capture`), and lets its time run (`PendingCheckpoints.resume_timeout`).
    """

    @property
    def is_open(self) -> bool:
        """Whether no barrier waits for its place."""

    @property
    def takes_next(self) -> bool:
        """Whether the next checkpoint may begin; not where its barrier would do harm to one on its way."""

    @property
    def brings_own(self) -> bool:
        """Whether the engine is about to place a barrier that nobody has asked for, so that no other one is triggered."""

    def wait_for_place(self, checkpoint: PendingCheckpoint) -> None:
        """Take a checkpoint that was triggered; `is_open` before."""

    def due(self) -> PendingCheckpoint | None:
        """Return the checkpoint whose barrier can be placed now by `place`; None if there is none."""

    def place(self, checkpoint: PendingCheckpoint) -> Callable[[], None] | None:
        """Place the barrier of a checkpoint that was due.

        Returns:
            What is to be run on a thread of its own, without the lock, for it may hang. None if the place is gone.
        """

    def is_placing(self, checkpoint: PendingCheckpoint) -> bool:
        """Whether what `place` has returned is under way for it."""

    def withdraw(self, checkpoint: PendingCheckpoint) -> None:
        """Forget a checkpoint that has ended."""

    def waits(self) -> dict[str, int]:
        """Return what barriers wait for, as a savepoint's progress tells it; nothing where they don't wait."""

    def end(self) -> None:
        """The attempt is over: whoever waits gets AttemptOverError."""
