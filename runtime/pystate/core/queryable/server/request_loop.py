"""The thread that reads state requests from all connections of a slot in turn, and answers them."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from pystate.common.processes.tls_session import TlsSocket
from pystate.core.queryable.kv_state_frames import NO_MESSAGE, FrameReader, FrameTooLargeError

MAX_FRAME_BYTES = 8 << 20
"""More than the proxy requests at once."""

_RECEIVED_BYTES = 1 << 18
_BUSY_SHARE = 0.3
_LOOKED_AT_SECONDS = 0.005
_PAUSE_SECONDS = 0.01

Answer = Callable[[bytes], bytes]
"""Returns the answer to a request, including its framing; raises one of NO_MESSAGE to close the connection."""


class _Caller:
    """One connection.

    Args:
        connection: The connection; doesn't block.
        answer: Answers a request.

    Attributes:
        connection: The connection.
        heard_at: When it last sent a request; monotonic seconds.
    """

    def __init__(self, connection: socket.socket | TlsSocket, answer: Answer) -> None:
        self.connection = connection
        self._answer = answer
        self._reader = FrameReader(MAX_FRAME_BYTES)
        self._unsent = memoryview(b"")
        self.heard_at = time.monotonic()

    @property
    def is_slow(self) -> bool:
        """Whether an answer is not sent completely yet; until then nothing more is read."""
        return bool(self._unsent)

    def read(self) -> None:
        """Answer the requests that have arrived.

        Raises:
            OSError, EOFError, FrameTooLargeError, NO_MESSAGE: The connection must be closed.
        """
        data = self.connection.recv(_RECEIVED_BYTES)
        if not data:
            raise EOFError
        self._reader.feed(data)
        self._answer_all()

    def write(self) -> None:
        """Continue to send; raises the same errors as `read`."""
        self._send(self._unsent)
        self._answer_all()

    def _answer_all(self) -> None:
        while not self._unsent:
            payload = self._reader.next_frame()
            if payload is None:
                return
            self._send(memoryview(self._answer(payload)))

    def _send(self, data: memoryview) -> None:
        try:
            self._unsent = data[self.connection.send(data) :]
        except BlockingIOError:
            self._unsent = data


class OtherThreads:
    """Observes the CPU usage of the process's other threads. For use by one thread."""

    def __init__(self) -> None:
        self._at = time.perf_counter()
        self._worked = time.process_time() - time.thread_time()
        self._busy = False

    def are_busy(self) -> bool:
        """Return whether the other threads have recently used a good part of a processor."""
        now = time.perf_counter()
        passed = now - self._at
        if passed >= _LOOKED_AT_SECONDS:
            worked = time.process_time() - time.thread_time()
            self._busy = worked - self._worked > _BUSY_SHARE * passed
            self._at, self._worked = now, worked
        return self._busy


class RequestLoop:
    """Answers requests on one thread.

    That thread and the one that processes records share an interpreter, which switches between them with each poll of a
    connection, and each switch refills the processor's caches. So it polls less often while records are processed, and
    answers everything that has arrived at once.

    Args:
        answer: Answers a request.
        most: The maximum number of connections; beyond it the connection idle for longest is closed.
    """

    def __init__(self, answer: Answer, most: int) -> None:
        self._answer = answer
        self._most = most
        self._arrived: deque[socket.socket | TlsSocket] = deque()
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = socket.socketpair()
        self._wakes.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._callers: set[_Caller] = set()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queryable-state-server", daemon=True)

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def add(self, connection: socket.socket | TlsSocket) -> None:
        """Add an authenticated connection; from any thread."""
        connection.setblocking(False)
        self._arrived.append(connection)
        self._wake()

    def close(self) -> None:
        """Close all connections soon."""
        self._closed.set()
        self._wake()

    def pause(self, seconds: float) -> None:
        """Wait, so that other threads can use the interpreter, or until the loop is closed."""
        self._closed.wait(seconds)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full, so that it wakes anyway, or closed
            self._waker.send(b"\0")

    def _run(self) -> None:
        others = OtherThreads()
        try:
            while not self._closed.is_set():
                self._serve_ready()
                if others.are_busy():
                    self.pause(_PAUSE_SECONDS)
        finally:
            for caller in tuple(self._callers):
                self._cut(caller)
            self._admit()
            self._selector.close()
            self._wakes.close()
            self._waker.close()

    def _serve_ready(self) -> None:
        for key, _ in self._selector.select():
            caller = key.data
            if caller is None:
                with contextlib.suppress(BlockingIOError):
                    self._wakes.recv(_RECEIVED_BYTES)
                self._admit()
            else:
                self._serve(caller)

    def _serve(self, caller: _Caller) -> None:
        was_slow = caller.is_slow
        try:
            (caller.write if was_slow else caller.read)()
        except BlockingIOError:
            return
        except (OSError, EOFError, FrameTooLargeError, *NO_MESSAGE):
            self._cut(caller)
            return
        caller.heard_at = time.monotonic()
        if caller.is_slow is not was_slow:
            event = selectors.EVENT_WRITE if caller.is_slow else selectors.EVENT_READ
            self._selector.modify(caller.connection, event, caller)

    def _admit(self) -> None:
        while self._arrived:
            connection = self._arrived.popleft()
            if self._closed.is_set():
                connection.close()
                continue
            if len(self._callers) >= self._most:
                self._cut(min(self._callers, key=lambda one: one.heard_at))
            caller = _Caller(connection, self._answer)
            self._callers.add(caller)
            self._selector.register(connection, selectors.EVENT_READ, caller)
            self._serve(caller)  # with TLS its first request may have been received together with its proof

    def _cut(self, caller: _Caller) -> None:
        self._callers.discard(caller)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(caller.connection)
        caller.connection.close()
