"""The flush interval of output buffers: short while downstream tasks keep up, longer (larger frames) while they lag."""

from __future__ import annotations

import math
import time

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.execution_options import ExecutionOptions
from pystate.common.time import current_time_ms

LEAST_S = 0.005
MOST_S = 0.05
ENOUGH_BYTES = 256 << 10
"""Sent at once. Copying a frame of this size takes longer than its transport."""
_BLOCKED_SHARE = 0.2
_GROWTH = 1.5
_SHRINKAGE = 0.9


class OutputFlushInterval:
    """A flush interval that grows while a good part of the time is spent waiting for room in downstream tasks.

    Transporting a frame costs about a millisecond, however few records it has. Under back-pressure records wait anyway, and
    larger frames increase the throughput. The size is limited, since a barrier waits for the data sent before it.

    Args:
        timeout_s: The minimum time that results wait; 0 for none, infinity to wait until something else flushes them.
    """

    def __init__(self, timeout_s: float = LEAST_S) -> None:
        self._timeout_s = timeout_s
        self._wanted_s = self._most_s = LEAST_S
        self._bytes = 0
        self._since = time.monotonic()
        self._blocked_ns = 0

    @classmethod
    def of(cls, configuration: Configuration) -> OutputFlushInterval:
        """Return the interval given by a job's options."""
        if not configuration.get(ExecutionOptions.BUFFER_TIMEOUT_ENABLED):
            return cls(math.inf)
        return cls(configuration.get(ExecutionOptions.BUFFER_TIMEOUT) / 1000)

    @property
    def seconds(self) -> float:
        """The current interval in seconds."""
        return max(self._timeout_s, self._grown_s) if self._grown_s > LEAST_S else self._timeout_s

    @property
    def longest_take_s(self) -> float:
        """The longest time for which a source may read without handling its mail."""
        return max(LEAST_S, self._grown_s)

    @property
    def _grown_s(self) -> float:
        return min(self._wanted_s, self._most_s)

    @property
    def downstream_lags(self) -> bool:
        """Whether the downstream tasks lag."""
        return self._wanted_s > LEAST_S

    @property
    def is_over(self) -> bool:
        """Whether results have waited for the interval."""
        return time.monotonic() - self._since >= self.seconds

    def due(self) -> int | None:
        """Return when the interval is over, ms since 1970, possibly in the past; None for never."""
        if math.isinf(self.seconds):
            return None
        return current_time_ms() + math.ceil((self._since + self.seconds - time.monotonic()) * 1000)

    def handed_on(self, blocked_ns: int, sent_bytes: int) -> None:
        """Record that the results have been sent.

        Args:
            blocked_ns: How long the subtask has waited for room in total.
            sent_bytes: The number of bytes sent in total.
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
