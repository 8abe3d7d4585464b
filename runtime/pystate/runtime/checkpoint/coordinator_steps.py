"""The steps of the coordinator, as decided by `CheckpointSchedule`."""

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
    """Trigger a checkpoint that is due."""

    request: CheckpointRequest


@dataclass(frozen=True)
class PlaceBarrier:
    """Place the barrier of a checkpoint, if that is still possible."""

    checkpoint: PendingCheckpoint


@dataclass(frozen=True)
class CompleteCheckpoint:
    """Complete a checkpoint that all subtasks have acknowledged and whose cut can be restored."""

    checkpoint: PendingCheckpoint


@dataclass(frozen=True)
class FailCheckpoint:
    """Fail a checkpoint that can't complete any more; if a subtask hangs in it, the attempt fails too (`fails_attempt`)."""

    checkpoint: PendingCheckpoint
    reason: CheckpointFailureReason
    error: PystateError
    fails_attempt: bool = False


@dataclass(frozen=True)
class DiscardLateParts:
    """Delete late parts of failed checkpoints; has their possible locations, by checkpoint."""

    locations: dict[int, SnapshotLocation]


StorageStep: TypeAlias = TriggerCheckpoint | CompleteCheckpoint | DiscardLateParts
"""Steps that access the storage and may hang; `CheckpointSchedule.storage_done` must be called after each."""


@dataclass(frozen=True)
class GiveUpStorageStep:
    """Give up on a hanging storage step, so that the next one begins."""

    step: StorageStep


CoordinatorStep: TypeAlias = StorageStep | PlaceBarrier | FailCheckpoint | GiveUpStorageStep
