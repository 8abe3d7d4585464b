"""A thread that reads requests from many connections in turn, and answers them.

A thread for each connection would wait for the interpreter with all others, and each that waits wakes up every 5 ms.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from pystate.common.processes.length_prefixed_frames import NO_MESSAGE, FrameReader, FrameTooLargeError
from pystate.common.processes.tls_session import TlsSocket

_RECEIVED_BYTES = 1 << 18
_BUSY_SHARE = 0.3
_LOOKED_AT_SECONDS = 0.005
_PAUSE_SECONDS = 0.01

Answer = Callable[[bytes], bytes]
"""Returns the answer to a request, including its framing; raises one of NO_MESSAGE to close the connection."""

Connection = socket.socket | TlsSocket


class _Caller:
    """One connection.

    Args:
        connection: The connection; doesn't block.
        answer: Answers a request.
        ended: Called once the connection is closed.
        most: The maximum size of a request, bytes.

    Attributes:
        connection: The connection.
        heard_at: When it last sent a request; monotonic seconds.
    """

    def __init__(self, connection: Connection, answer: Answer, ended: Callable[[], None], most: int) -> None:
        self.connection = connection
        self._ended: Callable[[], None] | None = ended
        self._answer = answer
        self._reader = FrameReader(most)
        self._unsent = memoryview(b"")
        self.heard_at = time.monotonic()

    @property
    def is_slow(self) -> bool:
        """Whether an answer is not sent completely yet; until then nothing more is read."""
        return bool(self._unsent)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()

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
    """Answers requests of many connections on one thread.

    Args:
        name: The name of the thread.
        most: The maximum number of connections; beyond it the one idle for longest is closed. None for any number.
        frame_bytes: The maximum size of a request.
        gives_way: Whether other threads of the process matter more. A thread that processes records shares the interpreter
            with this one, which switches between them with each poll of a connection, and each switch refills the
            processor's caches. So the loop then polls less often while they are busy, and answers everything at once.
    """

    def __init__(self, name: str, *, most: int | None, frame_bytes: int, gives_way: bool) -> None:
        self._most = most
        self._frame_bytes = frame_bytes
        self._gives_way = gives_way
        self._arrived: deque[_Caller] = deque()
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = socket.socketpair()
        self._wakes.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._callers: set[_Caller] = set()
        self._closed = threading.Event()
        self._ends_idle = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def add(self, connection: Connection, answer: Answer, ended: Callable[[], None] = lambda: None) -> None:
        """Add an authenticated connection; from any thread.

        Args:
            connection: The connection.
            answer: Answers its requests; must not block.
            ended: Called once the connection is closed, from whichever side; must not block.
        """
        connection.setblocking(False)
        self._arrived.append(_Caller(connection, answer, ended, self._frame_bytes))
        self._wake()
        if self._closed.is_set():
            self._cut_arrived()

    def close(self) -> None:
        """Close all connections soon."""
        self._closed.set()
        self._wake()

    def close_idle(self) -> None:
        """Close when the last connection has ended."""
        self._ends_idle = True
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
                if self._ends_idle and not self._callers and not self._arrived:
                    return
                if self._gives_way and others.are_busy():
                    self.pause(_PAUSE_SECONDS)
        finally:
            self._closed.set()
            for caller in tuple(self._callers):
                self._cut(caller)
            self._cut_arrived()
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
        while self._arrived and not self._closed.is_set():
            caller = self._arrived.popleft()
            if self._most is not None and len(self._callers) >= self._most:
                self._cut(min(self._callers, key=lambda one: one.heard_at))
            self._callers.add(caller)
            self._selector.register(caller.connection, selectors.EVENT_READ, caller)
            self._serve(caller)  # with TLS its first request may have been received together with its proof

    def _cut_arrived(self) -> None:
        """Close the connections that came too late; from any thread."""
        with contextlib.suppress(IndexError):
            while True:
                self._arrived.popleft().close()

    def _cut(self, caller: _Caller) -> None:
        self._callers.discard(caller)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(caller.connection)
        caller.close()
