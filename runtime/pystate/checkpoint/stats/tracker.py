"""Keeps the statistics of a job's checkpoints: the last ones, and numbers over all."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.plain import as_map, take, take_int, take_list, unsound
from pystate.checkpoint.stats import rest_json
from pystate.checkpoint.stats.checkpoint_stats import (
    CheckpointedTask,
    CheckpointStats,
    CheckpointStatsStatus,
    RestoredCheckpointStats,
    SubtaskCheckpointMetrics,
    TaskStateStats,
)
from pystate.checkpoint.stats.plain import checkpoint_from_plain, checkpoint_to_plain, restored_from_plain
from pystate.checkpoint.stats.summary import StatsSummary

if TYPE_CHECKING:
    from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
    from pystate.checkpoint.pending_checkpoint import PendingCheckpoint

_LATEST = ("completed", "savepoint", "failed")


class CheckpointStatsTracker:
    """Keeps the last checkpoints, and numbers over all. Safe to use from many threads.

    Args:
        history_size: How many checkpoints are listed.
        clock: Now, ms since 1970.
    """

    def __init__(self, history_size: int, clock: Callable[[], int]) -> None:
        self._history_size = history_size
        self._clock = clock
        self._lock = threading.RLock()
        self._described: dict[str, CheckpointedTask] = {}
        self._history: OrderedDict[int, CheckpointStats] = OrderedDict()
        self._in_progress: dict[int, CheckpointStats] = {}
        self._latest: dict[str, CheckpointStats | None] = dict.fromkeys(_LATEST)
        self._restored: RestoredCheckpointStats | None = None
        self._counts = {"restored": 0, "total": 0, "completed": 0, "failed": 0}
        self._summaries = {name: StatsSummary() for name in rest_json.SUMMARY_FIELDS}

    # -- taking note

    def describe_tasks(self, tasks: Iterable[CheckpointedTask]) -> None:
        """Take note of the job's operators, in their order; checkpoints are triggered of no others."""
        with self._lock:
            self._described = {task.uid: task for task in tasks}

    def report_pending(self, pending: PendingCheckpoint) -> None:
        """Take note of a checkpoint that was triggered."""
        sizes: dict[str, int] = {}
        for uid, _ in pending.tasks:
            sizes[uid] = sizes.get(uid, 0) + 1
        with self._lock:
            tasks = {
                uid: TaskStateStats(uid, task.vertex_id, task.name, sizes.pop(uid))
                for uid, task in self._described.items()
                if uid in sizes
            }
            if sizes:
                message = f"these operators were never described: {sorted(sizes)}"
                raise ValueError(message)
            stats = CheckpointStats(
                checkpoint_id=pending.checkpoint_id,
                is_savepoint=pending.is_savepoint,
                savepoint_format=pending.format.value if pending.is_savepoint else None,
                trigger_timestamp=pending.trigger_timestamp,
                tasks=tasks,
                epoch=pending.epoch,
                path=pending.location,
            )
            self._counts["total"] += 1
            self._in_progress[stats.checkpoint_id] = stats
            self._history.pop(stats.checkpoint_id, None)  # where ids began anew
            self._history[stats.checkpoint_id] = stats
            while len(self._history) > self._history_size:
                self._history.popitem(last=False)

    def report_waiting(self, checkpoint_id: int, epoch: int | None) -> None:
        """Take note that a checkpoint's barrier waits for the end of an epoch; None: it waits no longer."""
        with self._lock:
            stats = self._in_progress.get(checkpoint_id)
            if stats is not None and stats.waits_for_epoch != epoch:
                stats.waits_for_epoch, stats.waits_since = epoch, self._clock()

    def report_ack(self, checkpoint_id: int, uid: str, subtask: int, metrics: SubtaskCheckpointMetrics) -> None:
        """Take note of a subtask's acknowledgement; one of a checkpoint that has ended comes too late to count."""
        with self._lock:
            stats = self._in_progress.get(checkpoint_id)
            if stats is not None and uid in stats.tasks:
                stats.tasks[uid].subtasks[subtask] = metrics

    def report_alignment(self, checkpoint_id: int, milliseconds: Mapping[str, int | None]) -> None:
        """Take note, by uid, of alignment durations that were measured outside of the subtasks."""
        with self._lock:
            stats = self._in_progress.get(checkpoint_id)
            for task in [] if stats is None else stats.tasks.values():
                measured = milliseconds.get(task.uid)
                for index, metrics in task.subtasks.items():
                    if metrics.alignment_ms is None and measured is not None:
                        task.subtasks[index] = replace(metrics, alignment_ms=measured)

    def report_completed(self, completed: CompletedCheckpoint) -> None:
        """Take note that a checkpoint completed."""
        with self._lock:
            stats = self._in_progress.pop(completed.checkpoint_id, None)
            if stats is None:
                return
            stats.status = CheckpointStatsStatus.COMPLETED
            stats.epoch = completed.epoch
            stats.path = completed.path
            self._counts["completed"] += 1
            self._latest["savepoint" if stats.is_savepoint else "completed"] = stats
            for name, summary in self._summaries.items():
                value = rest_json.SUMMARY_FIELDS[name](stats)
                if value is not None:
                    summary.add(value)

    def report_failed(
        self, pending: PendingCheckpoint | None, reason: CheckpointFailureReason, message: str | None = None
    ) -> None:
        """Take note that a checkpoint failed.

        Args:
            pending: Which; None where it failed before it was triggered: it is counted, and listed nowhere.
            reason: Why.
            message: The particulars, for people.
        """
        with self._lock:
            if pending is None:
                self._counts["total"] += 1
                self._counts["failed"] += 1
            elif pending.checkpoint_id in self._in_progress:
                self._in_progress[pending.checkpoint_id].epoch = pending.epoch
                self._fail(pending.checkpoint_id, reason, message, self._clock())

    def withdraw(self, checkpoint_id: int) -> None:
        """Forget a checkpoint in progress that nobody wants any more: it has neither completed nor failed."""
        with self._lock:
            if self._in_progress.pop(checkpoint_id, None) is not None:
                self._history.pop(checkpoint_id, None)
                self._counts["total"] -= 1

    def give_up_in_progress(self, reason: CheckpointFailureReason, message: str, timestamp: int) -> None:
        """Take note that whoever coordinated the checkpoints is gone, and those in progress with it.

        Args:
            reason: Why.
            message: The particulars, for people.
            timestamp: Since when, ms since 1970.
        """
        with self._lock:
            for checkpoint_id, stats in list(self._in_progress.items()):
                self._fail(checkpoint_id, reason, message, max(timestamp, stats.trigger_timestamp))

    def _fail(self, checkpoint_id: int, reason: CheckpointFailureReason, message: str | None, timestamp: int) -> None:
        stats = self._in_progress.pop(checkpoint_id)
        stats.status = CheckpointStatsStatus.FAILED
        stats.failure_timestamp = timestamp
        stats.failure_message = reason.message if not message else f"{reason.message} {message}"
        self._counts["failed"] += 1
        self._latest["failed"] = stats

    def report_restored(self, checkpoint_id: int, is_savepoint: bool, path: str) -> None:
        """Take note that an attempt starts from a checkpoint or savepoint."""
        with self._lock:
            now = self._clock()
            self._counts["restored"] += 1
            self._restored = RestoredCheckpointStats(checkpoint_id, now, is_savepoint, path)
            stats = self._find(checkpoint_id)
            if stats is not None and stats.is_savepoint == is_savepoint:
                stats.restore_timestamp = now

    def report_discarded(self, checkpoint_ids: Iterable[int]) -> None:
        """Take note that completed checkpoints were deleted."""
        with self._lock:
            for checkpoint_id in checkpoint_ids:
                stats = self._find(checkpoint_id)
                if stats is not None:
                    stats.discarded = True

    # -- telling

    def to_rest(self) -> dict[str, Any]:
        """Return the answer to `GET /jobs/:id/checkpoints`, the last checkpoint first."""
        with self._lock:
            return rest_json.overview(
                self._all_counts(),
                {name: summary.to_rest() for name, summary in self._summaries.items()},
                self._latest["completed"],
                self._latest["savepoint"],
                self._latest["failed"],
                self._restored,
                list(reversed(self._history.values())),
            )

    def details(self, checkpoint_id: int) -> dict[str, Any] | None:
        """Return the answer to `GET /jobs/:id/checkpoints/details/:cid`; None where it is not listed any more."""
        with self._lock:
            stats = self._find(checkpoint_id)
            return None if stats is None else rest_json.checkpoint(stats, with_tasks=True)

    def subtask_details(self, checkpoint_id: int, vertex_id: str) -> dict[str, Any] | None:
        """Return the answer to `.../details/:cid/subtasks/:vertexid`; None where there is no such checkpoint or operator."""
        with self._lock:
            stats = self._find(checkpoint_id)
            for task in [] if stats is None else stats.tasks.values():
                if stats is not None and task.vertex_id == vertex_id:
                    return rest_json.task_with_subtasks(stats, task)
        return None

    def _all_counts(self) -> dict[str, int]:
        names = ("restored", "total", "in_progress", "completed", "failed")
        counts = {**self._counts, "in_progress": len(self._in_progress)}
        return {name: counts[name] for name in names}

    def _find(self, checkpoint_id: int) -> CheckpointStats | None:
        return self._known().get(checkpoint_id)

    def _known(self) -> dict[int, CheckpointStats]:
        latest = {one.checkpoint_id: one for one in self._latest.values() if one is not None}
        return {**latest, **self._in_progress, **self._history}

    # -- from driver to driver

    def to_plain(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        with self._lock:
            return {
                "counts": dict(self._counts),
                "summaries": {name: summary.to_plain() for name, summary in self._summaries.items()},
                "checkpoints": [checkpoint_to_plain(stats) for _, stats in sorted(self._known().items())],
                "history": list(self._history),
                "latest": {name: None if one is None else one.checkpoint_id for name, one in self._latest.items()},
                "restored": None if self._restored is None else asdict(self._restored),
            }

    @classmethod
    def from_plain(cls, plain: object, history_size: int, clock: Callable[[], int]) -> CheckpointStatsTracker:
        """Rebuild it.

        Args:
            plain: What `to_plain` gave.
            history_size: How many checkpoints are listed from now on.
            clock: Now, ms since 1970.

        Raises:
            CorruptSnapshotError: It is something else.
        """
        data = as_map(plain, "the statistics")
        tracker = cls(history_size, clock)
        counts = as_map(take(data, "counts"), "the counts")
        tracker._counts = {name: take_int(counts, name) for name in tracker._counts}
        summaries = as_map(take(data, "summaries"), "the summaries")
        tracker._summaries = {name: StatsSummary.from_plain(take(summaries, name)) for name in tracker._summaries}
        known = {one.checkpoint_id: one for one in take_list(data, "checkpoints", checkpoint_from_plain)}
        latest = as_map(take(data, "latest"), "the latest checkpoints")
        tracker._latest = {name: None if take(latest, name) is None else _of(known, latest[name]) for name in _LATEST}
        history = take_list(data, "history", lambda number: _of(known, number))
        tracker._history = OrderedDict((one.checkpoint_id, one) for one in history[max(0, len(history) - history_size) :])
        running = (one for one in known.values() if one.status is CheckpointStatsStatus.IN_PROGRESS)
        tracker._in_progress = {one.checkpoint_id: one for one in running}
        tracker._restored = restored_from_plain(take(data, "restored"))
        return tracker


def _of(known: dict[int, CheckpointStats], checkpoint_id: object) -> CheckpointStats:
    if type(checkpoint_id) is not int or checkpoint_id not in known:
        raise unsound(what=f"checkpoint {checkpoint_id!r} is named and not there")
    return known[checkpoint_id]
