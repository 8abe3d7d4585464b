"""Standard streams that are closed, full, or broken pipes."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Put something in the place of streams that were closed when this process was started: `pystate list >&-`.

    Else the first file or connection that is opened would take the place, and be written into. What is written to a
    closed stdout fails, as the system's own commands have it; what is told on stderr is for nobody.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)


def leave_stdout() -> None:
    """Write nothing to stdout any more: Python would try again at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
