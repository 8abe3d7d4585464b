"""Threads for work on storages that may never answer: a hanging disk, a lost server.

A thread that waits for a disk can't be ended. So work that takes too long is abandoned: its caller gets an error, another
thread replaces the thread, and the process's exit doesn't wait for it.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from dataclasses import dataclass, field

from pystate.common.errors import SnapshotError

_LAST_SECONDS = 5.0
"""How long the end of the process waits for work that is under way."""
_all: weakref.WeakSet[StorageThreads] = weakref.WeakSet()


class StorageSilentError(SnapshotError):
    """A storage hasn't answered in time."""


@dataclass(eq=False)
class _Work:
    """A piece of work.

    Attributes:
        run: The function to run.
        what: A description, for messages.
        future: The result.
        begun: When it began, monotonic seconds; None before.
        given_up: Whether it was abandoned.
    """

    run: Callable[[], None]
    what: str
    future: Future[None] = field(default_factory=Future)
    begun: float | None = None
    given_up: bool = False


class StorageThreads:
    """A pool of threads, plus a bounded number of abandoned ones.

    Args:
        name: The name of the threads.
        threads: The number of threads.
        seconds: The timeout of a piece of work.
        most_hanging: The number of hanging threads at which no further work is begun.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        seconds: float,
        most_hanging: int = 16,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._threads = threads
        self._seconds = seconds
        self._most_hanging = most_hanging
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._running: set[_Work] = set()
        self._idle = 0
        _all.add(self)

    def submit(self, run: Callable[[], None], what: str) -> Future[None]:
        """Submit work, which starts as soon as a thread is free.

        Args:
            run: The function to run.
            what: A description, as in the sentence "... has not ended within 10 s".
        """
        work = _Work(run, what)
        self._waiting.put(work)
        self.look()
        return work.future

    @property
    def at_work(self) -> int:
        """The number of threads with work that isn't abandoned."""
        with self._lock:
            return sum(not work.given_up for work in self._running)

    def look(self) -> None:
        """Abandon work that takes too long, and make sure that waiting work runs or fails. Never blocks."""
        with self._lock:
            now = self._clock()
            for work in self._running:
                if not work.given_up and work.begun is not None and now - work.begun >= self._seconds:
                    work.given_up = True
                    message = f"{work.what} has not ended within {self._seconds:g} s: its storage may hang."
                    hint = "what was begun may still be done when the storage answers again; look before you try again"
                    _fail(work.future, StorageSilentError(message, hint=hint))
            hanging = sum(work.given_up for work in self._running)
            if hanging >= self._most_hanging:
                self._refuse_waiting(hanging)
            at_work = len(self._running) - hanging + self._idle
            for _ in range(min(self._threads - at_work, self._waiting.qsize())):
                self._idle += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _refuse_waiting(self, hanging: int) -> None:
        while True:
            try:
                work = self._waiting.get_nowait()
            except queue.Empty:
                return
            message = f"{work.what} can't begin: {hanging} others wait for storages that don't answer."
            _fail(work.future, StorageSilentError(message, hint="see to those storages; pystate cluster stop gives them up"))

    def _work(self) -> None:
        while True:
            with self._lock:
                try:
                    work = self._waiting.get_nowait()
                except queue.Empty:
                    self._idle -= 1
                    return
                self._idle -= 1
                work.begun = self._clock()
                self._running.add(work)
            try:
                work.run()
            except BaseException as error:
                _fail(work.future, error)
            else:
                _complete(work.future)
            with self._lock:
                self._running.discard(work)
                if work.given_up:
                    return  # another thread has replaced it
                self._idle += 1

    def close(self, seconds: float) -> None:
        """Wait briefly for running work, but not for abandoned work."""
        with self._lock:
            under_way = [work.future for work in self._running if not work.given_up]
        wait(under_way, seconds)


def _fail(future: Future[None], error: BaseException) -> None:
    try:
        future.set_exception(error)
    except InvalidStateError:  # it was abandoned
        return


def _complete(future: Future[None]) -> None:
    try:
        future.set_result(None)
    except InvalidStateError:  # it was abandoned
        return


@atexit.register
def _end() -> None:
    """Let running deletions finish: a half-deleted snapshot is useless, but takes space."""
    deadline = time.monotonic() + _LAST_SECONDS
    for threads in list(_all):
        threads.close(max(0.0, deadline - time.monotonic()))
