"""Creates folders with given modes, independent of the umask."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

PRIVATE = 0o700


def make_private_folder(path: Path) -> Path:
    """Create a folder that only its owner can access, and missing parents likewise; return it.

    Raises:
        OSError: It can't be made.
    """
    make_folders(str(path), PRIVATE)
    return path


def make_folders(path: str, mode: int) -> None:
    """Create a folder and missing parents with this mode, independent of the umask; existing ones are unchanged.

    Raises:
        OSError: One can't be made.
    """
    path = os.path.abspath(path)
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for one in reversed(missing):
        try:
            os.mkdir(one, mode)
        except FileExistsError:  # another process, at this moment; or a file, which the next one finds out
            if os.path.isdir(one):
                continue
            if one == missing[0]:
                raise
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), one) from None
        os.chmod(one, mode | os.stat(one).st_mode & stat.S_ISGID)  # files in it may have to get the folder's group
