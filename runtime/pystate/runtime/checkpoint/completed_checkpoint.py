"""A checkpoint or savepoint that completed."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint or savepoint whose `_metadata` is on the storage.

    Attributes:
        metadata: The content of the file.
        path: URI of the snapshot's directory.
        completion_timestamp: When it completed, ms since 1970.
        owned: Whether this job may delete it; not a snapshot the job was merely started from.
        claimed: Whether the job was started from it and has claimed it, even if it is a savepoint.
        heard: Whether all functions that are to be notified of it have been called, and none has failed.
    """

    metadata: CheckpointMetadata
    path: str
    completion_timestamp: int
    owned: bool = True
    claimed: bool = False
    heard: bool = True

    @property
    def checkpoint_id(self) -> int:
        """Its number."""
        return self.metadata.checkpoint_id

    @property
    def epoch(self) -> int:
        """The epoch of the cut."""
        return self.metadata.epoch

    @property
    def is_savepoint(self) -> bool:
        """Whether it is owned by users rather than by the job."""
        return self.metadata.checkpoint_type is CheckpointType.SAVEPOINT

    @property
    def may_be_deleted(self) -> bool:
        """Whether the job may delete it when it isn't needed any more."""
        return self.claimed or (self.owned and not self.is_savepoint)
