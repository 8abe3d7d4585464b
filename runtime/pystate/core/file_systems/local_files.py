"""Local files without following links: a link, a pipe or a device under a name is refused.

Others may be able to write where a path leads, and swap what stands there between a look and a deed. So what is looked at is
held open, and what is done is done in there, not under its name.
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
# who can't list a folder may pass through it; where the system has no such way in, the last one is opened by its path
_PASSED = getattr(os, "O_PATH", None)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_new(path: str, mode: int) -> BinaryIO:
    """Open a file for writing that isn't there yet, with this mode whatever the umask is.

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
    """A folder that is held open: its files, and its end.

    Args:
        name: What it is called in the folder it is in.
        parent: The descriptor of that one.
        descriptor: Its own.
    """

    def __init__(self, name: str, parent: int, descriptor: int) -> None:
        self._name = name
        self._parent = parent
        self._descriptor = descriptor

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: str) -> Iterator[LocalFolder]:
        """Hold a folder open. Links above it are followed once, and then no more; it may be none itself.

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
        """Return what is in there besides regular files, in words; None for nothing."""
        for name in sorted(os.listdir(self._descriptor)):
            mode = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode
            if not stat.S_ISREG(mode):
                return f"{name!r} in it is {file_kind(mode)}"
        return None

    def open(self, name: str) -> BinaryIO:
        """Open one of its files for reading."""
        return open_regular(name, self._descriptor)

    def unlink(self, name: str) -> None:
        """Delete one of its files; a link goes itself.

        Raises:
            FileNotFoundError: There is none.
        """
        os.unlink(name, dir_fd=self._descriptor)

    def delete(self, first: str) -> None:
        """Delete it and all in it.

        Args:
            first: The file that goes first, where there is one.
        """
        with contextlib.suppress(FileNotFoundError):
            self.unlink(first)
        _empty(self._descriptor)
        os.rmdir(self._name, dir_fd=self._parent)


def _open_folder_without_links(path: str) -> int:
    """Open a folder whose path has no links in it, name by name: what is swapped for a link meanwhile is not followed."""
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
