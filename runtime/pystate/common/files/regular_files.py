"""Opens regular files only: a pipe or a device of that name would block or have an effect.

Small files are read up to a bound, so that a huge file costs neither memory nor time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import BinaryIO

MAX_WORD_BYTES = 64 << 10
"""The largest size of a token, a secret, or an address."""
MAX_SMALL_BYTES = 16 << 20
"""The largest size of any other small file; what a job is submitted with has 4 MB at most."""
_AT_ONCE = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ = os.O_RDONLY | _AT_ONCE
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularError(OSError):
    """A path isn't a regular file."""


class OddFileError(ValueError):
    """A small file isn't a regular file, or is too large; it counts as damaged."""


def file_kind(mode: int) -> str:
    """Return the kind of something that isn't a regular file, by its `st_mode`."""
    return next((words for holds, words in _KINDS if holds(mode)), "no regular file")


def open_regular(path: str, folder: int | None = None) -> BinaryIO:
    """Open a regular file for reading; other kinds aren't opened, since opening may hang or have an effect.

    Args:
        path: The file; a link that leads to one does as well, unless a folder is given.
        folder: The descriptor of the folder it is in; links are refused then.

    Raises:
        NotRegularError: It isn't one.
        OSError: It can't be opened.
    """
    follow = folder is None
    check_regular(os.stat(path, dir_fd=folder, follow_symlinks=follow).st_mode, path)
    flags = _READ | (0 if follow else os.O_NOFOLLOW)
    file = open(path, "rb", opener=lambda name, _flags: os.open(name, flags, dir_fd=folder))
    try:
        check_regular(os.fstat(file.fileno()).st_mode, path)
    except BaseException:
        file.close()
        raise
    return file


def open_to_write(path: str | os.PathLike[str], flags: int) -> int:
    """Open a regular file for writing, or create one for its owner only; return its descriptor.

    Args:
        path: The file; a link that leads to one does as well.
        flags: How it is written, such as `os.O_WRONLY | os.O_APPEND`.

    Raises:
        NotRegularError: Something else stands there.
        OSError: It can't be opened.
    """
    name = os.fspath(path)
    with contextlib.suppress(FileNotFoundError):
        check_regular(os.stat(name).st_mode, name)
    descriptor = os.open(name, flags | os.O_CREAT | _AT_ONCE, 0o600)
    try:
        check_regular(os.fstat(descriptor).st_mode, name)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(mode: int, path: str) -> None:
    """Check by `st_mode` that something is a regular file.

    Raises:
        NotRegularError: It isn't one.
    """
    if not stat.S_ISREG(mode):
        message = f"{os.path.basename(path)} is {file_kind(mode)}, not a regular file"
        raise NotRegularError(errno.EINVAL, message, path)


def _read(file: BinaryIO, most: int) -> bytes:
    """Return up to a number of bytes; the file's size, which may change, only determines the buffer."""
    data = file.read(min(os.fstat(file.fileno()).st_size + 1, most))
    while len(data) < most and (more := file.read(min(len(data) + 4096, most - len(data)))):
        data += more
    return data


def read_small_file(path: str | os.PathLike[str], most: int = MAX_SMALL_BYTES) -> bytes:
    """Return the content of a small file.

    Args:
        path: The file, or a link to it.
        most: Bytes it may have.

    Raises:
        OddFileError: It is something else than a regular file, or larger.
        OSError: It isn't there, or can't be read.
    """
    try:
        with open_regular(os.fspath(path)) as file:
            data = _read(file, most + 1)
    except NotRegularError as error:
        raise OddFileError(error.strerror) from error
    if len(data) > most:
        message = f"{os.path.basename(path)} has more than {most} bytes"
        raise OddFileError(message)
    return data
