"""Temporary folders of processes, which don't outlive them for long: nobody else deletes what a killed process leaves.

Each folder has a file that its process keeps locked. The kernel unlocks it when the process ends, in whatever way: an
unlocked file tells the user's next process that the owner is gone, and the folder is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_LOCK = "lock"
_BEING_MADE_S = 60.0
"""A folder as young as this may be without its lock for a moment; or what its process has started still ends."""


class HeldFolder:
    """A new folder of mode 0700, held until this process ends, or removes it.

    Args:
        base: Where to make it.
        prefix: Of its name.

    Raises:
        OSError: It can't be made.

    Attributes:
        path: The folder.
    """

    def __init__(self, base: Path, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
        self._descriptor = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Delete the folder with all that is in it."""
        remove_folder(self.path)
        self.leave()

    def leave(self) -> None:
        """Release the folder without deleting it."""
        os.close(self._descriptor)


def remove_folder(folder: Path) -> None:
    """Delete a folder, its lock last: what somebody still writes there would else stay without one, forever."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != _LOCK:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
        if [entry.name for entry in os.scandir(folder)] in ([], [_LOCK]):
            shutil.rmtree(folder, ignore_errors=True)


def remove_left_folders(base: Path, pattern: str, now: float | None = None) -> list[Path]:
    """Remove this user's folders whose processes are gone; return them.

    Args:
        base: Where they are.
        pattern: Of their names.
        now: Seconds since 1970.
    """
    removed, oldest = [], (time.time() if now is None else now) - _BEING_MADE_S
    for folder in base.glob(pattern):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid == os.getuid() and facts.st_mtime < oldest and not _is_held(folder):
                remove_folder(folder)
                removed.append(folder)
    return removed


def left_folders(base: Path) -> list[Path]:
    """Return the folders whose processes are gone, the oldest first.

    One without a lock is being made, or is none of these folders.

    Args:
        base: Where they are.
    """
    found = []
    for folder in base.iterdir():
        with contextlib.suppress(OSError):
            if (folder / _LOCK).exists() and not _is_held(folder):
                found.append((folder.stat().st_mtime, folder))
    return [folder for _, folder in sorted(found)]


def held_folders(base: Path) -> list[Path]:
    """Return the folders that processes hold, this one's among them.

    Args:
        base: Where they are.
    """
    found = []
    for folder in base.iterdir():
        with contextlib.suppress(OSError):
            if (folder / _LOCK).exists() and _is_held(folder):
                found.append(folder)
    return found


def _is_held(folder: Path) -> bool:
    """Return whether a process holds a folder.

    Raises:
        OSError: There is no lock: an older version has made the folder, so it is unknown. An empty one is removed.
    """
    try:
        descriptor = os.open(folder / _LOCK, os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        os.rmdir(folder)
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
