"""Bounds the size of log files that other processes hold open.

A driver, its JVM and its workers append to one open file, which can't be renamed away from under them. So the file is copied
and emptied; they all append, and go on at its new end. A line written between the two steps may be lost. A piece's name says
where in the whole log it begins, so that those who follow the log by offset are not misled.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pystate.common.errors import PystateError

MAX_LOG_BYTES = 100 << 20
_DIGITS = 16


class LogGoneError(PystateError):
    """A part of a log was deleted when the log grew too large."""


def rotate(log: Path, keep: int, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Put a log that has grown too large aside as `<name>.<offset of its first byte>`; return whether it was done.

    Args:
        log: The file; it need not exist.
        keep: How many old pieces are kept, at least 1.
        max_bytes: The size from which on a piece is put aside.
    """
    try:
        if log.stat().st_size < max_bytes:
            return False
    except FileNotFoundError:
        return False
    piece = log.with_name(f"{log.name}.{_begin(log):0{_DIGITS}d}")
    draft = log.with_name(f".{piece.name}.tmp")  # half a piece would have a wrong end
    try:
        with log.open("rb") as source, os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as copy:
            shutil.copyfileobj(source, copy)
        draft.rename(piece)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    os.truncate(log, 0)
    for _, old in _pieces(log)[:-keep]:
        old.unlink(missing_ok=True)
    return True


def read_rotated(log: Path, offset: int, limit: int, *, ended: bool) -> tuple[bytes, bool]:
    """Return bytes of the whole log, of which old pieces may have been put aside, and whether nothing will follow them.

    Args:
        log: The file.
        offset: Where in the whole log to begin.
        limit: How many bytes at most.
        ended: Whether nobody will write to it any more.

    Raises:
        LogGoneError: What stood there was deleted.
    """
    begin, old = _begin(log), _pieces(log)
    if old and offset < old[0][0]:
        message = f"The log begins at byte {old[0][0]}; what was before it has been deleted."
        raise LogGoneError(message, where=str(log), hint=f"ask from offset {old[0][0]}; env.log.max says how much is kept")
    begin, path = max((piece for piece in [*old, (begin, log)] if piece[0] <= offset), key=lambda piece: piece[0])
    try:
        with path.open("rb") as file:
            file.seek(offset - begin)
            data = file.read(limit)
    except FileNotFoundError:
        return b"", ended
    return data, ended and path == log and len(data) < limit


def extent(log: Path) -> tuple[int, int]:
    """Return where in the whole log what is left of it begins, and where it ends; (0, 0) where there is none."""
    old = _pieces(log)
    try:
        size = log.stat().st_size
    except FileNotFoundError:
        size = 0
    return old[0][0] if old else 0, _begin(log) + size


def _begin(log: Path) -> int:
    """Return the offset in the whole log at which the file begins."""
    old = _pieces(log)
    return old[-1][0] + old[-1][1].stat().st_size if old else 0


def _pieces(log: Path) -> list[tuple[int, Path]]:
    """Return the old pieces with the offsets at which they begin, the oldest first."""
    found = log.parent.glob(f"{log.name}.{'[0-9]' * _DIGITS}")
    return sorted((int(piece.suffix[1:]), piece) for piece in found)
