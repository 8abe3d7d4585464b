"""Checks a file of a snapshot against its handle: size and checksum."""

from __future__ import annotations

import zlib
from typing import BinaryIO

from pystate.common.errors import CorruptSnapshotError, SnapshotError
from pystate.core.snapshot.handles.handles import FileStateHandle

_ANOTHER = "restore from another checkpoint or savepoint"
_CHUNK_BYTES = 1 << 20


def check_content(file: BinaryIO, handle: FileStateHandle, uri: str, target: BinaryIO | None = None) -> None:
    """Read a file to its end, and compare length and checksum.

    Args:
        file: Open at its beginning.
        handle: What it must be.
        uri: What errors name.
        target: A local file that gets a copy.

    Raises:
        CorruptSnapshotError: It is damaged.
        SnapshotError: The copy can't be written.
    """
    size, crc32 = 0, 0
    while chunk := file.read(_CHUNK_BYTES):
        size += len(chunk)
        crc32 = zlib.crc32(chunk, crc32)
        if size > handle.size:
            break
        if target is not None:
            _write(target, chunk)
    check_length(size, handle, uri)
    if crc32 != handle.crc32:
        message = f"A file of the snapshot is damaged, its checksum is wrong: {uri}."
        raise CorruptSnapshotError(message, where=uri, hint=_ANOTHER)


def _write(target: BinaryIO, chunk: bytes) -> None:
    try:
        target.write(chunk)
    except OSError as error:
        message = f"Cannot write {target.name}: {error.strerror or error}"
        raise SnapshotError(message, where=target.name) from error


def check_length(size: int, handle: FileStateHandle, uri: str) -> None:
    """Raise CorruptSnapshotError if the length of a file differs from its handle."""
    if size != handle.size:
        message = f"A file of the snapshot is damaged, its length is not {handle.size} bytes: {uri}."
        raise CorruptSnapshotError(message, where=uri, hint=_ANOTHER)
