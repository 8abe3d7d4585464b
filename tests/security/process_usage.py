"""What a process holds: memory, threads and open files, before an attack and after it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

MORE_RSS_MB = 64
MORE_THREADS = 8
MORE_FILES = 12
"""How much more than before a process may hold once it has settled: what allocators, pools and caches keep."""
SETTLE_S = 75.0


@dataclass(frozen=True)
class ProcessUsage:
    """What a process holds at a moment."""

    rss_mb: int
    threads: int
    files: int

    @staticmethod
    def of(pid: int) -> ProcessUsage:
        """Read them; a process that is gone holds nothing."""
        try:
            fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            files = len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return ProcessUsage(0, 0, 0)
        return ProcessUsage(int(fields.get("VmRSS", "0 kB").split()[0]) // 1024, int(fields["Threads"]), files)

    def grown(self, before: ProcessUsage) -> list[str]:
        """Say what is more than it may be."""
        pairs = (
            ("MB", self.rss_mb, before.rss_mb, MORE_RSS_MB),
            ("threads", self.threads, before.threads, MORE_THREADS),
            ("open files", self.files, before.files, MORE_FILES),
        )
        return [f"{old} {what} became {new}" for what, new, old, more in pairs if new > old + more]

    def change(self, after: ProcessUsage) -> str:
        """Say what became of them."""
        return f"{self.rss_mb} -> {after.rss_mb} MB, {self.threads} -> {after.threads}, {self.files} -> {after.files}"


def settled(
    before: Mapping[str, ProcessUsage], pids: Callable[[], Mapping[str, int]], poke: Callable[[], object]
) -> tuple[dict[str, ProcessUsage], list[str]]:
    """Wait until processes hold what they held before, for a while; return the figures, and what never went back.

    Args:
        before: The figures by the names of the processes.
        pids: The processes by their names.
        poke: Asks them for something small: what is given back is given back when there is something to do.
    """
    deadline = time.monotonic() + SETTLE_S
    while True:
        after = {name: ProcessUsage.of(pid) for name, pid in pids().items()}
        grown = [f"{name}: {what}" for name, old in before.items() if name in after for what in after[name].grown(old)]
        if not grown or time.monotonic() > deadline:
            return after, grown
        with contextlib.suppress(OSError):
            poke()
        time.sleep(0.5)


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
