"""Copies of a program as it was at each save: a job runs the code that it was started with, whatever is saved meanwhile.

Without a copy a job that restarts would import the modules of today, and nothing could be gone back to.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pystate.common.errors import UsageError
from pystate.common.files.folders import make_private_folder

_NO_PART = frozenset(("__pycache__", ".git"))
_PROGRAM, _EXTRA = "program", "files"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass
class CodeVersion:
    """A program as it was at one save.

    Attributes:
        number: From 1; 0 for what the job of another session runs.
        folder: Where its copy is.
        extra: The copies of what -pyfs names.
        job_file: The program's file in there.
        files: The copied files, relative to the folder.
        used: Those of them that the program consists of; None before that is known.
    """

    number: int
    folder: Path
    extra: list[Path]
    job_file: Path
    files: set[Path] = field(default_factory=set)
    used: frozenset[Path] | None = None

    @property
    def title(self) -> str:
        """What a person calls it."""
        return f"version {self.number}" if self.number else "the code it was started with"

    @property
    def digest(self) -> str:
        """What tells it from versions of other code."""
        found = hashlib.sha256()
        used = [self.folder / file for file in sorted(self.files if self.used is None else self.used)]
        named = [(one.parent, file) for one in self.extra for file in _files(one)]
        for root, file in [*((self.folder, file) for file in used), *named]:
            with contextlib.suppress(OSError):
                content = file.read_bytes()
                found.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
                found.update(content)
        return found.hexdigest()


class CodeVersions:
    """The versions of one program.

    In the folder of a version the program's files are copies, and everything else beside them is a link.

    Args:
        program: The program's file.
        folder: For the copies.
        extra: What -pyfs names.
    """

    def __init__(self, program: Path, folder: Path, extra: Sequence[Path] = ()) -> None:
        self._program = program
        self._folder = folder
        self._extra = extra
        self._number = 0
        self._copied = re.compile(rf"{re.escape(str(folder))}/\d+/(?:{_PROGRAM}|{_EXTRA}/(\d+)/[^/\s\"]+)(?=/|\b)")

    def take(self, files: Iterable[Path]) -> CodeVersion:
        """Copy the program.

        Args:
            files: Its files besides the program's own, as far as they are known; only those beside it are copied.

        Raises:
            UsageError: A file can't be read, or there is no room for the copy.
        """
        self._number += 1
        place = self._folder / str(self._number)
        folder = place / _PROGRAM
        try:
            make_private_folder(folder)
            _link_entries(self._program.parent, folder)
        except OSError as error:
            raise _not_copied(error, self._program) from error
        extra = [_copied(path, place / _EXTRA / str(number)) for number, path in enumerate(self._extra)]
        version = CodeVersion(self._number, folder, extra, folder / self._program.name)
        self._copy(version, self._program.relative_to(self._program.parent))
        for file in files:
            if file != self._program and file.is_relative_to(self._program.parent):
                with contextlib.suppress(UsageError):  # another module that is gone is missed where it is imported
                    self._copy(version, file.relative_to(self._program.parent))
        return version

    def include(self, version: CodeVersion, used: Iterable[Path]) -> list[Path]:
        """Note which files a version consists of, copy those that it had as links, and return them as the author has them.

        Args:
            version: The version.
            used: The files below its folder.
        """
        found = [file.relative_to(version.folder) for file in used if file.is_relative_to(version.folder)]
        for file in found:
            if file not in version.files:
                self._copy(version, file)
        version.used = frozenset((*found, version.job_file.relative_to(version.folder)))
        return [self._program.parent / file for file in version.used]

    def keep(self, versions: Iterable[CodeVersion | None]) -> None:
        """Delete the copies of all other versions."""
        kept = {str(version.number) for version in versions if version is not None}
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                if entry.name not in kept:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def as_written(self, text: str) -> str:
        """Return a text in which the files of a copy have the paths that their author knows."""
        return self._copied.sub(
            lambda found: str(self._program.parent if found[1] is None else self._extra[int(found[1])]), text
        )

    def _copy(self, version: CodeVersion, file: Path) -> None:
        """Copy one file; the folders on its way become folders of links."""
        place = version.folder
        target = version.folder / file
        source = self._program.parent / file
        try:
            for part in file.parts[:-1]:
                place = place / part
                if place.is_symlink() or not place.exists():
                    place.unlink(missing_ok=True)
                    place.mkdir(mode=0o700)
                    _link_entries(self._program.parent / place.relative_to(version.folder), place)
            target.unlink(missing_ok=True)
            shutil.copy2(source, target)
        except OSError as error:
            raise _not_copied(error, source) from error
        version.files.add(file)


def _copied(path: Path, folder: Path) -> Path:
    """Copy what -pyfs names into a new folder."""
    target = folder / path.name
    try:
        folder.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, target, ignore=shutil.ignore_patterns(*_NO_PART))
        else:
            shutil.copy2(path, target)
    except OSError as error:  # shutil.Error, too
        raise _not_copied(error, path) from error
    return target


def _files(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]


def _not_copied(error: OSError, path: Path) -> UsageError:
    if error.errno in _NO_ROOM:
        message = f"There is no room for a copy of the program: {error.strerror or error}."
        return UsageError(message, where=str(path), hint="make room on the disk of PYSTATE_HOME, and save the program again")
    message = f"A file of the program can't be read: {error.strerror or error}."
    return UsageError(message, where=str(path))


def _link_entries(source: Path, target: Path) -> None:
    for entry in os.scandir(source):
        if entry.name not in _NO_PART:
            os.symlink(entry.path, target / entry.name)
