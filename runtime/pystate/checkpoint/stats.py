"""Statistics of checkpoints: what each subtask measured, the last checkpoints, and a summary of all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from pystate.checkpoint import stats_json
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.plain import MAX_INT, as_map, take, take_int
from pystate.checkpoint.stats_summary import StatsSummary

if TYPE_CHECKING:
    from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
    from pystate.checkpoint.pending_checkpoint import PendingCheckpoint


class CheckpointStatsStatus(Enum):
    """Where a checkpoint stands."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class SubtaskCheckpointMetrics:
    """What one subtask measured at a checkpoint; times in ms, sizes in bytes.

    Attributes:
        ack_timestamp: When it acknowledged, ms since 1970.
        sync_ms: How long the part took that stops processing.
        async_ms: How long the part took that doesn't.
        start_delay_ms: From the trigger to the moment the barrier was there.
        alignment_ms: From the first to the last upstream partition that had delivered its last row; None where unknown.
        checkpointed_size: Bytes written for this checkpoint.
        state_size: Bytes of state it stands for.
        processed_data: Bytes processed while the barriers were being aligned.
        persisted_data: Bytes of records in flight that were written.
    """

    ack_timestamp: int
    sync_ms: int
    async_ms: int
    start_delay_ms: int
    alignment_ms: int | None
    checkpointed_size: int
    state_size: int
    processed_data: int = 0
    persisted_data: int = 0

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))

    @classmethod
    def from_plain(cls, plain: object) -> SubtaskCheckpointMetrics:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "the metrics of a subtask")
        alignment = None if take(data, "alignment_ms") is None else take_int(data, "alignment_ms")
        names = [name for name in cls.__dataclass_fields__ if name != "alignment_ms"]
        return cls(alignment_ms=alignment, **{name: take_int(data, name, 0, MAX_INT) for name in names})


@dataclass
class TaskStateStats:
    """One operator's part of a checkpoint."""

    uid: str
    num_subtasks: int
    subtasks: dict[int, SubtaskCheckpointMetrics] = field(default_factory=dict)


@dataclass
class CheckpointStats:
    """One checkpoint. `external_path` and `discarded` belong to a completed one, `failure_...` to a failed one."""

    checkpoint_id: int
    is_savepoint: bool
    savepoint_format: str | None
    trigger_timestamp: int
    tasks: dict[str, TaskStateStats]
    status: CheckpointStatsStatus = CheckpointStatsStatus.IN_PROGRESS
    epoch: int | None = None
    path: str | None = None
    discarded: bool = False
    failure_timestamp: int = 0
    failure_message: str | None = None

    def acknowledged(self) -> list[SubtaskCheckpointMetrics]:
        """Return the metrics of all subtasks that acknowledged."""
        return [metrics for task in self.tasks.values() for metrics in task.subtasks.values()]


@dataclass(frozen=True)
class RestoredCheckpointStats:
    """The last restore."""

    checkpoint_id: int
    restore_timestamp: int
    is_savepoint: bool
    path: str


