"""Local files without following links: links, pipes and devices are rejected.

Other users may be able to write to a path, and swap its target between check and use. So a checked folder is held open, and
operations are done relative to it, not by its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from pystate.common.files.regular_files import file_kind, open_regular

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# a folder may be traversed without read permission; if the system has no O_PATH, the last one is opened by its path
_PASSED = getattr(os, "O_PATH", None)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(path: str, mode: int) -> BinaryIO:
    """Open a new file for writing, with this mode, independent of the umask.

    Raises:
        OSError: It is there, be it a link, or can't be made.
    """
    file = open(path, "wb", opener=lambda name, _flags: os.open(name, _NEW, mode))
    try:
        os.fchmod(file.fileno(), mode)
    except BaseException:
        file.close()
        raise
    return file


class LocalFolder:
    """A folder that is held open.

    Args:
        name: Its name in its parent.
        parent: The descriptor of its parent.
        descriptor: Its descriptor.
    """

    def __init__(self, name: str, parent: int, descriptor: int) -> None:
        self._name = name
        self._parent = parent
        self._descriptor = descriptor

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: str) -> Iterator[LocalFolder]:
        """Hold a folder open. Links in its parent path are resolved once; the folder itself must not be a link.

        Raises:
            OSError: It is a link, no folder, or can't be opened.
        """
        above, name = os.path.split(path.rstrip("/"))
        parent = _open_folder_without_links(os.path.realpath(above or "/"))
        try:
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                raise OSError(errno.ENOTDIR, f"{name} is {file_kind(mode)}, not a folder", path)
            descriptor = os.open(name, _FOLDER, dir_fd=parent)
            try:
                yield cls(name, parent, descriptor)
            finally:
                os.close(descriptor)
        finally:
            os.close(parent)

    def odd_entry(self) -> str | None:
        """Return what it contains besides regular files, in words; None if nothing."""
        for name in sorted(os.listdir(self._descriptor)):
            mode = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode):
                return f"{name!r} in it is {file_kind(mode)}"
        return None

    def open(self, name: str) -> BinaryIO:
        """Open one of its files for reading."""
        return open_regular(name, self._descriptor)

    def unlink(self, name: str) -> None:
        """Delete one of its files; a link itself is deleted, not its target.

        Raises:
            FileNotFoundError: There is none.
        """
        os.unlink(name, dir_fd=self._descriptor)

    def delete(self, first: str) -> None:
        """Delete the folder and its content.

        Args:
            first: The file that goes first, where there is one.
        """
        with contextlib.suppress(FileNotFoundError):
            self.unlink(first)
        _empty(self._descriptor)
        os.rmdir(self._name, dir_fd=self._parent)


def _open_folder_without_links(path: str) -> int:
    """Open a folder component by component, so that a component that was swapped for a link isn't followed."""
    if _PASSED is None:
        return os.open(path, _FOLDER)
    descriptor = os.open("/", _PASSED | os.O_DIRECTORY | os.O_CLOEXEC)
    for name in filter(None, path.split("/")):
        try:
            below = os.open(name, _PASSED | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _empty(folder: int) -> None:
    with os.scandir(folder) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        if not is_folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            continue
        below = os.open(name, _FOLDER, dir_fd=folder)
        try:
            _empty(below)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=folder)
