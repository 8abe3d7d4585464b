"""What belongs to the attempt that runs, what one leaves that is over, and what a completed checkpoint makes useless."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from pystate.checkpoint.barrier_placement import BarrierPlacement
from pystate.checkpoint.checkpoint_request import CheckpointRequest
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.common.errors import ControlError


class AttemptOverError(ControlError):
    """The execution attempt has ended; whoever waits in it gives up."""


class CheckpointSlots(Protocol):
    """The slots of an attempt, as far as checkpoints go."""

    def notify(self, checkpoint_id: int, *, completed: bool) -> Future[None]:
        """Tell all subtasks what became of a checkpoint; done when those that are idle have heard of it."""


@dataclass(frozen=True)
class LiveAttempt:
    """What belongs to the attempt that runs.

    Attributes:
        pool: Its slots.
        barriers: Where its engine places barriers.
    """

    pool: CheckpointSlots
    barriers: BarrierPlacement


@dataclass(frozen=True)
class LeftByAttempt:
    """What an attempt that is over leaves to be given up.

    Attributes:
        checkpoints: Those that were under way.
        requests: Those that waited.
    """

    checkpoints: list[PendingCheckpoint]
    requests: list[CheckpointRequest]


@dataclass(frozen=True)
class Subsumed:
    """What is of no use any more, now that a checkpoint is complete.

    Attributes:
        completed: To be deleted.
        overtaken: Under way, to be given up.
        lowest_base: The oldest checkpoint whose files may be named by one that stays under way; None for none.
    """

    completed: list[CompletedCheckpoint]
    overtaken: list[PendingCheckpoint]
    lowest_base: int | None
