"""Epoch numbers that are never given twice within one job, whatever crashes.

Sinks may tell batches apart by number, so after a restore numbers go on above the highest ever tried. Writing each number
down would cost a disk access per epoch; a bound above it is written instead, and a restart goes on above the bound.
"""

from __future__ import annotations

from pathlib import Path

from pystate.common.home import read_json, write_json

RESERVED_AT_ONCE = 1000


class EpochNumbers:
    """The durable upper bound of the epoch numbers a job has used.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        data = read_json(path)
        self._bound = -1 if data is None else int(data["reserved"])

    def resume_above(self, epoch: int) -> int:
        """Return the number that the restored `epoch` gets: at least its own, and no number above it was ever used."""
        return max(epoch, self._bound)

    def reserve(self, epoch: int) -> None:
        """Make sure, before `epoch` begins, that no later attempt uses its number again."""
        if epoch > self._bound:
            bound = epoch + RESERVED_AT_ONCE
            write_json(self._path, {"reserved": bound})
            self._bound = bound
