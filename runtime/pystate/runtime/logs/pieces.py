"""The pieces of a log: their names, and finding them.

A log is one growing file and older pieces beside it, `<name>.<offset of its first byte in the whole log>`, so that readers
can follow a log by offset. If all older pieces are deleted, an empty one marks where the growing file begins.

Imports only the opening of files from pystate, to keep the log process small.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import NamedTuple

from pystate.common.files.regular_files import open_regular

_DIGITS = 16
_OFFSET = re.compile(rf"\d{{{_DIGITS}}}")


class Piece(NamedTuple):
    """An older piece of a log.

    Attributes:
        begin: The offset of its first byte in the whole log.
        path: Its file.
    """

    begin: int
    path: Path


def piece_of(log: Path, offset: int) -> Path:
    """Return the piece that begins at an offset."""
    return log.with_name(f"{log.name}.{offset:0{_DIGITS}d}")


def pieces(log: Path) -> list[Piece]:
    """Return the older pieces, the oldest first; only regular files count."""
    start = f"{log.name}."
    found = []
    try:
        with os.scandir(log.parent) as entries:
            for entry in entries:
                offset = entry.name[len(start) :]
                if entry.name.startswith(start) and _OFFSET.fullmatch(offset) and entry.is_file():
                    found.append(Piece(int(offset), log.with_name(entry.name)))
    except FileNotFoundError:
        return []
    return sorted(found)


def begin_of(older: list[Piece]) -> int:
    """Return the offset in the whole log at which the growing file begins.

    Raises:
        FileNotFoundError: The latest piece was deleted meanwhile.
    """
    return older[-1].begin + older[-1].path.stat().st_size if older else 0


def lock_of(log: Path) -> Path:
    """Return the file that is locked for as long as a process writes the log."""
    return log.with_name(f".{log.name}.lock")


def is_written(log: Path) -> bool:
    """Return whether a process still writes what has been printed into the log."""
    try:
        with open_regular(str(lock_of(log))) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no lock was ever taken, or the file system has none
        return False
    return False
