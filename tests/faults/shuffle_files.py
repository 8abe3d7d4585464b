"""Spark's shuffle files on this machine, and what may happen to them below Spark."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

_DATA = re.compile(r"shuffle_(\d+)_\d+_\d+\.data")


class Damage(Enum):
    """What befalls a file."""

    DELETED = "deleted"  # Spark notices when it opens it: a fetch failure
    EMPTIED = "emptied"  # Spark reads no row and no error
    CUT = "cut"  # in the midst of a block
    CORRUPTED = "corrupted"  # some bytes are others


class ShuffleFiles:
    """The data files of the shuffles of one application.

    Args:
        folders: Where its block managers keep theirs.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(folders)

    @classmethod
    def of(cls, spark: Any) -> ShuffleFiles:
        """Return those of the process that a session's driver runs in."""
        return cls(Path(spark.sparkContext.getConf().get("spark.local.dir")).glob("blockmgr-*"))

    def by_shuffle(self) -> dict[int, list[Path]]:
        """Return the files by the shuffle's number."""
        found: dict[int, list[Path]] = {}
        for folder in self._folders:
            for path in folder.glob("*/shuffle_*.data"):
                named = _DATA.fullmatch(path.name)
                if named is not None:
                    found.setdefault(int(named[1]), []).append(path)
        return found

    def damage(self, shuffle: int, damage: Damage) -> int:
        """Do it to all files of a shuffle; return how many there were."""
        done = 0
        for path in self.by_shuffle().get(shuffle, []):
            with contextlib.suppress(FileNotFoundError):
                _damage(path, damage)
                done += 1
        return done


def _damage(path: Path, damage: Damage) -> None:
    if damage is Damage.DELETED:
        path.unlink()
    elif damage is Damage.EMPTIED:
        os.truncate(path, 0)
    elif damage is Damage.CUT:
        os.truncate(path, path.stat().st_size * 2 // 3)
    else:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 2)
            file.write(os.urandom(64))
