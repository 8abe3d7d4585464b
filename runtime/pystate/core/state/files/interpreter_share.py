"""Yields the interpreter lock from threads that write snapshots to those that process records.

A thread that releases the interpreter lock for some microseconds, as for checksums and writes, has it again before another
one wakes up: two busy threads alternate, and each runs at half speed. A thread that sleeps until the other has taken the
lock gets it back after Python's switch interval (5 ms), so only its work in between slows down the other.

Whether another thread is busy is detected by the CPU time of the process. The duration of a short sleep isn't suitable: on
an overloaded machine, any sleep takes long.
"""

from __future__ import annotations

import time

_AWAY_S = 50e-6
"""Long enough for a thread that waits for the interpreter to wake up and take it."""

_STEP_BYTES = 128 << 10
"""The bytes, worth a third of a millisecond, after which the interpreter is yielded to threads that are busy."""

_OTHERS_SHARE = 0.1
"""Others are busy where they have at least that much of the processor time that the writer has."""


_STEPS_WARY = 16
"""The number of steps for which others still count as busy: they may wait for a processor, or for what they read."""


class InterpreterShare:
    """Periodically yields the interpreter lock to other threads, as long as some are busy.

    Args:
        step_bytes: The number of bytes between yields.
    """

    __slots__ = ("_all_s", "_done", "_mine_s", "_step_bytes", "_wary")

    def __init__(self, step_bytes: int = _STEP_BYTES) -> None:
        self._step_bytes = step_bytes
        self._done = self._wary = 0
        self._mine_s, self._all_s = time.thread_time(), time.process_time()

    def after(self, size: int) -> None:
        """Count written bytes; may yield the interpreter lock as long as others need it."""
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
