"""The format of small files: magic, version, length of the body, body (msgpack), checksum of everything before."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import msgpack

from pystate.common.errors import RestoreError
from pystate.core.snapshot.plain import as_map, unsound

_CRC = struct.Struct(">I")


@dataclass(frozen=True)
class SmallFile:
    """A kind of small file.

    Attributes:
        magic: Its first bytes.
        version: The version that is written, and the only one that is read.
        head: The struct of magic, version and length.
        name: Its name in error messages.
        hint: The hint for a newer version.
        most_bytes: The maximum size that is read; None for any.
    """

    magic: bytes
    version: int
    head: struct.Struct
    name: str
    hint: str
    most_bytes: int | None = None

    def to_bytes(self, plain: dict[str, Any]) -> bytes:
        """Return the content of a file."""
        body: bytes = msgpack.packb(plain, use_bin_type=True)
        data = self.head.pack(self.magic, self.version, len(body)) + body
        return data + _CRC.pack(zlib.crc32(data))

    def from_bytes(self, data: bytes) -> dict[Any, Any]:
        """Parse the content of a file.

        Raises:
            CorruptSnapshotError: It is damaged.
            RestoreError: A newer version wrote it.
        """
        head, fits = self.head, self.most_bytes is None or len(data) <= self.most_bytes
        sound = fits and len(data) >= head.size + _CRC.size
        if not sound or data[-_CRC.size :] != _CRC.pack(zlib.crc32(memoryview(data)[: -_CRC.size])):
            raise unsound(what=f"{self.name} is cut or changed")
        magic, version, length = head.unpack_from(data)
        if magic != self.magic or length != len(data) - head.size - _CRC.size:
            raise unsound(what=f"{self.name} is none")
        if version != self.version:
            message = f"{self.name.capitalize()} was written in version {version}; this pystate reads {self.version}."
            raise RestoreError(message, hint=self.hint)
        try:
            return as_map(msgpack.unpackb(memoryview(data)[head.size : -_CRC.size], raw=False), self.name)
        except ValueError as error:
            raise unsound(what=f"{self.name} can't be read") from error
