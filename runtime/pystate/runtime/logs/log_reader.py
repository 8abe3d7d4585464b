"""Reads a rotated log by offset, while it is written and its oldest pieces are deleted."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

from pystate.common.errors import PystateError
from pystate.common.files.regular_files import NotRegularError, open_regular
from pystate.runtime.logs.pieces import Piece, begin_of, pieces

_ATTEMPTS = 100


class LogGoneError(PystateError):
    """A part of a log was deleted when the log grew too large."""


def read_log(log: Path, offset: int, limit: int, *, ended: bool) -> tuple[bytes, bool]:
    """Return bytes of the log, and whether nothing will follow them.

    Args:
        log: The file that grows; it need not exist.
        offset: Where in the whole log to begin.
        limit: How many bytes at most.
        ended: Whether it will not be written any more.

    Raises:
        LogGoneError: What stood there was deleted.
        NotRegularError: Something else than a file stands in its place.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _read(log, offset, limit, ended=ended)
        except FileNotFoundError:  # a piece was put aside or deleted meanwhile
            continue
    message = "The log is cut faster than it can be read."
    raise LogGoneError(message, where=str(log), hint="a larger pystate.log.max-size keeps more")


def log_extent(log: Path) -> tuple[int, int]:
    """Return the offsets in the whole log at which its remaining part begins and ends.

    (0, 0) where there is none, or something else than a file stands in its place.
    """
    for _ in range(_ATTEMPTS):
        try:
            with _Growing(log) as growing:
                older = growing.pieces()
                return older[0].begin if older else 0, begin_of(older) + growing.size()
        except FileNotFoundError:
            continue
        except NotRegularError:
            break
    return 0, 0


def _read(log: Path, offset: int, limit: int, *, ended: bool) -> tuple[bytes, bool]:
    with _Growing(log) as growing:
        older = growing.pieces()
        if older and offset < older[0].begin:
            first = older[0].begin
            message = f"The log begins at byte {first}; what was before it has been deleted."
            raise LogGoneError(message, where=str(log), hint=f"ask from offset {first}; pystate.log.max-size keeps more")
        begin = begin_of(older)
        if offset >= begin:
            data = growing.read(offset - begin, limit)
            return data, ended and len(data) < limit
    begin, path = max(piece for piece in older if piece.begin <= offset)
    with open_regular(str(path)) as file:
        file.seek(offset - begin)
        return file.read(limit), False


class _Growing:
    """The growing file, held open: at any moment its name may refer to another file."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Growing:
        with contextlib.suppress(FileNotFoundError):
            self._file = open_regular(str(self._log))
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def pieces(self) -> list[Piece]:
        """Return the pieces that are older than this file.

        Raises:
            FileNotFoundError: It was put aside meanwhile.
        """
        older = pieces(self._log)
        if self._file is not None and os.fstat(self._file.fileno()).st_ino != os.stat(self._log).st_ino:
            raise FileNotFoundError(self._log)
        return older

    def size(self) -> int:
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    def read(self, position: int, limit: int) -> bytes:
        return b"" if self._file is None else os.pread(self._file.fileno(), limit, position)