class CheckpointStatsTracker:
    """Keeps the last checkpoints, and numbers over all.

    Args:
        history_size: How many checkpoints are listed.
        clock: Now, ms since 1970.
    """

    def __init__(self, history_size: int, clock: Callable[[], int]) -> None:
        self._history_size = history_size
        self._clock = clock
        self._history: OrderedDict[int, CheckpointStats] = OrderedDict()
        self._in_progress: dict[int, CheckpointStats] = {}
        self._latest_completed: CheckpointStats | None = None
        self._latest_savepoint: CheckpointStats | None = None
        self._latest_failed: CheckpointStats | None = None
        self._restored: RestoredCheckpointStats | None = None
        self._counts = {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0}
        self._summaries = {name: StatsSummary() for name in stats_json.SUMMARY_FIELDS}

    def report_pending(self, pending: PendingCheckpoint) -> None:
        """Take note of a checkpoint that was triggered."""
        tasks: dict[str, TaskStateStats] = {}
        for uid, _ in sorted(pending.tasks):
            tasks.setdefault(uid, TaskStateStats(uid, 0)).num_subtasks += 1
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
        self._history[stats.checkpoint_id] = stats
        while len(self._history) > self._history_size:
            self._history.popitem(last=False)

    def report_ack(self, checkpoint_id: int, uid: str, subtask: int, metrics: SubtaskCheckpointMetrics) -> None:
        """Take note of a subtask's acknowledgement; one of a checkpoint that has ended comes too late to count."""
        stats = self._in_progress.get(checkpoint_id)
        if stats is not None and uid in stats.tasks:
            stats.tasks[uid].subtasks[subtask] = metrics

    def report_alignment(self, checkpoint_id: int, milliseconds: Mapping[str, int | None]) -> None:
        """Take note, by uid, of alignment durations that were measured outside of the subtasks."""
        stats = self._in_progress.get(checkpoint_id)
        for task in [] if stats is None else stats.tasks.values():
            measured = milliseconds.get(task.uid)
            for index, metrics in task.subtasks.items():
                if metrics.alignment_ms is None and measured is not None:
                    task.subtasks[index] = replace(metrics, alignment_ms=measured)

    def report_completed(self, completed: CompletedCheckpoint) -> None:
        """Take note that a checkpoint completed."""
        stats = self._in_progress.pop(completed.checkpoint_id, None)
        if stats is None:
            return
        stats.status = CheckpointStatsStatus.COMPLETED
        stats.epoch = completed.epoch
        stats.path = completed.path
        self._counts["completed"] += 1
        if stats.is_savepoint:
            self._latest_savepoint = stats
        else:
            self._latest_completed = stats
        for name, summary in self._summaries.items():
            summary.add(stats_json.SUMMARY_FIELDS[name](stats))

    def report_failed(
        self, pending: PendingCheckpoint | None, reason: CheckpointFailureReason, message: str | None = None
    ) -> None:
        """Take note that a checkpoint failed.

        Args:
            pending: Which; None where it failed before it was triggered: it is counted, and listed nowhere.
            reason: Why.
            message: The particulars, for people.
        """
        stats = None if pending is None else self._in_progress.pop(pending.checkpoint_id, None)
        if stats is None:
            if pending is None:
                self._counts["total"] += 1
                self._counts["failed"] += 1
            return
        stats.status = CheckpointStatsStatus.FAILED
        stats.epoch = None if pending is None else pending.epoch
        stats.failure_timestamp = self._clock()
        stats.failure_message = reason.message if not message else f"{reason.message} {message}"
        self._counts["failed"] += 1
        self._latest_failed = stats

    def report_restored(self, checkpoint_id: int, is_savepoint: bool, path: str) -> None:
        """Take note that an attempt starts from a checkpoint or savepoint."""
        self._counts["restored"] += 1
        self._restored = RestoredCheckpointStats(checkpoint_id, self._clock(), is_savepoint, path)

    def report_discarded(self, checkpoint_ids: Iterable[int]) -> None:
        """Take note that completed checkpoints were deleted."""
        for checkpoint_id in checkpoint_ids:
            stats = self._find(checkpoint_id)
            if stats is not None:
                stats.discarded = True

    def to_rest(self) -> dict[str, Any]:
        """Return the answer to `GET /jobs/:id/checkpoints`, the last checkpoint first."""
        return stats_json.overview(
            {**self._counts, "in_progress": len(self._in_progress)},
            {name: summary.to_rest() for name, summary in self._summaries.items()},
            self._latest_completed,
            self._latest_savepoint,
            self._latest_failed,
            self._restored,
            list(reversed(self._history.values())),
        )

    def details(self, checkpoint_id: int) -> dict[str, Any] | None:
        """Return the answer to `GET /jobs/:id/checkpoints/details/:cid`; None where it is not listed any more."""
        stats = self._find(checkpoint_id)
        return None if stats is None else stats_json.checkpoint(stats, with_tasks=True)

    def subtask_details(self, checkpoint_id: int, uid: str) -> dict[str, Any] | None:
        """Return the answer to `.../details/:cid/subtasks/:operator`; None where there is no such checkpoint or operator."""
        stats = self._find(checkpoint_id)
        if stats is None or uid not in stats.tasks:
            return None
        return stats_json.task_with_subtasks(stats, stats.tasks[uid])

    def _find(self, checkpoint_id: int) -> CheckpointStats | None:
        known = self._history.get(checkpoint_id) or self._in_progress.get(checkpoint_id)
        if known is not None:
            return known
        for stats in (self._latest_completed, self._latest_savepoint, self._latest_failed):
            if stats is not None and stats.checkpoint_id == checkpoint_id:
                return stats
        return None
