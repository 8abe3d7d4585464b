"""What the coordinator has to do next, as `CheckpointSchedule` decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pystate.common.errors import PystateError
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint


@dataclass(frozen=True)
class TriggerCheckpoint:
    """Its time has come."""

    request: CheckpointRequest


@dataclass(frozen=True)
class PlaceBarrier:
    """The engine can place its barrier, if nothing has come between since."""

    checkpoint: PendingCheckpoint


@dataclass(frozen=True)
class CompleteCheckpoint:
    """All subtasks have acknowledged it, and its cut can be restored from."""

    checkpoint: PendingCheckpoint


@dataclass(frozen=True)
class FailCheckpoint:
    """It can't complete any more; nor can the attempt go on where a subtask hangs in it (`fails_attempt`)."""

    checkpoint: PendingCheckpoint
    reason: CheckpointFailureReason
    error: PystateError
    fails_attempt: bool = False


@dataclass(frozen=True)
class DiscardLateParts:
    """Parts of failed checkpoints are to be deleted: where they may lie, by checkpoint."""

    locations: dict[int, SnapshotLocation]


StorageStep: TypeAlias = TriggerCheckpoint | CompleteCheckpoint | DiscardLateParts
"""What reads or writes the storage, and may hang there; `CheckpointSchedule.storage_done` has to be called behind it."""


@dataclass(frozen=True)
class GiveUpStorageStep:
    """It has hung for so long that the next one begins beside it."""

    step: StorageStep


CoordinatorStep: TypeAlias = StorageStep | PlaceBarrier | FailCheckpoint | GiveUpStorageStep
