"""How long results wait in output buffers: little where what follows keeps up; longer, in larger frames, where not."""

from __future__ import annotations

import math
import time

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.execution_options import ExecutionOptions
from pystate.common.time import current_time_ms

LEAST_S = 0.005
MOST_S = 0.05
ENOUGH_BYTES = 256 << 10
"""Handed on at once. A frame of so many takes longer in the copying than on its way."""
_BLOCKED_SHARE = 0.2
_GROWTH = 1.5
_SHRINKAGE = 0.9


class OutputFlushInterval:
    """Grows while a good part of the time goes by in waiting for room in front of the next tasks.

    A frame costs about a millisecond on its way, however few records it has. Where tasks are behind, records wait in
    front of them anyway, and larger frames let more through. Up to a size: a barrier waits for what is handed on before it.

    Args:
        timeout_s: How long results wait at least; 0 for not at all, infinity for until something else flushes them.
    """

    def __init__(self, timeout_s: float = LEAST_S) -> None:
        self._timeout_s = timeout_s
        self._wanted_s = self._most_s = LEAST_S
        self._bytes = 0
        self._since = time.monotonic()
        self._blocked_ns = 0

    @classmethod
    def of(cls, configuration: Configuration) -> OutputFlushInterval:
        """Return one with what a job's options say of it."""
        if not configuration.get(ExecutionOptions.BUFFER_TIMEOUT_ENABLED):
            return cls(math.inf)
        return cls(configuration.get(ExecutionOptions.BUFFER_TIMEOUT) / 1000)

    @property
    def seconds(self) -> float:
        """How long."""
        return max(self._timeout_s, self._grown_s) if self._grown_s > LEAST_S else self._timeout_s

    @property
    def longest_take_s(self) -> float:
        """How long a source may take what comes, which is how long its mail waits."""
        return max(LEAST_S, self._grown_s)

    @property
    def _grown_s(self) -> float:
        return min(self._wanted_s, self._most_s)

    @property
    def is_behind(self) -> bool:
        """Whether the next tasks are behind."""
        return self._wanted_s > LEAST_S

    @property
    def is_over(self) -> bool:
        """Whether results have waited that long."""
        return time.monotonic() - self._since >= self.seconds

    def due(self) -> int | None:
        """Return when they have, ms since 1970, which may be past; None for never."""
        if math.isinf(self.seconds):
            return None
        return current_time_ms() + math.ceil((self._since + self.seconds - time.monotonic()) * 1000)

    def handed_on(self, blocked_ns: int, sent_bytes: int) -> None:
        """Take note that they wait no more.

        Args:
            blocked_ns: How long the subtask has waited for room in all.
            sent_bytes: How many bytes have been handed on in all.
        """
        now = time.monotonic()
        blocked, passed = (blocked_ns - self._blocked_ns) / 1e9, now - self._since
        if blocked > passed * _BLOCKED_SHARE:
            self._wanted_s = min(MOST_S, self._wanted_s * _GROWTH)
        else:
            self._wanted_s = max(LEAST_S, self._wanted_s * _SHRINKAGE)
        if sent_bytes - self._bytes > ENOUGH_BYTES:
            self._most_s = max(LEAST_S, self._grown_s * _SHRINKAGE)
        else:
            self._most_s = min(MOST_S, self._most_s * _GROWTH)
        self._since, self._blocked_ns, self._bytes = now, blocked_ns, sent_bytes
