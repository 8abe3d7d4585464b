"""The actions that other threads submit to a subtask's thread, run between two elements (Flink's TaskMailbox)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Mail = Callable[[], None]

LONGEST_WAIT_S = 3600.0
"""A lock's timeout can't be as long as the time to a timer may be; waiting threads check again."""


class TaskMailbox:
    """A queue of mails; its thread waits for mail, or for another condition whose changes are notified.

    Attributes:
        changed: Held around each change of what the subtask's thread waits for.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._mail: deque[Mail] = deque()
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the mailbox is closed."""
        return self._closed

    def put(self, mail: Mail) -> None:
        """Submit a mail; ignored if the mailbox is closed."""
        with self.changed:
            if not self._closed:
                self._mail.append(mail)
                self.changed.notify_all()

    def take(self) -> Mail | None:
        """Remove and return the oldest mail; None for none."""
        if not self._mail:  # only its own thread takes mail away
            return None
        with self.changed:
            return self._mail.popleft() if self._mail else None

    def wait(self, other: Callable[[], bool], timeout_s: float | None) -> None:
        """Wait for mail, the end, or `other`, at most `LONGEST_WAIT_S` if there is a timeout, otherwise for ever."""
        longest = None if timeout_s is None else min(timeout_s, LONGEST_WAIT_S)
        with self.changed:
            self.changed.wait_for(lambda: bool(self._mail) or self._closed or other(), longest)

    def notify(self) -> None:
        """Wake up the subtask's thread."""
        with self.changed:
            self.changed.notify_all()

    def close(self) -> None:
        """Drop all mails and accept no more."""
        with self.changed:
            self._closed = True
            self._mail.clear()
            self.changed.notify_all()
