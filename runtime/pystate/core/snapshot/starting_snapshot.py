"""The snapshot that a job or an attempt starts from, and its check before the job exists: that it is there, and readable."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.common.errors import RestoreError
from pystate.core.snapshot.metadata import CheckpointMetadata
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.storage.snapshot_location import (
    METADATA_FILE,
    SnapshotLocation,
    is_snapshot_directory,
    parse_location,
    resolve_snapshot,
)


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint or savepoint to start from.

    Attributes:
        starting: Whether the job was started from it; False for a checkpoint of the job itself.
    """

    location: SnapshotLocation
    metadata: CheckpointMetadata
    starting: bool


_SHOWN = 5


def read_starting_point(path: str) -> tuple[SnapshotLocation, CheckpointMetadata]:
    """Return the snapshot at `path`, a directory or its `_metadata`, and its metadata.

    Raises:
        RestoreError: There is none; the hint names those beside it, which stay when a job deletes an older checkpoint.
        CorruptSnapshotError: It is damaged.
        SnapshotError: The storage can't be read.
    """
    try:
        location = resolve_snapshot(path)
    except RestoreError as error:
        beside = _snapshots_beside(path)
        if beside:
            folder = path.rstrip("/").rpartition("/")[0]
            error.hint = f"checkpoints give way to newer ones; in {folder} there are {', '.join(beside)}"
        raise
    return location, read_metadata(location.read_metadata(), location.uri)


def _snapshots_beside(path: str) -> list[str]:
    """Return the names of the latest snapshots in the parent directory of a missing snapshot."""
    folder, _, name = path.rstrip("/").removesuffix(f"/{METADATA_FILE}").rpartition("/")
    if not folder or not is_snapshot_directory(name):
        return []
    try:
        fs, inside, _ = parse_location(folder)
        found = [str(entry).rstrip("/").rpartition("/")[2] for entry in fs.ls(inside, detail=False)]
    except OSError:
        return []
    complete = [one for one in found if is_snapshot_directory(one) and SnapshotLocation(f"{folder}/{one}").exists]
    return sorted(complete, key=lambda one: (len(one), one))[-_SHOWN:]
