"""Where a run of the tests keeps its files: in memory, where there is room. Databases and fsync take far longer on disks."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30
_PREFIX = "pst-"  # short: the paths of sockets below it are at most 107 bytes long


def choose_temporary_folder(memory: Path = MEMORY, room: int = ROOM) -> Path | None:
    """Let `tempfile`, and processes that are started, use a new folder in memory; return it.

    Return None, and change nothing, where somebody has chosen already (TMPDIR), or where memory has no such place: less
    than `room` bytes free, or programs and libraries can't be started from there, as in many containers. What runs have
    left that were killed, or whose tests have failed, is removed.
    """
    if "TMPDIR" in os.environ or not memory.is_dir():
        return None
    own = str(os.getpid())
    for left in memory.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX)
        if owner == own or not Path("/proc", owner).exists():
            shutil.rmtree(left, ignore_errors=True)
    found = os.statvfs(memory)
    if found.f_flag & os.ST_NOEXEC or found.f_bavail * found.f_frsize < room or not os.access(memory, os.W_OK):
        return None
    folder = memory / f"{_PREFIX}{own}"
    folder.mkdir(mode=0o700)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder
