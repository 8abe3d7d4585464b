"""A disk that loses power: from one step on nothing is done any more."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from pystate.core.file_systems import renamed_files


class PowerCut(BaseException):
    """The process is dead."""


class FaultyDisk(renamed_files.Disk):
    """Does `steps_left` things more; the last one is done, or not.

    All disks share the power.
    """

    steps_left: int | None = None
    last_is_done = False
    steps = 0
    real = renamed_files.Disk

    @classmethod
    def charge(cls, steps: int | None, last_is_done: bool = False) -> None:
        cls.steps_left, cls.last_is_done, cls.steps = steps, last_is_done, 0

    def _step(self, name, *arguments):
        cls = FaultyDisk
        cls.steps += 1
        if cls.steps_left is None:
            return getattr(self.real, name)(self, *arguments)
        if cls.steps_left <= 0:
            if cls.steps_left == 0 and cls.last_is_done:
                getattr(self.real, name)(self, *arguments)
            cls.steps_left = -1
            raise PowerCut(name)
        cls.steps_left -= 1
        return getattr(self.real, name)(self, *arguments)

    def make_folder(self, path):
        if not os.path.isdir(path):
            self._step("make_folder", path)

    def sync_folder(self, path):
        if FaultyDisk.steps_left is not None and FaultyDisk.steps_left < 0:
            raise PowerCut

    def open_new(self, path):
        return self._step("open_new", path)

    def sync(self, file):
        self._step("sync", file)

    def link(self, temporary, final):
        self._step("link", temporary, final)

    def rename(self, temporary, final):
        self._step("rename", temporary, final)

    def unlink(self, path):
        self._step("unlink", path)


def visible(root: Path) -> Counter[str]:
    """What a reader of the folder sees: Spark and Hive skip names that begin with a dot or an underscore."""
    return Counter(line for file in files(root) for line in file.read_text().splitlines())


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name[0] not in "._")


def hidden(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name[0] in "._")
