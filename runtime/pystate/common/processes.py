"""Other processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Return whether a process of that id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def can_run(pid: int) -> bool | None:
    """Return whether a process of this machine can run: it is there, and not stopped. None where nobody can tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False if Path("/proc/self/stat").exists() else None
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0] not in "TtZX"
