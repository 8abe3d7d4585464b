"""Processes that benchmarks look at: which there are below one, and what they take."""

import contextlib
import os
from pathlib import Path


def children(parent):
    """Return the ids of the processes that run and have this parent."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z" and int(fields[1]) == parent:
                    found.append(int(entry.name))
    return found


def processor_s(pids):
    """Return the processors' time of some processes, without their children, s.

    Raises:
        OSError: One is gone.
    """
    used = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def processors_s():
    """Return the processors' time of this process and all its children, s."""
    tick, parents = os.sysconf("SC_CLK_TCK"), {}
    used = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(text[1])
            used[int(entry.name)] = sum(map(int, text[11:15])) / tick  # with that of children that have ended
    mine, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        mine |= more
        grown = bool(more)
    return sum(used.get(pid, 0) for pid in mine)
