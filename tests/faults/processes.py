"""The processes of a running job, found by their parents."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

_FORKS = " pyspark.worker"
"""In the command line of a daemon that forks workers, whichever module it is (`tests/worker_daemon.py`), and of those."""
_LISTEN = "0A"

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal; nothing where the process is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def marked(variable: str, value: object) -> list[int]:
    """Return the processes that have that variable in their environment; children of marked ones have it, too."""
    mark, found = f"{variable}={value}".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended, or is somebody else's
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def is_gone(pid: int) -> bool:
    """Return whether a process has ended; one that only waits for its parent to take note has."""
    fields = _stat(pid)
    return fields is None or fields[0] == "Z"


def is_slot(pid: int) -> bool:
    """Return whether a Python worker lives and serves as a slot, which listens: one that Spark keeps after it does not.

    Threads don't tell: those of RocksDB and of Arrow's stay with a worker that once served as a slot.
    """
    return not is_gone(pid) and not _sockets(pid).isdisjoint(_listening(pid))


def _sockets(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process holds."""
    found = set()
    with contextlib.suppress(OSError):  # it may end while its descriptors are listed
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
    return {name[len("socket:[") : -1] for name in found if name.startswith("socket:[")}


def _listening(pid: int) -> set[str]:
    """Return the inodes of all TCP sockets that listen, as a process sees them."""
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            rows = [line.split() for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
            found.update(row[9] for row in rows if row[3] == _LISTEN)
    return found


def children(parent: int) -> list[int]:
    """Return the living children of a process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields is not None and fields[0] != "Z" and int(fields[1]) == parent:
                found.append(int(name))
    return found


def descendants(ancestor: int) -> list[int]:
    """Return all living processes below one."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields is not None and fields[0] != "Z":
                below.setdefault(int(fields[1]), []).append(int(name))
    found, left = [], [ancestor]
    while left:
        some = below.get(left.pop(), [])
        found += some
        left += some
    return found


def slots_below(ancestor: int) -> list[int]:
    """Return the Python workers below a process that serve as slots; daemons that fork them listen, too."""
    forked = [pid for pid in descendants(ancestor) if _FORKS in command_of(pid) and _FORKS in parent(pid)]
    return [pid for pid in forked if is_slot(pid)]


def command_of(pid: int) -> str:
    """Return a process's command line."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return ""


def daemons(spark: Any) -> list[int]:
    """Return the processes that fork a session's Python workers."""
    return daemons_below(spark.sparkContext._gateway.proc.pid)


def daemons_below(ancestor: int) -> list[int]:
    """Return the processes below one that fork Python workers."""
    return [pid for pid in descendants(ancestor) if _FORKS in command_of(pid) and _FORKS not in parent(pid)]


def parent(pid: int) -> str:
    """Return the command line of a process's parent."""
    fields = _stat(pid)
    return "" if fields is None else command_of(int(fields[1]))


def _stat(pid: int) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
