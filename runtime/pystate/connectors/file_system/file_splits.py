"""The splits of a file source: a file and the position in it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pystate.connectors.file_system.file_listing import FoundFile
from pystate.connectors.source import SourceSplit

_HEAD_BYTES = 4096
_FIELDS = (3, 5)
"""The number of fields in the plain form of a split, without and with the head of the file."""
_NAMED = 3


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


def position_of(found: Any, splits: Sequence[Any]) -> str | None:
    """Return how far files were read, as JSON: how many are read, and where the others stand.

    Args:
        found: What the enumerator keeps: the assigned files; perhaps another system's.
        splits: Plain forms, perhaps of another system's splits.

    Returns:
        None if they are another system's, or there was no file yet.
    """
    if not isinstance(found, (list, tuple)) or not all(map(_is_uri, found)) or not (found or splits):
        return None
    begun, waiting = {}, 0
    for plain in splits:
        if not isinstance(plain, (list, tuple)) or len(plain) not in _FIELDS or not _is_uri(plain[0]):
            return None
        if plain[2]:
            begun[plain[0]] = plain[2]
        else:
            waiting += 1
    unread = {plain[0] for plain in splits}
    return json.dumps({"read": sum(uri not in unread for uri in found), "begun": begun, "waiting": waiting})


def describe_position(position: Any) -> str | None:
    """Return in words what `position_of` returned, of its parsed JSON; None for anything else."""
    if not isinstance(position, dict) or position.keys() != {"read", "begun", "waiting"}:
        return None
    read, begun, waiting = position["read"], position["begun"], position["waiting"]
    told = [f"{read:,} file{'' if read == 1 else 's'} read"]
    if begun:
        first = ", ".join(uri.rsplit("/", 1)[-1] for uri in sorted(begun)[:_NAMED])
        told.append(f"in the midst of {first}{'' if len(begun) <= _NAMED else f' and {len(begun) - _NAMED:,} more'}")
    return ", ".join([*told, *([f"{waiting:,} not begun"] if waiting else [])])


def _is_uri(name: object) -> bool:
    return isinstance(name, str) and ":" in name
