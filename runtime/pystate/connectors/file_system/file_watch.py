"""Looks for new files between epochs, so that an idle source triggers no epochs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_REST = 10
"""So many times as long as a look took is the pause after it: very many files must not cost the slot its processor."""


class FileWatch:
    """A thread that checks for new files at an interval.

    Args:
        interval_ms: How often.
        has_news: Returns whether there are new files. Errors are ignored: the next epoch meets and reports them.
        wake: Triggers an epoch.
    """

    def __init__(self, interval_ms: int, has_news: Callable[[], bool], wake: Callable[[], object]) -> None:
        self._interval_s = max(1, interval_ms) / 1000
        self._has_news = has_news
        self._wake = wake
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="file-watch", daemon=True).start()

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._closed.wait(pause_s):
            begun = time.monotonic()
            try:
                news = self._has_news()
            except Exception:  # file systems raise many kinds of errors
                news = True
            pause_s = max(self._interval_s, _REST * (time.monotonic() - begun))
            if news and not self._closed.is_set():
                self._wake()
