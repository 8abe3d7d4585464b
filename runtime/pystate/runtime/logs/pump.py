"""The log process, which writes the output of other processes into logs.

Run with `-c 'from pystate.runtime.logs.pump import main; main()' ARGS`.
It outlives its starter as long as a process holds the other ends of its pipes: the output of a killed driver, and of its JVM
after that, still reaches the log. It only opens the logs and locks.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

from pystate.common.files.regular_files import open_to_write
from pystate.runtime.logs.log_writer import BoundedLogs, LogBounds
from pystate.runtime.logs.pieces import lock_of

_AT_ONCE = 1 << 20
_LOCK_SECONDS = 5.0
_LOCK_RETRY_SECONDS = 0.05


def main() -> None:
    """Pump from `MAX_BYTES OLD_PIECES [DESCRIPTOR LOG]...` until all pipes have ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # for the printing processes; this one ends after them
        signal.signal(number, signal.SIG_IGN)
    bounds = LogBounds(int(sys.argv[1]), int(sys.argv[2]))
    words = sys.argv[3:]
    pump({int(words[i]): Path(words[i + 1]) for i in range(0, len(words), 2)}, bounds)


def pump(pipes: Mapping[int, Path], bounds: LogBounds) -> None:
    """Write from pipes into logs, until the other ends are closed.

    Args:
        pipes: The log of each pipe's reading end, which is closed at its end.
        bounds: How much is kept of all the logs together.
    """
    logs = BoundedLogs(list(pipes.values()), bounds)
    locks = {descriptor: _lock(log) for descriptor, log in pipes.items()}
    poll = select.poll()
    for descriptor in pipes:
        poll.register(descriptor, select.POLLIN)
    while locks:
        for descriptor, _ in poll.poll():
            data = os.read(descriptor, _AT_ONCE)
            if data:
                _append(logs, pipes[descriptor], data)
                continue
            poll.unregister(descriptor)
            os.close(descriptor)
            lock = locks.pop(descriptor)
            if lock is not None:
                os.close(lock)


def _append(logs: BoundedLogs, log: Path, data: bytes) -> None:
    try:
        logs.append(log, data)
    except Exception:  # whatever it is, printing processes must not block
        logs.append(log, traceback.format_exc().encode())


def _lock(log: Path) -> int | None:
    """Lock a log, after the process of an earlier driver if that ends soon; None if locks aren't available."""
    try:
        descriptor = open_to_write(lock_of(log), os.O_RDWR)
    except OSError:
        return None
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(_LOCK_RETRY_SECONDS)
                continue
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
