"""The scratch folder of a driver, deleted at its end; in memory, if the machine has an in-memory filesystem.

A killed driver doesn't delete it, and that memory would never be freed. So each folder has a file that its driver keeps
locked: an unlocked file tells the user's next driver, of any job, that the owner is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pystate.runtime.job_folder.temporary_folders import folder_prefix

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder below it is made with a random name and mode 0700
_ANY = folder_prefix("")[:-1]
_LOGS = "logs-"
_LOCK = "lock"
_BEING_MADE_S = 60.0
"""A folder as young as this may be without its lock for a moment."""


@contextlib.contextmanager
def scratch_folder(job_id: str) -> Iterator[Path]:
    """Provide a folder for Spark's logs and an attempt's secret, which is removed at the end.

    Folders left by dead drivers are removed before: all of this job, and unlocked ones of others.

    Args:
        job_id: The job.
    """
    base = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())
    prefix = f"{folder_prefix(job_id)}{_LOGS}"
    for left in base.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    remove_left_folders(base, time.time())
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    descriptor = os.open(folder / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_left_folders(base: Path, now: float) -> list[Path]:
    """Remove this user's folders whose drivers are gone; return them.

    Args:
        base: Where they are.
        now: Seconds since 1970.
    """
    removed = []
    for folder in base.glob(f"{_ANY}*-{_LOGS}*"):
        with contextlib.suppress(OSError):
            facts = folder.lstat()
            if facts.st_uid == os.getuid() and now - facts.st_mtime > _BEING_MADE_S and not _is_held(folder / _LOCK):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def _is_held(lock: Path) -> bool:
    """Whether a process holds a lock.

    Raises:
        OSError: The file doesn't exist: an older version created the folder, so it is unknown.
    """
    descriptor = os.open(lock, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
