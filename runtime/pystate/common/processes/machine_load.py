"""The load of this machine, for messages, and for timeouts that must tolerate processes waiting for a CPU.

A timeout says how long a thing may take where it gets the CPU that it asks for. Where others want it, too, everything takes
longer by as much: with 30 threads that can run on 2 cores each gets a fifteenth, and a start of 5 s takes 75.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

_LEAST_SHARE = 1 / 50
"""The minimum assumed share of a core: what is stuck for good is given up at some time, however busy the machine."""
_BUSY_LOAD = 2.0
"""A load for each core from which on a machine is said to be busy."""
_BUSY_WAITING = 50.0
"""Per cent of the time in which something waited for a CPU, from which on it is, too: others may not be seen here."""


def core_count() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_share() -> float:
    """Return the share of a core that each runnable thread gets: 1 if there are no more threads than cores."""
    # the kernel counts the threads of the whole machine, those beside a container's few cores, too
    return min(1.0, max(_LEAST_SHARE, (os.cpu_count() or 1) / max(1.0, _can_run())))


def patient(seconds: float) -> float:
    """Return a timeout for an idle machine, scaled to the present load."""
    return seconds / cpu_share()


def busy_sentence() -> str | None:
    """Return a hint that the machine is busy; None if it isn't."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return None
    cores, waiting = core_count(), _waiting()
    # the average of a minute follows slowly, in both directions
    load = max(load, _can_run())
    if load / cores < _BUSY_LOAD and (waiting is None or waiting < _BUSY_WAITING or load <= cores):
        return None
    told = "" if waiting is None else f", and for {waiting:.0f} % of the last 10 s something waited for a CPU"
    return f"this machine is busy (a load of {load:.1f} on {cores} cores{told}): run less on it, or fewer jobs at once"


class PatientDeadline:
    """A deadline that extends with the load of the machine, and restarts with each sign of progress.

    Args:
        seconds: How long the wait may be on a machine that is not busy.
        clock: Monotonic seconds.
        share: Returns which part of a core a thread gets just now.
    """

    def __init__(
        self, seconds: float, *, clock: Callable[[], float] = time.monotonic, share: Callable[[], float] = cpu_share
    ) -> None:
        self._seconds = self._left = seconds
        self._clock = clock
        self._share = share
        self._looked = clock()
        self._progress: object = None

    def saw(self, progress: object) -> None:
        """Restart if there was progress: if the observed value differs from the last one."""
        if progress != self._progress:
            self._progress, self._left, self._looked = progress, self._seconds, self._clock()

    def has_passed(self) -> bool:
        """Whether the deadline has passed. Must be called often, since the load is sampled at these calls."""
        now = self._clock()
        self._left -= (now - self._looked) * self._share()
        self._looked = now
        return self._left <= 0


def _can_run() -> float:
    """Return how many threads run or wait for a CPU, including this one."""
    if sys.platform == "linux":
        try:
            return float(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
        except (OSError, ValueError, IndexError):
            return 1.0
    try:
        return os.getloadavg()[0]
    except OSError:
        return 1.0


def _waiting() -> float | None:
    """Return the percentage of the last 10 s in which something waited for a CPU; None if the kernel doesn't report it."""
    try:
        some = Path("/proc/pressure/cpu").read_text(encoding="ascii").splitlines()[0]
        return float(dict(word.split("=") for word in some.split()[1:])["avg10"])
    except (OSError, ValueError, LookupError):
        return None
