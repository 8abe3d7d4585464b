"""Stores the running epoch before it runs, so that it can be rerun with the same rows under the same number.

It is needed where every epoch carries a barrier: a sink that tells batches apart by number then sees the same batch again
after a failure, and stays exactly-once. The files are Spark's: the offset log's entry of the batch, and the sources' own
logs.

Layout of a file, numbers big-endian: magic "PYSTEPOC", version u16, body length u32, body (msgpack), crc32 u32 of everything
before. The files lie in the job's `taskowned` directory, one per epoch that was begun.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass

from pystate.common.errors import CorruptSnapshotError
from pystate.core.snapshot.numbered_files import NumberedFiles
from pystate.core.snapshot.plain import as_map, take, take_int, take_optional_text, unsound
from pystate.core.snapshot.small_file import SmallFile
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation

RUNNING_EPOCH_VERSION = 1

_CONTENT = SmallFile(
    b"PYSTEPOC",
    RUNNING_EPOCH_VERSION,
    struct.Struct(">8sHI"),
    "the running epoch",
    "go on with the pystate version that wrote it, or a newer one",
)


@dataclass(frozen=True)
class RunningEpoch:
    """An epoch that was begun.

    Attributes:
        epoch: The epoch number.
        batch: Spark's batch number.
        base: URI of the snapshot right before it; None for the beginning of the job.
        files: Spark's files that recreate the same batch: content by path below Spark's checkpoint directory. Empty for a
            timer epoch.
        clock: For a timer epoch, the time up to which processing-time timers fire, ms since 1970; else None.
        rows_clock: The same for an epoch with rows; None if an older version wrote the file.
    """

    epoch: int
    batch: int
    base: str | None
    files: dict[str, bytes]
    clock: int | None = None
    rows_clock: int | None = None

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return _CONTENT.to_bytes(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> RunningEpoch:
        """Return the epoch stored in a file's content.

        Raises:
            CorruptSnapshotError: The file is damaged.
            RestoreError: A newer version wrote it.
        """
        plain = _CONTENT.from_bytes(data)
        files = as_map(take(plain, "files"), "files")
        if not all(isinstance(name, str) and isinstance(content, bytes) for name, content in files.items()):
            raise unsound(what="a file of the running epoch is none")
        base = take_optional_text(plain, "base")
        clocks = [None if plain.get(name) is None else take_int(plain, name) for name in ("clock", "rows_clock")]
        return cls(take_int(plain, "epoch", -1), take_int(plain, "batch", -1), base, dict(files), *clocks)


class RunningEpochStore:
    """Stores the running epochs of one job.

    Args:
        location: The job's `taskowned` directory.
    """

    def __init__(self, location: SnapshotLocation) -> None:
        self._location = location
        self._files = NumberedFiles(location, "epoch")

    def write(self, running: RunningEpoch) -> None:
        """Store the epoch that is about to run, in place of the previous one.

        Raises:
            SnapshotError: The storage failed.
        """
        self._files.clear(but=self._files.write(running.epoch, running.to_bytes()))

    def read(self) -> RunningEpoch | None:
        """Return the last epoch that was begun, or None.

        Raises:
            CorruptSnapshotError: Its file is damaged.
            SnapshotError: The storage failed.
        """
        files = self._files.newest_first()
        if not files:
            return None
        name, epoch = files[0]
        running = RunningEpoch.from_bytes(self._location.read_file(name))
        if running.epoch != epoch:
            message = f"The file of the running epoch is that of epoch {running.epoch}."
            raise CorruptSnapshotError(message, where=f"{self._location.uri}/{name}")
        return running

    def clear(self) -> None:
        """Delete all stored epochs.

        Raises:
            SnapshotError: The storage failed.
        """
        self._files.clear()
