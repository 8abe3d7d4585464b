"""Counts the records that the tasks of a job have read and written."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass
class RecordCounts:
    """Records read and written by the subtasks of a task since the driver started."""

    read: int = 0
    written: int = 0


class RecordCounter:
    """Counts records by task. Records that are read again after a restart are counted again."""

    def __init__(self) -> None:
        self._counts: dict[str, RecordCounts] = {}

    def add(self, uid: str, read: int, written: int) -> None:
        """Add the counts of a subtask of task `uid`."""
        counts = self._counts.setdefault(uid, RecordCounts())
        counts.read += read
        counts.written += written

    def to_plain(self, uids: Iterable[str], sources: Collection[str] = ()) -> dict[str, Any]:
        """Return the records read by the job and written by its last task, and the counts of each task.

        Args:
            uids: The tasks, in the order rows reach them.
            sources: The tasks that are sources: they read nothing, and what they write counts as read by the job.
        """
        counts = {uid: self._counts.get(uid, RecordCounts()) for uid in uids}
        made = sum(count.written for uid, count in counts.items() if uid in sources)
        first, last = next(iter(counts), None), next(reversed(counts), None)
        return {
            "records_in": made + (0 if first is None else counts[first].read),
            "records_out": 0 if last is None else counts[last].written,
            "records": {uid: {"read-records": c.read, "write-records": c.written} for uid, c in counts.items()},
        }
