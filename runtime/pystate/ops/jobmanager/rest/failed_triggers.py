"""Triggers of savepoints, stops and checkpoints of unknown or ended jobs: accepted, and then reported as failed.

Flink does the same: its clients expect that only malformed requests are rejected at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from pystate.common.bounded_dict import BoundedDict
from pystate.common.errors import PystateError
from pystate.common.files.home import new_job_id, parse_job_id

_KEPT_SECONDS = 300.0
"""How long Flink keeps results of operations, by default."""
_MOST = 1000


class FailedTriggers:
    """Keeps failed triggers for five minutes. Thread-safe.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._failed: BoundedDict[tuple[str, str], dict[str, Any]] = BoundedDict(_MOST, _KEPT_SECONDS, clock)

    def add(self, job_id: str, trigger_id: str | None, kind: str, error: PystateError) -> str:
        """Add a failed trigger, and return the id for its result.

        Args:
            job_id: The requested job.
            trigger_id: The id chosen by the caller; None to create one.
            kind: `savepoint`, `stop` or `checkpoint`.
            error: Why it failed.
        """
        chosen = new_job_id() if trigger_id is None else parse_job_id(trigger_id)
        operation = {"kind": kind, "status": "COMPLETED", "failure": error.to_dict()}
        with self._lock:
            if (job_id, chosen) not in self._failed:  # else it is the same request
                self._failed.put((job_id, chosen), operation)
        return chosen

    def result(self, job_id: str, trigger_id: str) -> dict[str, Any] | None:
        """Return the result in the form of an operation's file; None if there is no failed trigger with this id."""
        with self._lock:
            return self._failed.get((job_id, trigger_id))
