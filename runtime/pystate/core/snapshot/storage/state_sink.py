"""Sinks for writing state to a storage, with errors that name the location."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from pystate.common.configuration.file_system_settings import current_settings
from pystate.common.configuration.sensitive_keys import HIDDEN
from pystate.common.errors import PystateError, SnapshotError, StorageError
from pystate.common.files.whole_writes import write_fully
from pystate.common.held_checksum import held_crc32

_ANOTHER_USERS = (
    "choose a place of the user that the job runs as, or let him at this one; where executors of a cluster have a user of "
    'their own: pystate.storage.umask = "007", and a group of both'
)


_REFUSALS = (PermissionError, NotADirectoryError, IsADirectoryError)
"""Errors of a reachable storage: the path or the permissions are wrong."""


@contextlib.contextmanager
def storage_errors(action: str, uri: str) -> Iterator[None]:
    """Turn what a filesystem raises into a SnapshotError that names the path."""
    try:
        yield
    except PystateError:
        raise
    except Exception as error:  # filesystems of fsspec let their client libraries' own exceptions through
        cause = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        for secret in current_settings().secrets():
            cause = cause.replace(secret, HIDDEN)
        message = f"Cannot {action} {uri}: {cause}"
        hint = _ANOTHER_USERS if isinstance(error, PermissionError) else None
        kind = SnapshotError if isinstance(error, _REFUSALS) else StorageError
        raise kind(message, where=uri, hint=hint) from error


class StateSink(io.RawIOBase):
    """Collects a state's bytes: in memory up to a threshold, beyond it in a file opened by `open_file`."""

    def __init__(self, threshold: int, uri: str, open_file: Callable[[], BinaryIO]) -> None:
        super().__init__()
        self._threshold = threshold
        self._uri = uri
        self._open_file = open_file
        self._buffer = bytearray()
        self.file: BinaryIO | None = None
        self.size = 0
        self.crc32 = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write all bytes."""
        view = memoryview(data).cast("B")
        self.size += len(view)
        self.crc32 = held_crc32(view, self.crc32)
        if self.file is None and self.size <= self._threshold:
            self._buffer += view
            return len(view)
        if self.file is None:
            self.file = self._open_file()
            write_all(self.file, self._buffer, self._uri)
            self._buffer = bytearray()
        write_all(self.file, view, self._uri)
        return len(view)

    def inline(self) -> bytes:
        """Return the bytes, if there is no file."""
        return bytes(self._buffer)


class TeeSink(io.RawIOBase):
    """Writes a state's bytes, and also to a copy, which may fail.

    Args:
        sink: The main sink.
        copy: The file of the copy; the caller closes it.

    Attributes:
        copied: Whether the copy has all bytes so far.
    """

    def __init__(self, sink: BinaryIO, copy: BinaryIO) -> None:
        super().__init__()
        self._sink = sink
        self._copy = copy
        self.copied = True

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int | None:
        """Write to both; an error of the copy only ends the copy."""
        written = self._sink.write(data)
        if self.copied:
            try:
                with memoryview(data).cast("B") as view:
                    self._copy.write(view if written is None else view[:written])
            except OSError:
                self.copied = False
        return written


def write_all(file: BinaryIO, data: bytearray | bytes | memoryview, uri: str) -> None:
    """Write all bytes to a file, which may accept only a part per call.

    Raises:
        SnapshotError: It can't be written; the URI is named.
    """
    with storage_errors("write", uri):
        write_fully(file, data)
