"""How a thread that writes a snapshot leaves the interpreter to those that process records.

A thread that lets the interpreter go for some microseconds, as checksums and writes do, has it again before another one is
awake: two threads that are always busy have it by turns, and each goes half as fast. One that stays away until the other
has taken it gets it back after Python's switch interval (5 ms), so what it does in between is what it costs the other.
"""

from __future__ import annotations

import sys
import time

_AWAY_S = 50e-6
"""Long enough for a thread that waits for the interpreter to wake up and take it."""

_STEP_BYTES = 128 << 10
"""After so many bytes, which take half a millisecond, the interpreter is left: a tenth of what the other thread then has."""


class InterpreterShare:
    """Leaves the interpreter to other threads now and then, and more often while there are some that want it.

    Args:
        step_bytes: After so many bytes.
    """

    __slots__ = ("_done", "_step_bytes", "_wanted")

    def __init__(self, step_bytes: int = _STEP_BYTES) -> None:
        self._step_bytes = step_bytes
        self._done = 0
        self._wanted = True

    def after(self, size: int) -> None:
        """Take in that so many bytes were written; may leave the interpreter for as long as others want it."""
        self._done += size
        if self._done < (self._step_bytes if self._wanted else 4 * self._step_bytes):
            return
        self._done = 0
        started = time.perf_counter()
        time.sleep(_AWAY_S)
        self._wanted = time.perf_counter() - started > sys.getswitchinterval() / 2
