"""What the coordinator has to do next, as `CoordinatorState` decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.errors import PystateError
from pystate.driver.running_checkpoint import CheckpointRequest, RunningCheckpoint


@dataclass(frozen=True)
class TriggerCheckpoint:
    """Its time has come; `CoordinatorState.triggered` has to be called behind it, whatever becomes of it."""

    request: CheckpointRequest


@dataclass(frozen=True)
class SnapshotBetweenEpochs:
    """No epoch runs that its barrier could ride on, if none has begun since."""

    checkpoint: RunningCheckpoint


@dataclass(frozen=True)
class CompleteCheckpoint:
    """All subtasks have acknowledged it, and Spark has committed its epoch."""

    checkpoint: RunningCheckpoint


@dataclass(frozen=True)
class FailCheckpoint:
    """It can't complete any more."""

    checkpoint: RunningCheckpoint
    reason: CheckpointFailureReason
    error: PystateError


@dataclass(frozen=True)
class DiscardLateParts:
    """Subtasks have written parts of failed checkpoints: where they may lie, by checkpoint."""

    locations: dict[int, SnapshotLocation]


CoordinatorStep: TypeAlias = (
    TriggerCheckpoint | SnapshotBetweenEpochs | CompleteCheckpoint | FailCheckpoint | DiscardLateParts
)
