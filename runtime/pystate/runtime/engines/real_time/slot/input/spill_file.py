"""A queue of buffers on disk: appended at one end, read at the other, checked, and deleted with the process."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from typing import IO, BinaryIO, cast

from pystate.common.errors import PystateError
from pystate.core.snapshot.storage.state_sink import storage_errors, write_all
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer

_HEAD = struct.Struct(">IQI")  # bytes, records, checksum


class SpilledDataError(PystateError):
    """Data that was spilled to disk for a barrier can't be read back."""


class SpillFile:
    """A queue of buffers in an unnamed file, which exists only while the queue isn't empty.

    Args:
        directory: The directory of the file; None for the system's temporary directory.

    Attributes:
        size: Bytes of data in the file.
    """

    def __init__(self, directory: str | None) -> None:
        self._directory = directory
        self._where = directory or tempfile.gettempdir()
        self._file: BinaryIO | None = None
        self._begin = self._end = 0
        self.size = 0

    def append(self, buffer: Buffer) -> None:
        """Append a buffer.

        Raises:
            SnapshotError: The disk is full or fails.
        """
        if self._file is None:
            with storage_errors("open a file in", self._where):
                file: IO[bytes] = tempfile.TemporaryFile(dir=self._directory, prefix="held-back-", buffering=0)
            self._file = cast("BinaryIO", file)
        head = _HEAD.pack(len(buffer.data), buffer.records, zlib.crc32(buffer.data))
        self._file.seek(self._end)
        write_all(self._file, head, self._where)
        write_all(self._file, buffer.data, self._where)
        self._end += len(head) + len(buffer.data)
        self.size += len(buffer.data)

    def popleft(self) -> Buffer:
        """Remove and return the first buffer.

        Raises:
            SpilledDataError: The data differs from what was written.
        """
        buffer = self._read(self._begin)
        self._begin += _HEAD.size + len(buffer.data)
        self.size -= len(buffer.data)
        if self._begin == self._end:
            self.close()
        return buffer

    def __iter__(self) -> Iterator[Buffer]:
        """Yield all buffers without removing them."""
        position = self._begin
        while position < self._end:
            buffer = self._read(position)
            position += _HEAD.size + len(buffer.data)
            yield buffer

    def close(self) -> None:
        """Drop everything, and the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._begin = self._end = self.size = 0

    def _read(self, position: int) -> Buffer:
        length, records, checksum = _HEAD.unpack(self._bytes(position, _HEAD.size))
        data = self._bytes(position + _HEAD.size, length)
        if zlib.crc32(data) != checksum:
            raise self._damaged(position)
        return Buffer(data, records)

    def _bytes(self, position: int, length: int) -> bytes:
        if self._file is None or position + length > self._end:
            raise self._damaged(position)
        parts = []
        while length:  # one system call reads at most 2 GiB
            part = os.pread(self._file.fileno(), length, position)
            if not part:
                raise self._damaged(position)
            parts.append(part)
            position, length = position + len(part), length - len(part)
        return b"".join(parts)

    def _damaged(self, position: int) -> SpilledDataError:
        message = f"Data that waited on disk for a barrier is damaged at byte {position}."
        return SpilledDataError(message, where=self._where, hint="check the disk; the job goes on from its last checkpoint")
