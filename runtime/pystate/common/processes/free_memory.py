"""The memory available for more processes."""

from __future__ import annotations

import contextlib
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def available_bytes(meminfo: Path = _MEMINFO, container: Path = _CONTAINER) -> int | None:
    """Return the free memory of the machine, or of this process's container; None if unknown.

    Args:
        meminfo: Linux's table of the machine's memory.
        container: The control group of the container (cgroup v2).
    """
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        line = next((line for line in meminfo.read_text("ascii").splitlines() if line.startswith("MemAvailable:")), "")
        found.append(int(line.split()[1]) << 10)
    with contextlib.suppress(OSError, ValueError, KeyError):
        limit = int((container / "memory.max").read_text("ascii"))
        used = int((container / "memory.current").read_text("ascii"))
        facts = dict(line.split() for line in (container / "memory.stat").read_text("ascii").splitlines())
        found.append(limit - used + int(facts["inactive_file"]))  # what of files can be dropped at any time
    return min(found) if found else None
