"""The encoding of in-flight data: magic, version, checkpoint, channels, elements with a checksum each, and an end element.

All numbers are big-endian. An element is its kind (u8), its channel (u32), a number (i64: a buffer's records, a watermark's
time, whether a channel is idle), the length of its data (u32), the data, and the CRC-32 of all that. The last element has
the kind `_END`: its number is the number of elements, its data the CRC-32 of all bytes before it.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, BinaryIO

from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.core.snapshot.handles.input_channel_state import ChannelStateRescaleError
from pystate.core.snapshot.plain import unsound
from pystate.core.snapshot.storage.state_sink import storage_errors, write_all
from pystate.runtime.engines.real_time.slot.input.stream_elements import Buffer, InFlightElement, Watermark, WatermarkStatus

CHANNEL_STATE = "channel"
"""The format of channel state, for its handle."""

MAGIC = b"PSCHNL"
VERSION = 1
_HEAD = struct.Struct(">6sHqI")
_ELEMENT = struct.Struct(">BIqI")
_CRC = struct.Struct(">I")
_END, _BUFFER, _WATERMARK, _STATUS = range(4)
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class ChannelState:
    """The encoded channel state of one subtask, in memory or in an unnamed file.

    Attributes:
        file: Open for reading; closed by the code that has stored the bytes.
        size: The number of bytes.
        crc32: The CRC-32 of all bytes.
    """

    file: IO[bytes]
    size: int
    crc32: int

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes in chunks."""
        self.file.seek(0)
        while chunk := self.file.read(_CHUNK_BYTES):
            yield chunk

    def to_bytes(self) -> bytes:
        """Return all bytes, in memory."""
        return b"".join(self.chunks())

    def close(self) -> None:
        """Drop the bytes."""
        self.file.close()


class ChannelStateWriter:
    """Writes the channel state of a checkpoint incrementally.

    Args:
        checkpoint_id: The checkpoint.
        channels: The number of the subtask's channels.
        memory_bytes: The memory bound; beyond it a file is used.
        directory: The directory of that file; None for the system's temporary directory.

    Attributes:
        data_bytes: Bytes of data so far.
    """

    def __init__(self, checkpoint_id: int, channels: int, memory_bytes: int, directory: str | None = None) -> None:
        self._where = directory or tempfile.gettempdir()
        self._file = tempfile.SpooledTemporaryFile(memory_bytes, dir=directory, prefix="channel-state-")
        self._size = self._crc32 = self._count = 0
        self.data_bytes = 0
        self._write(_HEAD.pack(MAGIC, VERSION, checkpoint_id, channels))

    def write(self, channel: int, element: InFlightElement) -> None:
        """Add an element.

        Raises:
            SnapshotError: The disk is full or fails.
        """
        if isinstance(element, Buffer):
            self._element(_BUFFER, channel, element.records, element.data)
            self.data_bytes += len(element.data)
        elif isinstance(element, Watermark):
            self._element(_WATERMARK, channel, element.timestamp)
        else:
            self._element(_STATUS, channel, int(element.idle))
        self._count += 1

    def finish(self) -> ChannelState | None:
        """Return the written state; None if there is none."""
        if not self._count:
            self.close()
            return None
        self._element(_END, 0, self._count, _CRC.pack(self._crc32))
        with storage_errors("write a file in", self._where):
            self._file.flush()
        return ChannelState(self._file, self._size, self._crc32)

    def close(self) -> None:
        """Drop the written state."""
        self._file.close()

    def _element(self, kind: int, channel: int, number: int, data: bytes = b"") -> None:
        head = _ELEMENT.pack(kind, channel, number, len(data))
        self._write(head)
        self._write(data)
        self._write(_CRC.pack(zlib.crc32(data, zlib.crc32(head))))

    def _write(self, data: bytes) -> None:
        write_all(self._file, data, self._where)  # type: ignore[arg-type]
        self._crc32 = zlib.crc32(data, self._crc32)
        self._size += len(data)


class ChannelStateReader:
    """Reads what a `ChannelStateWriter` wrote.

    Args:
        file: The file, at its beginning.

    Attributes:
        checkpoint_id: The checkpoint.
        channels: The number of channels the subtask had.

    Raises:
        CorruptSnapshotError: It isn't channel state, or is truncated.
        RestoreError: A newer version wrote it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._crc32 = 0
        magic, version, self.checkpoint_id, self.channels = _HEAD.unpack(self._read(_HEAD.size))
        if magic != MAGIC:
            raise unsound(what="data in flight is none")
        if version != VERSION:
            message = f"Data in flight was written in version {version}; this pystate reads {VERSION}."
            raise RestoreError(message, hint="restore with the version of pystate that wrote it")

    def check_channels(self, channels: int) -> None:
        """Check that a subtask has as many channels as the one that wrote the state.

        Raises:
            ChannelStateRescaleError: The numbers differ.
        """
        if channels != self.channels:
            held = f"Checkpoint {self.checkpoint_id} holds data in flight of {self.channels} channels"
            message = f"{held}; the subtask has {channels}."
            hint = "keep the parallelism that the checkpoint was taken with, or start from a savepoint, which has none"
            raise ChannelStateRescaleError(message, hint=hint)

    def __iter__(self) -> Iterator[tuple[int, InFlightElement]]:
        """Yield the elements, each with its channel.

        Raises:
            CorruptSnapshotError: They are damaged.
        """
        count = 0
        while True:
            before = self._crc32
            head = self._read(_ELEMENT.size)
            kind, channel, number, length = _ELEMENT.unpack(head)
            data = self._read(length)
            if self._read(_CRC.size) != _CRC.pack(zlib.crc32(data, zlib.crc32(head))):
                raise unsound(what=f"element {count} in flight is changed")
            if kind == _END:
                if number != count or data != _CRC.pack(before) or self._file.read(1):
                    raise unsound(what="data in flight is not whole")
                return
            if channel >= self.channels:
                raise unsound(what=f"element {count} in flight is of channel {channel}, of {self.channels}")
            yield channel, _element(kind, number, data)
            count += 1

    def _read(self, length: int) -> bytes:
        parts = []
        while length:
            part = self._file.read(min(length, _CHUNK_BYTES))  # a corrupted length must not take all memory
            if not part:
                raise unsound(what="data in flight is cut")
            parts.append(part)
            length -= len(part)
        data = b"".join(parts)
        self._crc32 = zlib.crc32(data, self._crc32)
        return data


def _element(kind: int, number: int, data: bytes) -> InFlightElement:
    if kind == _BUFFER:
        return Buffer(data, number)
    if kind == _WATERMARK:
        return Watermark(number)
    if kind == _STATUS:
        return WatermarkStatus(idle=bool(number))
    raise _unknown(kind)


def _unknown(kind: int) -> CorruptSnapshotError:
    return unsound(what=f"an element in flight is of the unknown kind {kind}")
