"""Single keys, without waiting for Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from typing import Any

_STDIN = 0


class Keyboard:
    """A context manager that reads keys without echo; if stdin isn't a terminal it only waits."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Keyboard:
        """Read keys as they are pressed. Ctrl-C stays a signal."""
        if sys.stdin is not None and os.isatty(_STDIN):
            self._before = termios.tcgetattr(_STDIN)
            tty.setcbreak(_STDIN)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Restore the terminal."""
        if self._before is not None:
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Return the keys pressed within that time, as soon as there are some; else an empty string."""
        if self._before is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([_STDIN], [], [], seconds)
        return os.read(_STDIN, 64).decode(errors="replace") if ready else ""
