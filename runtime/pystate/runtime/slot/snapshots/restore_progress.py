"""Progress of a slot's restore."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from pystate.common.key_groups import KeyGroupRange
from pystate.core.snapshot.handles.incremental_handle import AnyKeyedStateHandle, IncrementalKeyedStateHandle


class RestoreProgress:
    """Counts the bytes of keyed state that a slot has restored; used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = 0

    @property
    def done(self) -> int:
        """The number of bytes read so far."""
        with self._lock:
            return self._done

    def add(self, number: int) -> None:
        """Add bytes that have been read."""
        with self._lock:
            self._done += number

    @contextmanager
    def reading(self, file: BinaryIO, expected: int) -> Iterator[BinaryIO]:
        """Count the bytes read from a file; afterwards exactly the expected bytes count, even if parts were read repeatedly.

        Args:
            file: Open for reading.
            expected: The approximate number of bytes that are needed of it.
        """
        with self._lock:
            before = self._done
        with file:
            yield cast(BinaryIO, _CountedFile(file, self, expected))
        with self._lock:
            self._done = before + expected


class _CountedFile:
    """A file that counts its reads up to the expected size; supports only the methods that state readers need."""

    def __init__(self, file: BinaryIO, progress: RestoreProgress, most: int) -> None:
        self._file = file
        self._progress = progress
        self._left = most
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        counted = min(len(data), self._left)
        self._left -= counted
        self._progress.add(counted)
        return data


def bytes_to_read(handle: AnyKeyedStateHandle, key_groups: KeyGroupRange) -> int:
    """Return about how many bytes of a handle a subtask reads: all of a native handle, else the share of its key groups."""
    if isinstance(handle, IncrementalKeyedStateHandle):
        return sum(file.size for file in handle.files.values())
    mine = handle.key_group_range.intersect(key_groups)
    return handle.state_size * len(mine) // len(handle.key_group_range)
