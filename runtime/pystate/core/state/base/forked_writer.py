"""A snapshot that is written by a copy of the process, as Redis does it, while this one goes on with records.

A writer in the same process shares the interpreter with the records: at each step of it no record is processed, and between
two of them it waits until it gets the interpreter back. A forked child has an interpreter of its own, and sees the memory as
it was. It sends the file through a pipe, so that this process, which alone may use storages, locks and threads, stores it.

A child has but the thread that forked it, and may find locks that another one held: it must use nothing but plain data, what
it was given and its pipe. So it is watched, and what counts is what has come of it: all bytes of the file and a report that
says how many they are. A child that doesn't bring that fails its file, is killed, and was the last one of its process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import io
import logging
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

import msgpack

from pystate.common.errors import SnapshotError
from pystate.common.files.whole_writes import write_fully
from pystate.common.processes.free_memory import available_bytes
from pystate.common.text.bounded_text import bounded_text

logger = logging.getLogger(__name__)

SILENCE_S = 60.0
"""A child of which nothing comes for so long is killed. 256 KB take it a millisecond, a thousand where memory is swapped."""

_PIPE_BYTES = 1 << 20
"""What waits in the pipe at most, where the system allows it: each read costs a wait for the interpreter."""

_POLL_S = 0.5
_STDERR = 2

_LENGTH = struct.Struct(">I")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class ForkFailedError(SnapshotError):
    """A child has not written what it was to write; written once more, it is written without one."""


class ForkedWriter:
    """Writes the snapshots of a process in forked children.

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
            ForkFailedError: The child failed, or was killed; from now on `can_write` says no. What the sink and `check_open`
                raise is passed on.
        """
        ends: list[int] = []
        parent = os.getpid()
        signals = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # until the child has handlers of its own
        try:
            ends += os.pipe()
            ends += os.pipe()
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, signals)
            for descriptor in ends:
                os.close(descriptor)
            logger.warning("This snapshot is written beside the records: no copy of the process can be made: %s", error)
            return None
        data_in, data_out, report_in, report_out = ends
        if pid == 0:
            for descriptor in (data_in, report_in):  # else it could write to itself when its parent has died
                os.close(descriptor)
            _write_in_child(write, data_out, report_out, parent, signals)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        os.close(data_out)
        os.close(report_out)
        received = _Received()
        try:
            self._receive(received, data_in, report_in, sink, check_open)
        finally:
            os.close(data_in)
            os.close(report_in)
            if not received.has_ended:
                os.kill(pid, signal.SIGKILL)
            status = _wait_for(pid)
        return self._checked(received, status)

    def _receive(
        self, received: _Received, data_in: int, report_in: int, sink: BinaryIO, check_open: Callable[[], object]
    ) -> None:
        """Store what comes until all has, or nothing more can come.

        The ends of the pipes don't tell that: a process that another thread forks may hold the child's ends for a while.
        """
        with contextlib.suppress(OSError):  # not allowed: smaller pieces
            fcntl.fcntl(data_in, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        waiting = select.poll()
        for descriptor in (data_in, report_in):
            waiting.register(descriptor, select.POLLIN)
        ended: set[int] = set()
        heard = time.monotonic()
        while not received.is_whole:
            check_open()
            for descriptor, _ in waiting.poll(_POLL_S * 1000):
                data = os.read(descriptor, _PIPE_BYTES)
                if data and descriptor == data_in:
                    write_fully(sink, data)
                    received.size += len(data)
                elif data:
                    received.report += data
                else:
                    waiting.unregister(descriptor)
                    ended.add(descriptor)
                heard = time.monotonic()
            received.has_ended = report_in in ended  # the last that a child has of its parent's
            if received.has_ended and (received.content is None or data_in in ended):
                return
            if time.monotonic() - heard > self._silence:
                said = f"has not said anything for {self._silence:g} s and was killed"
                raise self._failed(said)

    def _checked(self, received: _Received, status: int | None) -> list[int]:
        """Return the child's numbers, if all has come."""
        if received.content is None:
            raise self._failed(_said_of(status))
        numbers, error = received.content
        if error is not None:
            said = f"failed: {error}"
            raise self._failed(said)
        if numbers[0] != received.size:
            said = f"has written {numbers[0]} bytes, and {received.size} bytes have come"
            raise self._failed(said)
        return numbers

    def _failed(self, what: str) -> ForkFailedError:
        self.given_up = what
        message = f"The copy of the process that wrote a snapshot {what}; from now on they are written beside the records."
        logger.warning("%s", message)
        return ForkFailedError(message, hint="turn state.backend.hashmap.forked-snapshots off")


FORKS = ForkedWriter()
"""That of this process. A slot's process serves one attempt after another, and a backend is made for each of them."""


@dataclass
class _Received:
    """What has come of a child.

    Attributes:
        size: The bytes of the file.
        report: Those of its report.
        has_ended: Whether its report has an end, behind which it has ended or is about to.
    """

    size: int = 0
    report: bytes = b""
    has_ended: bool = False

    @property
    def content(self) -> tuple[list[int], str | None] | None:
        """The child's numbers and what it has failed of, once the report is there."""
        if len(self.report) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self.report)
        data = self.report[_LENGTH.size :]
        if len(data) < length:
            return None
        numbers, error = msgpack.unpackb(data)
        return numbers, error

    @property
    def is_whole(self) -> bool:
        """Whether no more is to come: the report, and all of the bytes that it tells of."""
        if self.content is None:
            return False
        numbers, error = self.content
        return error is not None or self.size >= numbers[0]


def _said_of(status: int | None) -> str:
    """Say how a child ended that has not reported."""
    if status is None:
        return "has ended without a report"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit code {code} and no report"
    name = signal.Signals(-code).name if -code in signal.Signals.__members__.values() else f"signal {-code}"
    return f"was killed by {name}, perhaps for want of memory"


def _wait_for(pid: int) -> int | None:
    """Return how a child ended, once it has; None where somebody else has taken note of that, or nobody may."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None


def _write_in_child(
    write: Callable[[BinaryIO], list[int]], data: int, report: int, parent: int, signals: Iterable[int]
) -> NoReturn:
    """Write, report and end; nothing of this process runs behind that, or any other code of the parent's."""
    code = 1
    try:
        gc.disable()  # finalizers are the parent's
        _stand_alone(parent, signals)
        _keep_only(data, report)
        error: str | None = None
        numbers = [0]
        try:
            with io.FileIO(data, "wb") as pipe:
                numbers = write(pipe)
        except BaseException as failure:  # noqa: BLE001 - whatever it is, the parent is told
            error = bounded_text(f"{type(failure).__name__}: {failure}")
        content = msgpack.packb([numbers, error])
        os.write(report, _LENGTH.pack(len(content)) + content)
        code = 0
    finally:
        os._exit(code)


def _stand_alone(parent: int, signals: Iterable[int]) -> None:
    """Let no handler of the parent's run here, and end when it does, whatever this process waits for."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it is also sent where the thread that forked has ended; that one waits
    if os.getppid() != parent:
        os._exit(1)


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
