"""The snapshot that a job or an attempt starts from."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint or savepoint to start from.

    Attributes:
        starting: Whether the job was started from it; False for a checkpoint of the job itself.
    """

    location: SnapshotLocation
    metadata: CheckpointMetadata
    starting: bool
