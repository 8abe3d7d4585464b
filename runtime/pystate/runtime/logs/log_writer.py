"""Writes logs whose bytes on disk, all together, never exceed a bound.

Imports nothing of pystate but names and how to open files: the process that writes logs is small.
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
    """How much of what is printed is kept.

    Attributes:
        max_bytes: The bytes of all files of the logs together, at any time.
        old_pieces: How many old pieces of each log are kept at most.
    """

    max_bytes: int
    old_pieces: int

    @property
    def piece_bytes(self) -> int:
        """How large the file that grows may become before it is put aside."""
        return max(1, self.max_bytes // (self.old_pieces + 1))


class BoundedLogs:
    """Appends to logs of one folder. Another process may do so at the same time, as that of an earlier driver.

    Args:
        logs: The files that grow; they count together.
        bounds: How much is kept.
    """

    def __init__(self, logs: Sequence[Path], bounds: LogBounds) -> None:
        self._logs = list(logs)
        self._bounds = bounds
        self._lost = dict.fromkeys(self._logs, 0)

    def append(self, log: Path, data: bytes) -> None:
        """Write to the end of a log; what the disk has no room for is dropped, and told of where there is room again."""
        rest = memoryview(data)
        try:
            if self._lost[log]:
                self._write(log, f"\n[pystate: {self._lost[log]:,} bytes of output are lost here]\n".encode())
                self._lost[log] = 0
            while rest:
                rest = rest[self._write(log, rest) :]
        except OSError:  # a full disk, a folder in its place or none: whoever prints must not be held up, nor fail
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
        """Delete the oldest pieces until so many more bytes fit."""
        while self._bytes() + needed > self._bounds.max_bytes:
            found = [(path.stat().st_mtime_ns, begin, path, log) for log in self._logs for begin, path in pieces(log)]
            full = [piece for piece in found if piece[2].stat().st_size]
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
    if older[-1][1] == piece:
        # something must go on to say where the file begins
        with contextlib.suppress(FileExistsError):
            os.close(os.open(piece_of(log, begin_of(older)), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    piece.unlink(missing_ok=True)


def _size(path: Path) -> int:
    """Return the bytes of a file; 0 where there is none, or something else stands there."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
