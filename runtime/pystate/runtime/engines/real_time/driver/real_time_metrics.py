"""Metrics of the real-time engine other than those of slots and checkpoints: records read and written by tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from pystate.core.metrics.sample import MetricSample
from pystate.runtime.plan.task import TaskSpec


class RecordCounts:
    """Counts by task, over all attempts in this driver. Records that are read again after a restart are counted again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._before: dict[str, tuple[int, int]] = {}
        self._reported: dict[int, dict[str, tuple[int, int]]] = {}

    def report(self, slot: int, counts: Mapping[str, Iterable[int]]) -> None:
        """Set the counts of a slot's subtasks since the attempt began."""
        with self._lock:
            self._reported[slot] = {uid: (read, written) for uid, (read, written) in counts.items()}

    def attempt_over(self) -> None:
        """Keep the counts of the attempt."""
        with self._lock:
            self._before = self._sums()
            self._reported = {}

    def to_plain(self, tasks: Iterable[TaskSpec]) -> dict[str, Any]:
        """Return the records read by the job and written by its last task, and the counts of each task."""
        with self._lock:
            sums = self._sums()
        known = list(tasks)
        counts = {task.uid: sums.get(task.uid, (0, 0)) for task in known}
        sources = [task.uid for task in known if task.is_own_source]
        return {
            "records_in": sum(counts[uid][1] for uid in sources),
            "records_out": counts[known[-1].uid][1] if known else 0,
            "records": {uid: {"read-records": read, "write-records": written} for uid, (read, written) in counts.items()},
        }

    def job_samples(self) -> list[MetricSample]:
        """Return nothing: there are no epochs."""
        return []

    def source_samples(self) -> Mapping[tuple[str, int], list[MetricSample]]:
        """Return nothing: sources are tasks in slots."""
        return {}

    def _sums(self) -> dict[str, tuple[int, int]]:
        sums = dict(self._before)
        for counts in self._reported.values():
            for uid, (read, written) in counts.items():
                read_before, written_before = sums.get(uid, (0, 0))
                sums[uid] = read_before + read, written_before + written
        return sums
