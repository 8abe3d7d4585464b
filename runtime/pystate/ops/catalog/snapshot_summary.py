"""The summary of a snapshot in a list, from its `_metadata`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, snapshot_id_of


@dataclass(frozen=True)
class SnapshotSummary:
    """The summary of a snapshot whose `_metadata` can be read.

    Attributes:
        uri: Its directory.
        snapshot_id: Its short id; None if neither metadata nor directory tells it.
        is_savepoint: Whether it is a savepoint.
        format: The format of its keyed state.
        timestamp_ms: When it was triggered, ms since 1970.
        job_id: The job that took it.
        job_name: The name of the job.
        checkpoint_id: Its number within the job.
        epoch: The epoch of the cut.
        parallelism: The default parallelism of the job.
        max_parallelism: That of the job.
        size: The size of its state in bytes.
        operators: The uids of its operators.
        parent: The URI, at that time, of the snapshot that its job was started from; None for a job without one.
        parent_id: The short id of the parent; None if unknown.
        message: Its message.
        code_fingerprint: The version of the program that took it.
    """

    uri: str
    snapshot_id: str | None
    is_savepoint: bool
    format: str
    timestamp_ms: int
    job_id: str
    job_name: str
    checkpoint_id: int
    epoch: int
    parallelism: int
    max_parallelism: int
    size: int
    operators: tuple[str, ...]
    parent: str | None
    parent_id: str | None
    message: str | None
    code_fingerprint: str | None

    @staticmethod
    def of(metadata: CheckpointMetadata, uri: str) -> SnapshotSummary:
        """Return the summary of the snapshot in a directory."""
        # older versions didn't write the ids; a moved parent isn't found then
        parent_id = metadata.parent_id
        if parent_id is None and metadata.parent is not None:
            parent_id = snapshot_id_of(metadata.parent, _job_in(metadata.parent))
        return SnapshotSummary(
            uri=uri,
            snapshot_id=metadata.snapshot_id or snapshot_id_of(uri, metadata.job_id),
            is_savepoint=metadata.checkpoint_type is CheckpointType.SAVEPOINT,
            format=metadata.format.value,
            timestamp_ms=metadata.timestamp_ms,
            job_id=metadata.job_id,
            job_name=metadata.job_name,
            checkpoint_id=metadata.checkpoint_id,
            epoch=metadata.epoch,
            parallelism=metadata.parallelism,
            max_parallelism=metadata.max_parallelism,
            size=metadata.state_size,
            operators=tuple(operator.uid for operator in metadata.operators),
            parent=metadata.parent,
            parent_id=parent_id,
            message=metadata.message,
            code_fingerprint=metadata.code_fingerprint,
        )

    @property
    def kind(self) -> str:
        """The kind of snapshot, in a word."""
        return "savepoint" if self.is_savepoint else "checkpoint"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able data."""
        return {
            "id": self.snapshot_id,
            "kind": self.kind,
            "path": self.uri,
            "timestamp": self.timestamp_ms,
            "job-id": self.job_id,
            "job-name": self.job_name,
            "checkpoint-id": self.checkpoint_id,
            "epoch": self.epoch,
            "parent-id": self.parent_id,
            "parent-path": self.parent,
            "size": self.size,
            "format": self.format,
            "parallelism": self.parallelism,
            "max-parallelism": self.max_parallelism,
            "message": self.message,
            "code-fingerprint": self.code_fingerprint,
            "operators": list(self.operators),
        }


def read_snapshot(location: SnapshotLocation) -> CheckpointMetadata:
    """Read a snapshot's `_metadata`.

    Raises:
        SnapshotError: It doesn't exist, or can't be read.
    """
    return read_metadata(location.read_metadata(), location.uri)


def _job_in(uri: str) -> str:
    """Return the parent folder of a snapshot, which for a checkpoint is named after the job."""
    return uri.rstrip("/").rsplit("/", 2)[-2] if uri.count("/") > 1 else ""
