"""Connections by the thousand, held open."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType

from tests.security.listening_sockets import opened


class HeldConnections:
    """Connections that are held open until somebody closes them."""

    def __init__(self) -> None:
        self._open: dict[int, socket.socket] = {}
        self._poll = select.poll()
        self.made = 0
        self.refused = 0

    def __enter__(self) -> HeldConnections:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None) -> None:
        for held in self._open.values():
            held.close()
        self._open.clear()

    def join(self, address: tuple[str, int] | str, number: int, said: bytes = b"") -> None:
        """Connect some times, and say something each time."""
        for _ in range(number):
            try:
                held = opened(address, 5.0)
            except OSError:
                self.refused += 1
                continue
            self.made += 1
            with contextlib.suppress(OSError):
                held.sendall(said)
            held.setblocking(False)
            self._open[held.fileno()] = held
            self._poll.register(held, select.POLLIN | select.POLLHUP | select.POLLERR)

    @contextlib.contextmanager
    def joining(self, addresses: Iterable[tuple[str, int] | str], number: int) -> Iterator[None]:
        """Connect some times to each, all at once, while something else is done; all have come after it."""
        coming = [threading.Thread(target=self.join, args=(address, number)) for address in addresses]
        for one in coming:
            one.start()
        try:
            yield
        finally:
            for one in coming:
                one.join()

    def say(self, said: bytes) -> None:
        """Say something on each."""
        for held in self._open.values():
            with contextlib.suppress(OSError):
                held.send(said)

    def left(self) -> int:
        """Return how many the other side has not closed."""
        for descriptor, _ in self._poll.poll(0):
            held = self._open[descriptor]
            try:
                while data := held.recv(1 << 16):  # a challenge, or an answer
                    del data
            except BlockingIOError:
                continue
            except OSError:
                pass
            self._poll.unregister(descriptor)
            self._open.pop(descriptor).close()
        return len(self._open)

    def wait_closed(self, seconds: float, said: Iterable[bytes] = ()) -> float | None:
        """Wait until all are closed by the other side; return how long that took, None where some are left.

        Args:
            seconds: How long to wait.
            said: What is said meanwhile, once a second.
        """
        began = time.monotonic()
        drops = iter(said)
        while self.left():
            if time.monotonic() - began > seconds:
                return None
            self.say(next(drops, b""))
            time.sleep(1.0)
        return time.monotonic() - began
