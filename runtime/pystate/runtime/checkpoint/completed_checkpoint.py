"""A checkpoint or savepoint that completed."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A checkpoint or savepoint whose `_metadata` is on the storage.

    Attributes:
        metadata: What is in the file.
        path: URI of the snapshot's directory.
        completion_timestamp: When it completed, ms since 1970.
        owned: Whether it is this job's to delete; a snapshot the job was merely started from is not.
        claimed: Whether the job was started from it and has made it its own, be it a savepoint.
        heard: Whether every function that wants to know of it has been called, and none has failed.
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
        """The epoch the cut stands at."""
        return self.metadata.epoch

    @property
    def is_savepoint(self) -> bool:
        """Whether it belongs to people rather than to the job."""
        return self.metadata.checkpoint_type is CheckpointType.SAVEPOINT

    @property
    def may_be_deleted(self) -> bool:
        """Whether the job may delete it when it has no more use for it."""
        return self.claimed or (self.owned and not self.is_savepoint)
