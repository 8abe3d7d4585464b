"""The splits of a file source: a file and the position in it."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

from pystate.connectors.file_system.file_listing import FoundFile
from pystate.connectors.source import SourceSplit

_HEAD_BYTES = 4096


@dataclass(frozen=True)
class FileHead:
    """What a file begins with, which growing and copying leave as it is, and another file in its place doesn't have.

    Attributes:
        length: Of the bytes it is about.
        checksum: Theirs.
    """

    length: int
    checksum: int

    @staticmethod
    def of(file: BinaryIO, length: int = _HEAD_BYTES) -> FileHead:
        """Return that of a file, which stands at its begin before and after."""
        data = bytearray()
        while len(data) < length and (part := file.read(length - len(data))):
            data += part
        file.seek(0)
        return FileHead(len(data), zlib.crc32(data))


class FileSourceSplit(SourceSplit):
    """A file from a position on.

    Attributes:
        file: As said.
        position: What it counts is the format's; 0 for the begin.
        head: Of the file that the position is about; None where it isn't known: nobody has opened it, or a version did
            that didn't look.
    """

    def __init__(self, file: FoundFile, position: int = 0, head: FileHead | None = None) -> None:
        self.file = file
        self.position = position
        self.head = head

    def split_id(self) -> str:
        """Return the file."""
        return self.file.uri

    def to_plain(self) -> list[Any]:
        """Return file, position and, where it is known, head."""
        head = [] if self.head is None else [self.head.length, self.head.checksum]
        return [self.file.uri, self.file.modified_ms, self.position, *head]

    @staticmethod
    def of(plain: Any) -> FileSourceSplit:
        """Return the split of which `to_plain` returned this."""
        uri, modified_ms, position, *head = plain
        file = FoundFile(str(uri), int(modified_ms))
        return FileSourceSplit(file, int(position), FileHead(*map(int, head)) if head else None)
