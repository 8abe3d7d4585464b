"""How many records the tasks of a job have read and written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass
class RecordCounts:
    """Records that the subtasks of a task have read and written since the driver started."""

    read: int = 0
    written: int = 0


class RecordCounter:
    """Counts by task. Records that are read again after a restart count again."""

    def __init__(self) -> None:
        self._counts: dict[str, RecordCounts] = {}

    def add(self, uid: str, read: int, written: int) -> None:
        """Count what a subtask of task `uid` has done."""
        counts = self._counts.setdefault(uid, RecordCounts())
        counts.read += read
        counts.written += written

    def to_plain(self, uids: Iterable[str]) -> dict[str, Any]:
        """Return what the first of the tasks has read and the last has written, and the counts of each."""
        counts = {uid: self._counts.get(uid, RecordCounts()) for uid in uids}
        tasks = list(counts.values())
        return {
            "records_in": tasks[0].read if tasks else 0,
            "records_out": tasks[-1].written if tasks else 0,
            "records": {uid: {"read-records": c.read, "write-records": c.written} for uid, c in counts.items()},
        }
