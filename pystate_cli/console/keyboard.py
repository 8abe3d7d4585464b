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
    """Reads keys while it is entered, and keeps them off the screen; where stdin is no terminal it only waits."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Keyboard:
        """Take keys as they are pressed. Ctrl-C stays a signal."""
        if sys.stdin is not None and os.isatty(_STDIN):
            self._before = termios.tcgetattr(_STDIN)
            tty.setcbreak(_STDIN)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Give the terminal back as it was."""
        if self._before is not None:
            termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Return the keys pressed within that time as soon as there are some; else an empty text."""
        if self._before is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([_STDIN], [], [], seconds)
        return os.read(_STDIN, 64).decode(errors="replace") if ready else ""
