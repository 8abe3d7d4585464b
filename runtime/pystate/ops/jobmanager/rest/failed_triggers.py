"""Savepoints, stops and checkpoints of jobs that are not there, or have ended: taken, and answered as failed to who asks.

That is how Flink treats them: its clients expect that only a malformed request is refused at once.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.files.home import new_job_id, parse_job_id

_KEPT_SECONDS = 300.0
"""How long Flink keeps results of operations, by default."""
_MOST = 1000


class FailedTriggers:
    """Remembers them for five minutes. Safe to use from many threads.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failed: OrderedDict[tuple[str, str], tuple[float, dict[str, Any]]] = OrderedDict()

    def add(self, job_id: str, trigger_id: str | None, kind: str, error: PystateError) -> str:
        """Take note of one, and return the id to ask for its result.

        Args:
            job_id: The job that was meant.
            trigger_id: The id that the caller has chosen; None to make one.
            kind: `savepoint`, `stop` or `checkpoint`.
            error: Why it failed.
        """
        chosen = new_job_id() if trigger_id is None else parse_job_id(trigger_id)
        operation = {"kind": kind, "status": "COMPLETED", "failure": error.to_dict()}
        with self._lock:
            self._forget()
            # the same id once more is the same request
            self._failed.setdefault((job_id, chosen), (self._clock(), operation))
            while len(self._failed) > _MOST:
                self._failed.popitem(last=False)
        return chosen

    def result(self, job_id: str, trigger_id: str) -> dict[str, Any] | None:
        """Return what became of it, in the form of an operation's file; None where none of this id has failed."""
        with self._lock:
            self._forget()
            found = self._failed.get((job_id, trigger_id))
        return None if found is None else found[1]

    def _forget(self) -> None:
        old = self._clock() - _KEPT_SECONDS
        while self._failed and next(iter(self._failed.values()))[0] <= old:
            self._failed.popitem(last=False)
