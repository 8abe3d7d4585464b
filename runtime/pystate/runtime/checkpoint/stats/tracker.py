"""Tracks the statistics of a job's checkpoints: the latest ones, and summaries of all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from pystate.common.bounded_dict import BoundedDict
from pystate.core.metrics.sample import MetricSample
from pystate.core.snapshot.plain import take, unsound
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.stats import rest_json
from pystate.runtime.checkpoint.stats.checkpoint_stats import (
    CheckpointedTask,
    CheckpointStats,
    CheckpointStatsCounts,
    CompletedCheckpointStats,
    PendingCheckpointStats,
    RestoredCheckpointStats,
    TaskStateStats,
)
from pystate.runtime.checkpoint.stats.samples import checkpoint_samples, subtask_samples
from pystate.runtime.checkpoint.stats.stats_snapshot import CheckpointStatsSnapshot, KeptStatistics
from pystate.runtime.checkpoint.stats.stats_summary import StatsSummary
from pystate.runtime.checkpoint.stats.subtask_columns import SubtaskColumns
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.rest.checkpoint_messages import CheckpointsSummary

if TYPE_CHECKING:
    from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
    from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint

_LATEST = ("completed", "savepoint", "failed")

_SUMMARIZED = tuple(one.name for one in fields(CheckpointsSummary))
"""The values that are summarized over all completed checkpoints."""


class CheckpointStatsTracker:
    """Tracks the latest checkpoints, and summaries of all. Thread-safe.

    Args:
        history_size: The number of listed checkpoints.
        clock: Returns the current time, ms since 1970.
    """

    def __init__(self, history_size: int, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._described: dict[str, CheckpointedTask] = {}
        self._history: BoundedDict[int, CheckpointStats] = BoundedDict(history_size)
        self._in_progress: dict[int, PendingCheckpointStats] = {}
        self._latest: dict[str, CheckpointStats | None] = dict.fromkeys(_LATEST)
        self._restored: RestoredCheckpointStats | None = None
        self._counts = CheckpointStatsCounts()
        self._summaries = {name: StatsSummary() for name in _SUMMARIZED}

    # -- taking note

    def describe_tasks(self, tasks: Iterable[CheckpointedTask]) -> None:
        """Record the job's operators, in their order; checkpoints are triggered of no others."""
        with self._lock:
            self._described = {task.uid: task for task in tasks}

    def report_pending(self, pending: PendingCheckpoint) -> None:
        """Record a checkpoint that was triggered."""
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
            stats = PendingCheckpointStats(
                checkpoint_id=pending.checkpoint_id,
                is_savepoint=pending.is_savepoint,
                savepoint_format=pending.format.value if pending.is_savepoint else None,
                trigger_timestamp=pending.trigger_timestamp,
                tasks=tasks,
                epoch=pending.epoch,
                path=pending.location.uri,
            )
            self._count(total=1)
            self._in_progress[stats.checkpoint_id] = stats
            self._history.put(stats.checkpoint_id, stats)

    def report_waiting(self, checkpoint_id: int, epoch: int | None) -> None:
        """Record that a checkpoint's barrier waits for the end of an epoch; None if it doesn't wait any more."""
        with self._lock:
            stats = self._in_progress.get(checkpoint_id)
            if stats is not None and stats.waits_for_epoch != epoch:
                stats.waits_for_epoch, stats.waits_since = epoch, self._clock()

    def report_ack(self, checkpoint_id: int, uid: str, subtask: int, metrics: SubtaskCheckpointMetrics) -> None:
        """Record a subtask's acknowledgement; one of a checkpoint that has ended comes too late to count."""
        with self._lock:
            stats = self._in_progress.get(checkpoint_id)
            if stats is not None and uid in stats.tasks:
                stats.tasks[uid].acknowledge(subtask, metrics)

    def report_alignment(self, checkpoint_id: int, milliseconds: Mapping[str, int | None]) -> None:
        """Record alignment durations that were measured outside of the subtasks, by uid."""
        with self._lock:
            stats = self._in_progress.get(checkpoint_id)
            for task in [] if stats is None else stats.tasks.values():
                measured = milliseconds.get(task.uid)
                if stats is not None and measured is not None:
                    task.subtasks = SubtaskColumns.of(task.subtasks, stats.trigger_timestamp).aligned_in(measured)

    def report_completed(self, completed: CompletedCheckpoint) -> None:
        """Record that a checkpoint completed."""
        with self._lock:
            stats = self._in_progress.pop(completed.checkpoint_id, None)
            if stats is None:
                return
            done = replace(
                stats.completed(),
                epoch=completed.epoch,
                path=completed.path,
                completion_timestamp=completed.completion_timestamp,
            )
            self._count(completed=1)
            self._ended(done, "savepoint" if done.is_savepoint else "completed")
            for name, value in _summarized(done).items():
                if value is not None:
                    self._summaries[name].add(value)

    def report_notified(self, checkpoint_id: int) -> None:
        """Record that all functions have been notified of a completed checkpoint."""
        with self._lock:
            stats = self._find(checkpoint_id)
            if isinstance(stats, CompletedCheckpointStats):
                stats.notification_timestamp = self._clock()

    def report_failed(
        self, pending: PendingCheckpoint | None, reason: CheckpointFailureReason, message: str | None = None
    ) -> None:
        """Record that a checkpoint failed.

        Args:
            pending: Which; None if it failed before it was triggered: it is counted, and listed nowhere.
            reason: Why.
            message: The details, for users.
        """
        with self._lock:
            if pending is None:
                self._count(total=1, failed=1)
            elif pending.checkpoint_id in self._in_progress:
                self._in_progress[pending.checkpoint_id].epoch = pending.epoch
                self._fail(pending.checkpoint_id, reason, message, self._clock())

    def withdraw(self, checkpoint_id: int) -> None:
        """Remove a pending checkpoint that isn't wanted any more: it has neither completed nor failed."""
        with self._lock:
            if self._in_progress.pop(checkpoint_id, None) is not None:
                self._history.pop(checkpoint_id)
                self._count(total=-1)

    def give_up_in_progress(self, reason: CheckpointFailureReason, message: str, timestamp: int) -> None:
        """Record that the coordinator is gone, and that its pending checkpoints have failed.

        Args:
            reason: Why.
            message: The details, for users.
            timestamp: Since when, ms since 1970.
        """
        with self._lock:
            for checkpoint_id, stats in list(self._in_progress.items()):
                self._fail(checkpoint_id, reason, message, max(timestamp, stats.trigger_timestamp))

    def _fail(self, checkpoint_id: int, reason: CheckpointFailureReason, message: str | None, timestamp: int) -> None:
        stats = self._in_progress.pop(checkpoint_id)
        self._count(failed=1)
        self._ended(stats.failed(reason, message, timestamp), "failed")

    def _ended(self, stats: CheckpointStats, kind: str) -> None:
        self._latest[kind] = stats
        self._history.replace(stats.checkpoint_id, stats)

    def _count(self, **more: int) -> None:
        self._counts = replace(self._counts, **{name: getattr(self._counts, name) + one for name, one in more.items()})

    def report_restored(self, checkpoint_id: int, is_savepoint: bool, path: str) -> None:
        """Record that an attempt starts from a checkpoint or savepoint."""
        with self._lock:
            now = self._clock()
            self._count(restored=1)
            self._restored = RestoredCheckpointStats(checkpoint_id, now, is_savepoint, path)
            stats = self._find(checkpoint_id)
            if stats is not None and stats.is_savepoint == is_savepoint:
                stats.restore_timestamp = now

    def report_discarded(self, checkpoint_ids: Iterable[int]) -> None:
        """Record that completed checkpoints were deleted."""
        with self._lock:
            for checkpoint_id in checkpoint_ids:
                stats = self._find(checkpoint_id)
                if isinstance(stats, CompletedCheckpointStats):
                    stats.discarded = True

    # -- telling

    def snapshot(self) -> CheckpointStatsSnapshot:
        """Return all of it; the checkpoints in it keep changing while this tracker does."""
        with self._lock:
            return CheckpointStatsSnapshot(
                counts=replace(self._counts, in_progress=len(self._in_progress)),
                summaries=self._summaries,
                latest=dict(self._latest),
                restored=self._restored,
                history=[stats for _, stats in self._history.items()][::-1],
            )

    def to_rest(self, limit: int | None = None, before: int | None = None) -> dict[str, Any]:
        """Return the answer to `GET /jobs/:id/checkpoints`, the last checkpoint first.

        Args:
            limit: How many are listed; None for all.
            before: Only those with a lower id are; None for all.
        """
        with self._lock:
            return rest_json.overview(self.snapshot(), limit, before).to_plain()

    def samples(self) -> list[MetricSample]:
        """Return the metrics of checkpoints, by Flink's names."""
        with self._lock:
            return checkpoint_samples(self.snapshot())

    def subtask_samples(self) -> dict[tuple[str, int], list[MetricSample]]:
        """Return the metrics of each subtask's part of the last completed checkpoint, by (uid, subtask)."""
        with self._lock:
            last = self.snapshot().latest_completed
            tasks = [] if last is None else last.tasks.values()
            return {(task.uid, index): subtask_samples(one) for task in tasks for index, one in task.subtasks.items()}

    def details(self, checkpoint_id: int) -> dict[str, Any] | None:
        """Return the answer to `GET /jobs/:id/checkpoints/details/:cid`; None if it is not listed any more."""
        with self._lock:
            stats = self._find(checkpoint_id)
            return None if stats is None else rest_json.checkpoint(stats, with_tasks=True).to_plain()

    def subtask_details(self, checkpoint_id: int, vertex_id: str) -> dict[str, Any] | None:
        """Return the answer to `.../details/:cid/subtasks/:vertexid`; None if there is no such checkpoint or operator."""
        with self._lock:
            stats = self._find(checkpoint_id)
            for task in [] if stats is None else stats.tasks.values():
                if stats is not None and task.vertex_id == vertex_id:
                    return rest_json.task_with_subtasks(stats, task).to_plain()
        return None

    def _find(self, checkpoint_id: int) -> CheckpointStats | None:
        return self._known().get(checkpoint_id)

    def _known(self) -> dict[int, CheckpointStats]:
        latest = {one.checkpoint_id: one for one in self._latest.values() if one is not None}
        return {**latest, **self._in_progress, **dict(self._history.items())}

    # -- from driver to driver

    def to_plain(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        with self._lock:
            return KeptStatistics(
                counts=self._counts,
                summaries=self._summaries,
                checkpoints=[stats for _, stats in sorted(self._known().items())],
                history=[checkpoint_id for checkpoint_id, _ in self._history.items()],
                latest={name: None if one is None else one.checkpoint_id for name, one in self._latest.items()},
                restored=self._restored,
            ).to_plain()

    @classmethod
    def from_plain(cls, plain: object, history_size: int, clock: Callable[[], int]) -> CheckpointStatsTracker:
        """Rebuild it.

        Args:
            plain: What `to_plain` gave.
            history_size: How many checkpoints are listed from now on.
            clock: Returns the current time, ms since 1970.

        Raises:
            CorruptSnapshotError: It is something else.
        """
        kept = KeptStatistics.from_plain(plain)
        tracker = cls(history_size, clock)
        tracker._counts = kept.counts
        tracker._summaries = {name: take(kept.summaries, name) for name in _SUMMARIZED}
        known = {stats.checkpoint_id: stats for stats in kept.checkpoints}
        for kind in _LATEST:
            number = take(kept.latest, kind)
            tracker._latest[kind] = None if number is None else _of(known, number)
        for number in kept.history:
            tracker._history.put(number, _of(known, number))
        tracker._in_progress = {n: stats for n, stats in known.items() if isinstance(stats, PendingCheckpointStats)}
        tracker._restored = kept.restored
        return tracker


def _of(known: dict[int, CheckpointStats], checkpoint_id: int) -> CheckpointStats:
    if checkpoint_id not in known:
        raise unsound(what=f"checkpoint {checkpoint_id} is named and not there")
    return known[checkpoint_id]


def _summarized(stats: CheckpointStats) -> dict[str, int | None]:
    """Return the values that a completed checkpoint adds to the summary; None adds nothing."""
    found = stats.figures
    values = {name: getattr(found, name) for name in _SUMMARIZED}
    return {**values, "end_to_end_duration": max(0, found.end_to_end_duration)}
