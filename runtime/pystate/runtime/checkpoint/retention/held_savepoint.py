"""The savepoint after which a job ends, recorded before it is complete.

Unlike with other savepoints, sinks commit what it holds. So from the moment it is complete, no driver of the job may restore
an older snapshot: what was committed would be written twice.

Layout of the file, numbers big-endian: magic "PYSTHELD", version u16, body length u32, body (msgpack), crc32 u32 of
everything before. It is in the job's `taskowned` directory until the job has ended.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass

from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.metadata_file import read_metadata
from pystate.core.snapshot.numbered_files import NumberedFiles
from pystate.core.snapshot.plain import take_int, take_text
from pystate.core.snapshot.small_file import SmallFile
from pystate.core.snapshot.storage.memory_storage import snapshot_location
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint

_CONTENT = SmallFile(
    b"PYSTHELD",
    1,
    struct.Struct(">8sHI"),
    "the note of a savepoint after which the job ends",
    "go on with the pystate version that wrote it, or a newer one",
    most_bytes=1 << 20,
)


@dataclass(frozen=True)
class HeldSavepoint:
    """A savepoint after which a job ends.

    Attributes:
        checkpoint_id: Its number.
        path: URI of its directory.
    """

    checkpoint_id: int
    path: str

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return _CONTENT.to_bytes(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> HeldSavepoint:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: The file is damaged.
            RestoreError: A newer version wrote it.
        """
        plain = _CONTENT.from_bytes(data)
        return cls(take_int(plain, "checkpoint_id"), take_text(plain, "path"))


class HeldSavepointStore:
    """The files of held savepoints of one job.

    Args:
        location: The job's `taskowned` directory.
    """

    def __init__(self, location: SnapshotLocation) -> None:
        self._location = location
        self._files = NumberedFiles(location, "held-savepoint")

    def write(self, held: HeldSavepoint) -> None:
        """Record a savepoint that is about to complete.

        Raises:
            SnapshotError: The storage failed.
        """
        self._files.write(held.checkpoint_id, held.to_bytes())

    def latest(self, job_id: str) -> CompletedCheckpoint | None:
        """Return the latest one that has completed; None if there is none.

        Raises:
            CorruptSnapshotError: A file, or the savepoint, is damaged.
            SnapshotError: The storage failed.
        """
        for name, number in self._files.newest_first():
            held = HeldSavepoint.from_bytes(self._location.read_file(name))
            if held.checkpoint_id != number:
                message = f"The note of savepoint {number} is that of savepoint {held.checkpoint_id}."
                raise CorruptSnapshotError(message, where=f"{self._location.uri}/{name}")
            location = snapshot_location(held.path)
            if location.exists:
                metadata = read_metadata(location.read_metadata(), location.uri)
                if (metadata.job_id, metadata.checkpoint_id) == (job_id, number):
                    return CompletedCheckpoint(metadata, held.path, metadata.timestamp_ms)
        return None

    def clear(self) -> None:
        """Delete all records.

        Raises:
            SnapshotError: The storage failed.
        """
        self._files.clear()
