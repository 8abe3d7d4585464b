"""Looks for new files between epochs, so that a source that has nothing brings no epoch about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_REST = 10
"""So many times as long as a look took is the pause after it: very many files must not cost the slot its processor."""


class FileWatch:
    """A thread that asks again and again.

    Args:
        interval_ms: How often.
        has_news: Whether there are new files. What it raises, the next epoch meets as well, and tells.
        wake: Has an epoch run.
    """

    def __init__(self, interval_ms: int, has_news: Callable[[], bool], wake: Callable[[], object]) -> None:
        self._interval_s = max(1, interval_ms) / 1000
        self._has_news = has_news
        self._wake = wake
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="file-watch", daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._closed.wait(pause_s):
            begun = time.monotonic()
            try:
                news = self._has_news()
            except Exception:  # a file system says no in many classes
                news = True
            pause_s = max(self._interval_s, _REST * (time.monotonic() - begun))
            if news and not self._closed.is_set():
                self._wake()
