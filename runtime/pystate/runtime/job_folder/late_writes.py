"""Writes small files of a job even on a full disk: a refused write is retried until it succeeds."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from pystate.common.files.home import write_json
from pystate.common.files.job_files import JobFile, Reserve

_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 5.0


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # the log may be on the same disk
        print(line, file=sys.stderr, flush=True)


class LateWrites:
    """Writes files at once, or later if the disk refuses. If a file is written again meanwhile, the latest content counts.

    Args:
        say: Is called with sentences for users: when writes begin to be refused, and when all are written.
    """

    def __init__(self, say: Callable[[str], None] = _say) -> None:
        self._say = say
        self._changed = threading.Condition()
        self._due: dict[str, Callable[[], None]] = {}
        self._thread: threading.Thread | None = None

    def write(self, file: JobFile, data: Any, *, mode: int = 0o600, reserve: Reserve | None = None) -> None:
        """Write JSON; if that is refused, retry on a thread until it succeeds.

        Args:
            file: The file.
            data: Its content, which must not change any more.
            mode: The file mode.
            reserve: Room for it on a full disk.
        """

        def act() -> None:
            write_json(file, data, mode=mode, reserve=reserve)

        with self._changed:
            try:
                act()
                self._due.pop(str(file), None)
            except OSError as error:
                self._due[str(file)] = act
                if self._thread is None:
                    self._say(f"WARNING: {file} can't be written: {error}. It is tried until it can be.")
                    self._thread = threading.Thread(target=self._catch_up, name="late-writes", daemon=True)
                    self._thread.start()
            self._changed.notify_all()

    def wait_for(self, file: JobFile, seconds: float | None = None) -> bool:
        """Wait until a file is written; return whether it is.

        Args:
            file: The file.
            seconds: How long at most; None for as long as it takes.
        """
        with self._changed:
            return self._changed.wait_for(lambda: str(file) not in self._due, seconds)

    def wait_for_all(self, seconds: float) -> bool:
        """Wait until all is written; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._due, seconds)

    def _catch_up(self) -> None:
        delay = _FIRST_DELAY_SECONDS
        with self._changed:
            while self._due:
                self._changed.wait(delay)
                delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
                for name, act in list(self._due.items()):
                    try:
                        act()
                    except OSError:
                        continue
                    del self._due[name]
                    self._changed.notify_all()
            self._thread = None
        self._say("All files of the job are written again.")
