"""What belongs to the attempt that runs, what one leaves that is over, and what a completed checkpoint makes useless."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.driver.epoch_tracker import EpochTracker
from pystate.driver.running_checkpoint import CheckpointRequest, RunningCheckpoint
from pystate.driver.slot_pool import SlotPool
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory


@dataclass(frozen=True)
class LiveAttempt:
    """What belongs to the attempt that runs.

    Attributes:
        pool: Its slots.
        spark: Spark's logs.
        tracker: Its epochs.
    """

    pool: SlotPool
    spark: SparkCheckpointDirectory
    tracker: EpochTracker


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
