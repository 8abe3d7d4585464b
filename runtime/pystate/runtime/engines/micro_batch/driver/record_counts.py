"""How many records the tasks of a job have read and written."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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

    def to_plain(self, uids: Iterable[str], sources: Collection[str] = ()) -> dict[str, Any]:
        """Return what the job has read and the last of its tasks has written, and the counts of each.

        Args:
            uids: The tasks, in the order rows reach them.
            sources: Those that are sources themselves: they read nothing, and what they write is what the job reads.
        """
        counts = {uid: self._counts.get(uid, RecordCounts()) for uid in uids}
        made = sum(count.written for uid, count in counts.items() if uid in sources)
        first, last = next(iter(counts), None), next(reversed(counts), None)
        return {
            "records_in": made + (0 if first is None else counts[first].read),
            "records_out": 0 if last is None else counts[last].written,
            "records": {uid: {"read-records": c.read, "write-records": c.written} for uid, c in counts.items()},
        }
