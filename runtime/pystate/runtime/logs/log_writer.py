"""Writes logs whose total size on disk never exceeds a bound.

Imports only a few small modules of pystate, to keep the log process small.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pystate.common.files.regular_files import open_to_write
from pystate.runtime.logs.pieces import begin_of, piece_of, pieces


@dataclass(frozen=True)
class LogBounds:
    """How much of the logs is kept.

    Attributes:
        max_bytes: The maximum size of all files of the logs together, at any time.
        old_pieces: The maximum number of old pieces of each log.
    """

    max_bytes: int
    old_pieces: int

    @property
    def piece_bytes(self) -> int:
        """The maximum size of the growing file before it is rotated."""
        return max(1, self.max_bytes // (self.old_pieces + 1))


class BoundedLogs:
    """Appends to logs of one folder. Another process, of an earlier driver, may do so at the same time.

    Args:
        logs: The growing files, which share the bounds.
        bounds: How much is kept.
    """

    def __init__(self, logs: Sequence[Path], bounds: LogBounds) -> None:
        self._logs = list(logs)
        self._bounds = bounds
        self._lost = dict.fromkeys(self._logs, 0)

    def append(self, log: Path, data: bytes) -> None:
        """Append to a log; what the disk has no room for is dropped, and reported in the log when there is room again."""
        rest = memoryview(data)
        try:
            if self._lost[log]:
                self._write(log, f"\n[pystate: {self._lost[log]:,} bytes of output are lost here]\n".encode())
                self._lost[log] = 0
            while rest:
                rest = rest[self._write(log, rest) :]
        except OSError:  # a full disk, or a folder in its place or missing: printing processes must neither block nor fail
            self._lost[log] += len(rest)

    def _write(self, log: Path, data: bytes | memoryview) -> int:
        size = _size(log)
        if size >= self._bounds.piece_bytes:
            self._put_aside(log)
            size = 0
        part = memoryview(data)[: self._bounds.piece_bytes - size]
        self._make_room(len(part))
        # opened anew each time: its name may be another file's by now
        descriptor = open_to_write(log, os.O_WRONLY | os.O_APPEND)
        try:
            return os.write(descriptor, part)
        finally:
            os.close(descriptor)

    def _put_aside(self, log: Path) -> None:
        older = pieces(log)
        log.rename(piece_of(log, begin_of(older)))
        for _, old in pieces(log)[: -self._bounds.old_pieces]:
            old.unlink(missing_ok=True)

    def _make_room(self, needed: int) -> None:
        """Delete the oldest pieces until a number of bytes fits."""
        while self._bytes() + needed > self._bounds.max_bytes:
            found = [(path.stat().st_mtime_ns, begin, path, log) for log in self._logs for begin, path in pieces(log)]
            full = [(since, begin, path, log) for since, begin, path, log in found if path.stat().st_size]
            if full:
                _, _, oldest, log = min(full)
                _delete(log, oldest)
                continue
            largest = max(self._logs, key=_size)  # one that was written before the bound was set
            if not _size(largest):
                return
            self._put_aside(largest)

    def _bytes(self) -> int:
        return sum(_size(log) + sum(_size(path) for _, path in pieces(log)) for log in self._logs)


def _delete(log: Path, piece: Path) -> None:
    older = pieces(log)
    if older[-1].path == piece:
        # a marker of where the file begins must remain
        with contextlib.suppress(FileExistsError):
            os.close(os.open(piece_of(log, begin_of(older)), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    piece.unlink(missing_ok=True)


def _size(path: Path) -> int:
    """Return the size of a file; 0 if there is no regular file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
