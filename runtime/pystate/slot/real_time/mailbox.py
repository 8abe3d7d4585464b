"""What other threads have a subtask's thread do, between two elements (Flink's TaskMailbox)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

Mail = Callable[[], None]


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
        """Wait for mail, the end, or what `other` says; for ever where there is no timeout."""
        with self.changed:
            self.changed.wait_for(lambda: bool(self._mail) or self._closed or other(), timeout_s)

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
