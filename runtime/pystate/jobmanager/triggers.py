"""What was asked of a job's drivers, and of which of them: so that who asks is told where that driver is gone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from pystate.driver.triggered_operations import MOST_RESULTS
from pystate.job_folder.operation import OperationKind


@dataclass(frozen=True)
class Trigger:
    """What was asked of a driver, and its process id."""

    kind: OperationKind
    driver: int | None


class Triggers:
    """The latest triggers of a job, as many as results are kept of. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: OrderedDict[str, Trigger] = OrderedDict()

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, trigger_id: str, trigger: Trigger) -> None:
        """Take note of one."""
        with self._lock:
            self._latest[trigger_id] = trigger
            while len(self._latest) > MOST_RESULTS:
                self._latest.popitem(last=False)

    def get(self, trigger_id: str) -> Trigger | None:
        """Return the one of an id; None where it is not known, or no more."""
        with self._lock:
            return self._latest.get(trigger_id)
