"""Spark's local directory on this machine: shuffle files, which hold a job's records."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from pystate.runtime.job_folder.held_folders import HeldFolder, remove_left_folders

_LONGEST_SOCKET_FOLDER = 60
"""In characters: names of Spark's sockets have 42, and a socket path may have 107."""
_SHORT = "/tmp"  # noqa: S108 - a folder of mode 0700 is made there
_PREFIX = "d-"  # short, for the paths of sockets
_held: dict[str, HeldFolder] = {}
"""The folders of this process, by where they are."""


def socket_folder() -> str:
    """Return a folder for Unix sockets of this user's Spark: the private one, if its path is short enough.

    Raises:
        OSError: It can't be made.
    """
    path = private_local_dir()
    return path if len(os.fsencode(path)) <= _LONGEST_SOCKET_FOLDER else _own_folder(_SHORT)


def private_local_dir() -> str:
    """Return a private folder of this process, in that of all processes of this user.

    Spark creates its folders with the modes of the umask, directly below the folder for temporary files, where every user of
    the machine could read them. Its JVM deletes them at its end, after this process, unless it is killed: then the next
    process of the user deletes them; and the empty folder in any case.

    Raises:
        OSError: It can't be made.
    """
    return _own_folder(tempfile.gettempdir())


def _own_folder(base: str) -> str:
    known = _held.get(base)
    if known is None or not known.path.is_dir():
        folder = Path(_private_folder(base))
        remove_left_folders(folder, f"{_PREFIX}*")
        known = _held[base] = HeldFolder(folder, _PREFIX)
    return str(known.path)


def _private_folder(base: str) -> str:
    path = os.path.join(base, f"pystate-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        facts = os.lstat(path)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():  # another user has created it
            return tempfile.mkdtemp(prefix=f"pystate-{os.getuid()}-", dir=base)
        if facts.st_mode & 0o077:
            os.chmod(path, 0o700)
    return path
