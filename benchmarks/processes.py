"""Processes that benchmarks look at: which there are below one, and what they take."""

import contextlib
import os
import threading
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


class ProcessorTime:
    """The processors' time of this process and all below it while a `with` block runs.

    A process that ends meanwhile counts, too, as of the last look at it, whoever waits for it: nobody does for those of a
    killed parent, whose time is then in no other's.

    Attributes:
        seconds: The time, once the block has ended.
    """

    LOOK_S = 0.2

    def __init__(self):
        self.seconds = 0.0
        self._first, self._last = {}, {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._look()
        self._first = dict(self._last)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self._look()
        ticks = sum(last - self._first.get(process, 0) for process, last in self._last.items())
        self.seconds = ticks / os.sysconf("SC_CLK_TCK")

    def _watch(self):
        while not self._ended.wait(self.LOOK_S):
            self._look()

    def _look(self):
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    text = (entry / "stat").read_text().rpartition(")")[2].split()
                    found[int(entry.name)] = int(text[1]), int(text[19]), int(text[11]) + int(text[12])
        mine, grown = {os.getpid()}, True
        while grown:
            more = {pid for pid, (parent, _, _) in found.items() if parent in mine} - mine
            mine |= more
            grown = bool(more)
        for pid, (_, started, ticks) in found.items():
            if pid in mine or (pid, started) in self._last:
                self._last[pid, started] = ticks
