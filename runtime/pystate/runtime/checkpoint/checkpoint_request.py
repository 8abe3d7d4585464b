"""A checkpoint that someone wants."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from pystate.core.snapshot.metadata import CheckpointType, SavepointFormatType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint


@dataclass
class CheckpointRequest:
    """A checkpoint someone wants, until it is triggered.

    Attributes:
        future: Gets the completed checkpoint, or what went wrong.
        location: Where a savepoint goes; None if that follows from the checkpoint's number.
        hold: Nothing may come behind it, unless it fails.
        message: What the snapshot says about itself.
        format: How keyed state is written.
        full: Whether a checkpoint refers to no older one's files, where the job's are incremental.
    """

    checkpoint_type: CheckpointType
    future: Future[CompletedCheckpoint] = field(default_factory=Future)
    location: SnapshotLocation | None = None
    hold: bool = False
    message: str | None = None
    format: SavepointFormatType = SavepointFormatType.CANONICAL
    full: bool = False
