"""How long results wait in output buffers: little where what follows keeps up; longer, in larger frames, where not."""

from __future__ import annotations

import time

LEAST_S = 0.005
MOST_S = 0.05
_BLOCKED_SHARE = 0.2
_GROWTH = 1.5
_SHRINKAGE = 0.9


class HandOnInterval:
    """Grows while a good part of the time goes by in waiting for room in front of the next tasks.

    A frame costs about a millisecond on its way, however few records it has. Where tasks are behind, records wait in
    front of them anyway, and larger frames let more through.

    Attributes:
        seconds: How long.
    """

    def __init__(self) -> None:
        self.seconds = LEAST_S
        self._since = time.monotonic()
        self._blocked_ns = 0

    @property
    def is_stretched(self) -> bool:
        """Whether the next tasks are behind."""
        return self.seconds > LEAST_S

    @property
    def is_over(self) -> bool:
        """Whether results have waited that long."""
        return time.monotonic() - self._since > self.seconds

    def handed_on(self, blocked_ns: int) -> None:
        """Take note that they wait no more.

        Args:
            blocked_ns: How long the subtask has waited for room in all.
        """
        now = time.monotonic()
        blocked, passed = (blocked_ns - self._blocked_ns) / 1e9, now - self._since
        if blocked > passed * _BLOCKED_SHARE:
            self.seconds = min(MOST_S, self.seconds * _GROWTH)
        else:
            self.seconds = max(LEAST_S, self.seconds * _SHRINKAGE)
        self._since, self._blocked_ns = now, blocked_ns
