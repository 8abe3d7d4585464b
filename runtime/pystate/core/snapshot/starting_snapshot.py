"""A snapshot as a job starts from it."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint or savepoint to start from.

    Attributes:
        starting: Whether the job was started from it, as against one the job took itself.
    """

    location: SnapshotLocation
    metadata: CheckpointMetadata
    starting: bool
