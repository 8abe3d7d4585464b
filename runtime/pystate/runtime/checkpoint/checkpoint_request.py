"""The request for a checkpoint."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from pystate.core.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint


@dataclass
class CheckpointRequest:
    """The request for a checkpoint or savepoint.

    Attributes:
        future: Gets the completed checkpoint, or the error.
        location: Where a savepoint goes; None if that follows from the checkpoint's number.
        hold: Nothing may follow it, unless it fails.
        last: The inputs of all subtasks have ended before it.
        message: The user's message in the snapshot.
        format: How keyed state is written.
        full: Whether the checkpoint refers to no file of older ones, if the job's are incremental.
    """

    checkpoint_type: CheckpointType
    future: Future[CompletedCheckpoint] = field(default_factory=Future)
    location: SnapshotLocation | None = None
    hold: bool = False
    last: bool = False
    message: str | None = None
    format: SavepointFormatType = SavepointFormatType.CANONICAL
    full: bool = False
