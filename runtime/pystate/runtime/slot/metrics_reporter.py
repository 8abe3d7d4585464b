"""Sends the metrics of a slot's subtasks to the driver, with its heartbeats."""

from __future__ import annotations

import socket
import threading
import time
import traceback
from collections.abc import Callable, Mapping

from pystate.core.metrics.store import SubtaskMetricStore
from pystate.runtime.slot.subtask import Subtask


class SlotMetricsReporter:
    """Creates the metric reports of one slot.

    Args:
        subtasks: The slot's subtasks by uid; they may be added later.
        clock: Returns monotonic seconds.
    """

    def __init__(self, subtasks: Mapping[str, Subtask], clock: Callable[[], float] = time.monotonic) -> None:
        self._subtasks = subtasks
        self._clock = clock
        self._host = socket.gethostname()
        self._lock = threading.Lock()
        self._failed = False

    def report(self) -> dict[str, bytes] | None:
        """Return the metrics of all subtasks by the uids of their tasks, packed: the driver seldom reads them.

        None if collecting fails: a heartbeat must be sent all the same.
        """
        with self._lock:
            try:
                now = self._clock()
                return {
                    uid: SubtaskMetricStore(subtask.index, self._host, subtask.chain.metrics.collect(now)).packed()
                    for uid, subtask in list(self._subtasks.items())
                }
            except Exception:
                if not self._failed:
                    self._failed = True
                    traceback.print_exc()
                return None
