"""State handles: where the bytes of a piece of state are."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pystate.core.snapshot.plain import as_map, take_bytes, take_int, take_text, unsound

_FILE = "file"
_BYTES = "bytes"
_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.+")
_NOT_NAMES = ("", ".", "..")
MAX_CRC32 = 0xFFFFFFFF


@dataclass(frozen=True)
class FileStateHandle:
    """State in a file.

    Attributes:
        path: Relative to the snapshot's directory; an absolute URI for a shared file.
        size: Its size in bytes.
        crc32: The checksum of the file.
    """

    path: str
    size: int
    crc32: int

    @property
    def is_absolute(self) -> bool:
        """Whether the path is a URI."""
        return _ABSOLUTE_URI.fullmatch(self.path) is not None


@dataclass(frozen=True)
class ByteStreamStateHandle:
    """State that is small enough to be stored in the handle itself.

    Attributes:
        data: The state.
    """

    data: bytes

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    @property
    def crc32(self) -> int:
        """The checksum of the data."""
        return zlib.crc32(self.data)


StateHandle = FileStateHandle | ByteStreamStateHandle


def check_path(path: str) -> None:
    """Reject a path that could lead out of its directory.

    Raises:
        CorruptSnapshotError: The path is empty, absolute without being a URI, or has `.` or `..` in it.
    """
    directory, slash, name = path.rpartition("/")
    if name in _NOT_NAMES or "\\" in name or not name.isprintable() or not _leads_down(directory + slash):
        raise unsound(what=f"a state handle leads to {path!r}")


@lru_cache(maxsize=1024)  # a checkpoint may name a hundred thousand files of one directory
def _leads_down(directory: str) -> bool:
    """Return whether what lies in a directory, given with its slash, can't lie outside of it."""
    path = f"{directory}name"
    parts = path.split(":/", 1)[1].lstrip("/").split("/") if _ABSOLUTE_URI.fullmatch(path) else path.split("/")
    return not any(part in _NOT_NAMES for part in parts) and "\\" not in path and path.isprintable()


def handle_to_plain(handle: StateHandle) -> dict[str, Any]:
    """Return the handle as plain data."""
    if isinstance(handle, FileStateHandle):
        return {"kind": _FILE, "path": handle.path, "size": handle.size, "crc32": handle.crc32}
    return {"kind": _BYTES, "data": handle.data}


def handle_from_plain(plain: object) -> StateHandle:
    """Rebuild a handle.

    Raises:
        CorruptSnapshotError: It isn't one, or its path leads elsewhere.
    """
    data = as_map(plain, "a state handle")
    kind = take_text(data, "kind")
    if kind == _BYTES:
        return ByteStreamStateHandle(take_bytes(data, "data"))
    if kind == _FILE:
        path = take_text(data, "path")
        check_path(path)
        return FileStateHandle(path, take_int(data, "size"), take_int(data, "crc32", 0, MAX_CRC32))
    raise unsound(what=f"a state handle is of the unknown kind {kind!r}")
