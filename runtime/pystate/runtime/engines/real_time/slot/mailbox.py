"""What other threads have a subtask's thread do, between two elements (Flink's TaskMailbox)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Mail = Callable[[], None]

LONGEST_WAIT_S = 3600.0
"""A lock takes no time that is as far off as timers may be; whoever waits looks again."""


class TaskMailbox:
    """Waits for mail, or for something else that whoever notifies knows of.

    Attributes:
        changed: Held around each change of what the subtask's thread waits for.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._mail: deque[Mail] = deque()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing is done any more."""
        return self._closed

    def put(self, mail: Mail) -> None:
        """Have something done; nothing where the mailbox is closed."""
        with self.changed:
            if not self._closed:
                self._mail.append(mail)
                self.changed.notify_all()

    def take(self) -> Mail | None:
        """Return the oldest mail; None for none."""
        with self.changed:
            return self._mail.popleft() if self._mail else None

    def wait(self, other: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait for mail, the end, or what `other` says, at most `LONGEST_WAIT_S`; for ever where there is no timeout."""
        longest = None if timeout_s is None else min(timeout_s, LONGEST_WAIT_S)
        with self.changed:
            self.changed.wait_for(lambda: bool(self._mail) or self._closed or other(), longest)

    def notify(self) -> None:
        """Have the subtask's thread look again."""
        with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        """Do nothing any more."""
        with self.changed:
            self._closed = True
            self._mail.clear()
            self.changed.notify_all()
