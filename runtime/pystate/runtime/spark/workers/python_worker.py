"""A Spark Python worker process: what stays open in it between tasks, and how it ends."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol

CLOSE_SECONDS = 10
"""How long the functions of a worker may take to close at its end."""

_REUSE = "SPARK_REUSE_WORKER"
_DEADLY = (signal.SIGHUP, signal.SIGTERM)


class KeptOpen(Protocol):
    """A resource that a worker keeps from one task to the next.

    Attributes:
        attempt: The job and execution attempt that it belongs to.
    """

    attempt: tuple[str, int]

    def close(self) -> None:
        """Close it for good."""


class PythonWorker:
    """The resources that this process keeps open between tasks.

    Attributes:
        kept: The open resources, by digest.
    """

    def __init__(self) -> None:
        self.kept: dict[str, KeptOpen] = {}
        self._watches_exit = False
        self._process = 0
        self._set_handler = signal.signal
        self._leave: Callable[[int], Any] = os._exit

    @property
    def is_reused(self) -> bool:
        """Whether Spark reuses this worker for further tasks."""
        return bool(os.environ.get(_REUSE))

    def begin_task(self, attempt: tuple[str, int]) -> None:
        """Close resources of other execution attempts, and restore the default handling of Spark's signals."""
        self._heed_hang_up(heed=True)
        for name, kept in list(self.kept.items()):
            if kept.attempt != attempt:
                del self.kept[name]
                _close(kept)

    def become_slot(self) -> None:
        """Close everything: this process becomes a slot."""
        while self.kept:
            _close(self.kept.popitem()[1])
        self._heed_hang_up(heed=True)

    def end_task(self) -> None:
        """Make sure that open resources are closed when the worker ends.

        Spark's daemon ends its workers with `os._exit`, which runs no exit handlers, when their connection to Spark closes.
        At the same moment it sends them SIGHUP, which would be faster; so SIGHUP is ignored while the worker is idle.
        """
        if not self._watches_exit:
            self._watches_exit = True
            self._process = os.getpid()
            signal.signal = self._set_unless_idle  # type: ignore[assignment]
            atexit.register(self.close)
        if os._exit != self._close_and_leave:  # if this process was a slot meanwhile, the slot restored the original
            self._leave = os._exit
            os._exit = self._close_and_leave  # type: ignore[assignment]
        self._heed_hang_up(heed=False)

    def close(self) -> None:
        """Close everything; the process exits if that takes too long."""
        if not self.kept or os.getpid() != self._process:  # a child forked by user code has nothing to close
            return
        if _in_main_thread():  # as it is in Spark's workers
            for number in _DEADLY:
                signal.signal(number, signal.SIG_IGN)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CLOSE_SECONDS)
        while self.kept:
            _close(self.kept.popitem()[1])

    def _close_and_leave(self, status: int) -> None:
        self.close()
        self._leave(status)

    def _set_unless_idle(self, number: int, handler: Any) -> Any:
        # Spark's worker resets SIGHUP to its default whenever it begins to wait for a task
        if number == signal.SIGHUP and handler is signal.SIG_DFL and self.kept:
            handler = signal.SIG_IGN
        return self._set_handler(number, handler)

    def _heed_hang_up(self, *, heed: bool) -> None:
        if self._watches_exit and _in_main_thread():
            self._set_handler(signal.SIGHUP, signal.SIG_DFL if heed else signal.SIG_IGN)


WORKER = PythonWorker()


def become_slot() -> None:
    """Detach this process from Spark's Python workers: a slot ends on request, and keeps no resources of the worker."""
    WORKER.become_slot()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _close(kept: KeptOpen) -> None:
    try:
        kept.close()
    except Exception:  # its end isn't awaited any more
        traceback.print_exc(file=sys.stderr)
