"""Handles standard streams that are closed, full, or broken pipes."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable


def open_closed_streams() -> None:
    """Replace standard streams that were closed when this process was started: `pystate list >&-`.

    Otherwise the first opened file or connection would get the descriptor, and be written to. Writes to a closed stdout
    fail, as in the system's own commands; writes to a closed stderr are dropped.
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
    """Disable stdout: otherwise Python would retry at its exit, and report an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_for_readers(main: Callable[[], int]) -> int:
    """Run the main function of a process that prints for people, and return its exit code.

    Where the reader of its output has gone, as with `| head`, it ends with 1, and without a word.
    """
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        leave_stdout()
        return 1
    return code


def reader_is_gone() -> bool:
    """Return whether stdout is a pipe that nobody reads any more."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
