"""Redirects stdout and stderr of a process and its children to a log process.

The printing process holds both ends of each pipe: it starts another writer if one is killed, so that printing neither fails
nor blocks for good, and it never gets a signal for a pipe without a reader.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pystate
from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.job_manager_options import JobManagerOptions
from pystate.runtime.logs.log_writer import LogBounds
from pystate.runtime.logs.pump import pump

_PIPE_BYTES = 1 << 20
_RESTART_SECONDS = 0.2
_DRAIN_SECONDS = 5.0
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pystate.runtime.logs.pump import main; main()"


class LogPipes:
    """The pipes into the logs of one folder, and the process that writes them.

    Args:
        logs: The files.
        bounds: How much is kept of them together.
        pipes: Existing pipes: the two ends, by log.

    Raises:
        OSError: The pipes can't be created, or the process can't be started.
    """

    def __init__(
        self, logs: Sequence[Path], bounds: LogBounds, pipes: Mapping[Path, tuple[int, int]] = MappingProxyType({})
    ) -> None:
        self._bounds = bounds
        self._pipes = {log.absolute(): pipes.get(log) or log_pipe() for log in logs}
        self._closed = threading.Event()
        self._process = self._start()
        threading.Thread(target=self._watch, name="logs", daemon=True).start()

    @property
    def pid(self) -> int:
        """The id of the writing process."""
        return self._process.pid

    def writing_end(self, log: Path) -> int:
        """Return the descriptor that leads into a log; it is not inherited."""
        return self._pipes[log.absolute()][1]

    def close(self) -> None:
        """Close the pipes, and wait for a while until everything is written."""
        self._closed.set()
        for _, writing in self._pipes.values():
            os.close(writing)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DRAIN_SECONDS)
        for reading, _ in self._pipes.values():
            os.close(reading)

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-S", "-c", _PROGRAM, str(Path(pystate.__file__).parents[1])]
        words += [str(self._bounds.max_bytes), str(self._bounds.old_pieces)]
        for log, (reading, _) in self._pipes.items():
            words += [str(reading), str(log)]
        return subprocess.Popen(  # noqa: S603 - our own module
            words,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[reading for reading, _ in self._pipes.values()],
            start_new_session=True,
        )

    def _watch(self) -> None:
        """Start another process if one was killed; if none can be started, write the logs on this thread."""
        while True:
            self._process.wait()
            if self._closed.wait(_RESTART_SECONDS):
                return
            try:
                self._process = self._start()
            except OSError:
                pump({os.dup(reading): log for log, (reading, _) in self._pipes.items()}, self._bounds)
                return


_of_this_process: dict[Path, LogPipes] = {}


def log_bounds(configuration: Configuration) -> LogBounds:
    """Return the bounds of logs."""
    return LogBounds(configuration.get(JobManagerOptions.LOG_MAX_SIZE), configuration.get(JobManagerOptions.FLINK_LOG_MAX))


def print_into(logs: Sequence[Path], bounds: LogBounds, last: tuple[int, int] | None = None) -> LogPipes:
    """Redirect the stdout of this process into the first of the logs, and its stderr into the last one.

    Args:
        logs: The files.
        bounds: How much is kept of them together.
        last: The two ends of a pipe that children of this process print into already, for the last one of the logs.

    Raises:
        OSError: Pipes and process can't be had.
    """
    pipes = LogPipes(logs, bounds, {} if last is None else {logs[-1]: last})
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(pipes.writing_end(logs[0]), 1)
    os.dup2(pipes.writing_end(logs[-1]), 2)
    _of_this_process.update((log.absolute(), pipes) for log in logs)
    return pipes


def descriptor_into(log: Path, bounds: LogBounds) -> int:
    """Return a descriptor that writes into a log, for children to inherit.

    Raises:
        OSError: Pipes and process can't be had.
    """
    log = log.absolute()
    if log not in _of_this_process:
        _of_this_process[log] = LogPipes([log], bounds)
    return _of_this_process[log].writing_end(log)


def log_pipe() -> tuple[int, int]:
    """Return the reading and the writing end of a new pipe, with a buffer for output while nobody reads."""
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # a user's pipes have a bound in all
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing
