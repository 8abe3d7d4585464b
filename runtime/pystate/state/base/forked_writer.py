"""A snapshot that is written by a copy of the process, as Redis does it, while this one goes on with records.

A writer in the same process shares the interpreter with the records: at each step of it no record is processed, and between
two of them it waits until it gets the interpreter back. A forked child has an interpreter of its own, and sees the memory as
it was. It sends the file through a pipe, so that this process, which alone may use storages, locks and threads, stores it.

A child has but the thread that forked it, and may find locks that another one held: it must use nothing but plain data, what
it was given and its pipe. So it is watched: where nothing comes for a while it is killed, and where it didn't end as it
should the snapshot has failed and no other one is written so, see `ForkedWriter.given_up`.
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import BinaryIO, NoReturn

import msgpack

from pystate.common.bounded_text import bounded_text
from pystate.common.errors import SnapshotError
from pystate.common.free_memory import available_bytes
from pystate.common.whole_writes import write_fully

logger = logging.getLogger(__name__)

SILENCE_S = 60.0
"""A child of which nothing comes for so long is killed. 256 KB take it a millisecond, a thousand where memory is swapped."""

_PIPE_BYTES = 1 << 20
"""What waits in the pipe at most, where the system allows it: each read costs a wait for the interpreter."""

_POLL_S = 0.5
_STDERR = 2
_MAX_REPORT_BYTES = 64 << 10

HINT = "turn state.backend.hashmap.forked-snapshots off"


class ForkedWriter:
    """Writes the snapshots of a backend in forked children.

    Args:
        silence: A child is killed when nothing has come of it for so many seconds.
        available: Tells how many bytes of memory there are; None where nobody knows.

    Attributes:
        given_up: Why none is written so any more; None as long as they are.
    """

    def __init__(self, *, silence: float = SILENCE_S, available: Callable[[], int | None] = available_bytes) -> None:
        self._silence = silence
        self._available = available
        self.given_up: str | None = None

    def can_write(self) -> bool:
        """Return whether a child can be forked: on Linux, where there is memory for a copy of this process."""
        if self.given_up is not None or sys.platform != "linux":
            return False
        free, needed = self._available(), _resident_bytes()
        if free is not None and free < needed:
            logger.warning(
                "This snapshot is written beside the records: a copy of the process may take %d MB, and %d MB are free.",
                needed >> 20,
                free >> 20,
            )
            return False
        return True

    def write(
        self, write: Callable[[BinaryIO], list[int]], sink: BinaryIO, check_open: Callable[[], object]
    ) -> list[int] | None:
        """Let a child write, and store what it writes.

        Args:
            write: Called in the child; returns numbers to be handed on, the first of which is how many bytes it wrote.
            sink: Gets the bytes, in this process.
            check_open: Called now and then; what it raises ends the child.

        Returns:
            What `write` returned; None where no child could be made, and nothing was written.

        Raises:
            SnapshotError: The child failed, or was killed. What the sink and `check_open` raise is passed on.
        """
        ends: list[int] = []
        try:
            ends += os.pipe()
            ends += os.pipe()
            pid = os.fork()
        except OSError as error:
            for descriptor in ends:
                os.close(descriptor)
            logger.warning("This snapshot is written beside the records: no copy of the process can be made: %s", error)
            return None
        data_in, data_out, report_in, report_out = ends
        if pid == 0:
            _write_in_child(write, data_out, report_out)
        os.close(data_out)
        os.close(report_out)
        has_ended = False
        try:
            received = self._store(data_in, sink, check_open)
            report, has_ended = _read_all(report_in, self._silence)
        finally:
            os.close(data_in)
            os.close(report_in)
            if not has_ended:
                os.kill(pid, signal.SIGKILL)
            status = _wait_for(pid)
        return self._checked(status, report, received)

    def _store(self, descriptor: int, sink: BinaryIO, check_open: Callable[[], object]) -> int:
        """Store what comes, to its end; return how many bytes that was."""
        with contextlib.suppress(OSError):  # not allowed, or not Linux: smaller pieces
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        received = 0
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        heard = time.monotonic()
        while True:
            check_open()
            if not waiting.poll(_POLL_S * 1000):
                if time.monotonic() - heard > self._silence:
                    said = f"has not said anything for {self._silence:g} s and was killed"
                    raise self._failed(said)
                continue
            data = os.read(descriptor, _PIPE_BYTES)
            if not data:
                return received
            write_fully(sink, data)
            received += len(data)
            heard = time.monotonic()

    def _checked(self, status: int | None, report: bytes, received: int) -> list[int]:
        """Return the child's numbers, if it ended as it should and all has come."""
        if status is None:
            said = "has ended, and how was told to others: something in this process waits for all of its children"
            raise self._failed(said)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            said = f"was killed by {signal.Signals(-code).name}, perhaps for want of memory"
            raise self._failed(said)
        try:
            numbers, error = msgpack.unpackb(report)
        except (ValueError, TypeError, msgpack.UnpackException):
            said = f"ended with exit code {code} and no report"
            raise self._failed(said) from None
        if error is not None:
            message = f"The state could not be written: {error}"
            raise SnapshotError(message)
        if code or numbers[0] != received:
            said = f"has written {numbers[0]} bytes, ended with exit code {code}, and {received} bytes have come"
            raise self._failed(said)
        return list(numbers)

    def _failed(self, what: str) -> SnapshotError:
        self.given_up = what
        message = f"The copy of the process that wrote a snapshot {what}; the next ones are written beside the records."
        logger.warning("%s", message)
        return SnapshotError(message, hint=HINT)


def _wait_for(pid: int) -> int | None:
    """Return how a child ended, once it has; None where somebody else has taken note of that, or nobody may."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None


def _read_all(descriptor: int, seconds: float) -> tuple[bytes, bool]:
    """Return what comes of a pipe in time, and whether that is all: then who had its other end has ended, or is about to."""
    found = b""
    deadline = time.monotonic() + seconds
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while len(found) <= _MAX_REPORT_BYTES and waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
        data = os.read(descriptor, _MAX_REPORT_BYTES)
        if not data:
            return found, True
        found += data
    return found, False


def _write_in_child(write: Callable[[BinaryIO], list[int]], data: int, report: int) -> NoReturn:
    """Write, report and end; nothing of this process runs behind that, or any other code of the parent's."""
    code = 1
    try:
        gc.disable()  # finalizers are the parent's
        _keep_only(data, report)
        error: str | None = None
        numbers: list[int] = []
        try:
            with io.FileIO(data, "wb") as pipe:
                numbers = write(pipe)
        except BaseException as failure:  # noqa: BLE001 - whatever it is, the parent is told
            error = bounded_text(f"{type(failure).__name__}: {failure}")
        os.write(report, msgpack.packb([numbers, error]))
        code = 0
    finally:
        os._exit(code)


def _keep_only(*kept: int) -> None:
    """Close the descriptors of the parent's: its sockets would outlive it, and its pipes would never end."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > _STDERR and descriptor not in kept:
            with contextlib.suppress(OSError):  # that of the listing
                os.close(descriptor)


def _resident_bytes() -> int:
    """Return what this process takes of memory, 0 where nobody can tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
