"""The interface between the coordinator and an engine: placing the barriers of an attempt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint


class BarrierPlacement(Protocol):
    """The engine's part of the coordinator, for one attempt. All methods are called under the coordinator's lock.

    A triggered checkpoint waits for a place. The engine inserts its barrier among the records, now or later by itself,
    records the position in the checkpoint (`epoch`, `alignment`, `hand_out`), captures the source positions there
    (`capture`), and starts its timeout (`PendingCheckpoints.resume_timeout`).
    """

    @property
    def is_open(self) -> bool:
        """Whether no barrier waits for its place."""

    @property
    def takes_next(self) -> bool:
        """Whether the next checkpoint may begin; not if its barrier would interfere with one in progress."""

    @property
    def brings_own(self) -> bool:
        """Whether the engine is about to place a barrier on its own, so that no other checkpoint is triggered."""

    def wait_for_place(self, checkpoint: PendingCheckpoint) -> None:
        """Add a triggered checkpoint; `is_open` must be true."""

    def due(self) -> PendingCheckpoint | None:
        """Return the checkpoint whose barrier can now be placed by `place`; None if there is none."""

    def place(self, checkpoint: PendingCheckpoint) -> Callable[[], None] | None:
        """Place the barrier of a checkpoint that was due.

        Returns:
            What is to be run on a thread of its own, without the lock, for it may hang. None if the place is gone.
        """

    def is_placing(self, checkpoint: PendingCheckpoint) -> bool:
        """Whether the operation that `place` returned is running for it."""

    def withdraw(self, checkpoint: PendingCheckpoint) -> None:
        """Forget a checkpoint that has ended."""

    def waits(self) -> dict[str, int]:
        """Return what barriers wait for, for the progress of savepoints; empty if they don't wait."""

    def end(self) -> None:
        """End the attempt: waiting callers get AttemptOverError."""
