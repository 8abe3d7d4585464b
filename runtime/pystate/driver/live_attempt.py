"""What belongs to the attempt that runs, what one leaves that is over, and what a completed checkpoint makes useless."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.common.errors import ControlError
from pystate.driver.barrier_placement import BarrierPlacement
from pystate.driver.running_checkpoint import CheckpointRequest, RunningCheckpoint
from pystate.driver.slot_pool import SlotPool


class AttemptOverError(ControlError):
    """The execution attempt has ended; whoever waits in it gives up."""


@dataclass(frozen=True)
class LiveAttempt:
    """What belongs to the attempt that runs.

    Attributes:
        pool: Its slots.
        barriers: Where its engine places barriers.
    """

    pool: SlotPool
    barriers: BarrierPlacement


@dataclass(frozen=True)
class LeftByAttempt:
    """What an attempt that is over leaves to be given up.

    Attributes:
        checkpoints: Those that were under way.
        requests: Those that waited.
    """

    checkpoints: list[RunningCheckpoint]
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
    overtaken: list[RunningCheckpoint]
    lowest_base: int | None
