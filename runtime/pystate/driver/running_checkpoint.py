"""A checkpoint on its way: asked for, then triggered."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.metadata import CheckpointType
from pystate.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.errors import PystateError
from pystate.driver.snapshot_metadata import SourceFiles


@dataclass
class CheckpointRequest:
    """A checkpoint someone wants, until it is triggered.

    Attributes:
        future: Gets the completed checkpoint, or what went wrong.
        location: Where a savepoint goes; None where that follows from the checkpoint's number.
        hold: No epoch may begin behind it, unless it fails.
    """

    checkpoint_type: CheckpointType
    future: Future[CompletedCheckpoint] = field(default_factory=Future)
    location: SnapshotLocation | None = None
    hold: bool = False


@dataclass
class RunningCheckpoint:
    """A triggered checkpoint and what belongs to it in the driver.

    Attributes:
        pending: Who has acknowledged what.
        request: What it answers.
        location: Where it is written.
        deadline: When it expires, on the coordinator's clock.
        sources: Spark's logs at the cut, once the epoch of the cut is over.
        error: Why it has to be given up.
        alignment: Milliseconds by task.
        finalizing: Its `_metadata` is being written: too late to be given up by the end of the attempt.
    """

    pending: PendingCheckpoint
    request: CheckpointRequest
    location: SnapshotLocation
    deadline: float
    sources: SourceFiles | None = None
    error: PystateError | None = None
    alignment: dict[str, int | None] = field(default_factory=dict)
    finalizing: bool = False
