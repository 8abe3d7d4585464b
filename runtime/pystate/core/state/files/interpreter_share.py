"""How a thread that writes a snapshot leaves the interpreter to those that process records.

A thread that lets the interpreter go for some microseconds, as checksums and writes do, has it again before another one is
awake: two threads that are always busy have it by turns, and each goes half as fast. One that stays away until the other
has taken it gets it back after Python's switch interval (5 ms), so what it does in between is what it costs the other.

Whether there is another one that is busy shows in the processor time of the process. How long a short sleep takes doesn't
show it: on a machine with more to do than it can, any sleep takes long.
"""

from __future__ import annotations

import time

_AWAY_S = 50e-6
"""Long enough for a thread that waits for the interpreter to wake up and take it."""

_STEP_BYTES = 128 << 10
"""After so many bytes, which take a third of a millisecond, the interpreter is left to others that are busy."""

_OTHERS_SHARE = 0.1
"""Others are busy where they have at least that much of the processor time that the writer has."""


_STEPS_WARY = 16
"""For so many steps others count as busy still: they may wait for a processor, or for what they read."""


class InterpreterShare:
    """Leaves the interpreter to other threads now and then, as long as there are some that are busy.

    Args:
        step_bytes: After so many bytes.
    """

    __slots__ = ("_all_s", "_done", "_mine_s", "_step_bytes", "_wary")

    def __init__(self, step_bytes: int = _STEP_BYTES) -> None:
        self._step_bytes = step_bytes
        self._done = self._wary = 0
        self._mine_s, self._all_s = time.thread_time(), time.process_time()

    def after(self, size: int) -> None:
        """Take in that so many bytes were written; may leave the interpreter for as long as others want it."""
        self._done += size
        if self._done < self._step_bytes:
            return
        self._done = 0
        mine, total = time.thread_time(), time.process_time()
        spent = mine - self._mine_s
        busy = total - self._all_s - spent > _OTHERS_SHARE * spent
        self._wary = _STEPS_WARY if busy else max(0, self._wary - 1)
        self._mine_s, self._all_s = mine, total
        if self._wary:
            time.sleep(_AWAY_S)
