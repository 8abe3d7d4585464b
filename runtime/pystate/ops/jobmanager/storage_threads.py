"""Threads for work on storages that may never answer: a disk that hangs, a server that is gone.

Nobody can end a thread that waits for a disk. So work that takes too long is given up: who asked is told, another thread
takes its place, and the process's end doesn't wait for it.
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
    """A storage has not answered in time."""


@dataclass(eq=False)
class _Work:
    """Something to do.

    Attributes:
        run: Does it.
        what: What it is, for people.
        future: How it ended.
        begun: When it began, monotonic seconds; None before.
        given_up: Whether nobody waits for its end any more.
    """

    run: Callable[[], None]
    what: str
    future: Future[None] = field(default_factory=Future)
    begun: float | None = None
    given_up: bool = False


class StorageThreads:
    """Some threads that work, and a bounded number of further ones that were given up.

    Args:
        name: What the threads are called.
        threads: How many work at a time.
        seconds: How long a piece of work may take.
        most_hanging: How many threads may hang before no further work is begun.
        clock: Monotonic seconds.
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
        """Begin some work as soon as a thread is free.

        Args:
            run: Does it.
            what: What it is, as it stands in the sentence "... has not ended within 10 s".
        """
        work = _Work(run, what)
        self._waiting.put(work)
        self.look()
        return work.future

    @property
    def at_work(self) -> int:
        """How many threads do some work that was not given up."""
        with self._lock:
            return sum(not work.given_up for work in self._running)

    def look(self) -> None:
        """Give up what has taken too long, and see to it that what waits is done or fails. Never blocks."""
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
                    return  # another thread has its place
                self._idle += 1

    def close(self, seconds: float) -> None:
        """Wait for what is under way, but not for what was given up, and not for long."""
        with self._lock:
            under_way = [work.future for work in self._running if not work.given_up]
        wait(under_way, seconds)


def _fail(future: Future[None], error: BaseException) -> None:
    try:
        future.set_exception(error)
    except InvalidStateError:  # it was given up
        return


def _complete(future: Future[None]) -> None:
    try:
        future.set_result(None)
    except InvalidStateError:  # it was given up
        return


@atexit.register
def _end() -> None:
    """Let deletions that are under way come to their end: half of one is no snapshot, but takes space."""
    deadline = time.monotonic() + _LAST_SECONDS
    for threads in list(_all):
        threads.close(max(0.0, deadline - time.monotonic()))
