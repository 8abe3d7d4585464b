"""The statistics of one checkpoint, pending or ended: acknowledgements, durations, and sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pystate.common.overrides import override
from pystate.common.text.plain_data import MAX_INT, Bounds, Natural, entry, left_out, unless_none
from pystate.core.snapshot.plain import as_map, take, take_enum, take_int, take_list
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.stats.subtask_columns import SubtaskColumns, column_of
from pystate.runtime.checkpoint.subtask_metrics import StatsData, SubtaskCheckpointMetrics
from pystate.runtime.rest.checkpoint_messages import CheckpointFigures, CheckpointStatsStatus

UNKNOWN = -1
"""The value for numbers of Flink's REST that are unknown."""

_MAX_SUBTASKS = 1 << 15

C = TypeVar("C", bound="CheckpointStats")


@dataclass(frozen=True)
class CheckpointedTask:
    """An operator in the statistics.

    Attributes:
        uid: Its uid.
        vertex_id: Its id in Flink's REST, 32 hex digits.
        name: Its displayed name.
    """

    uid: str
    vertex_id: str
    name: str


@dataclass
class TaskStateStats(StatsData):
    """One operator's part of a checkpoint."""

    uid: str
    vertex_id: str
    name: str
    num_subtasks: Annotated[int, Bounds(0, _MAX_SUBTASKS)]
    subtasks: Mapping[int, SubtaskCheckpointMetrics] = left_out(default_factory=dict)

    def acknowledge(self, index: int, metrics: SubtaskCheckpointMetrics) -> None:
        """Take the metrics of a subtask."""
        if not isinstance(self.subtasks, dict):
            self.subtasks = dict(self.subtasks)
        self.subtasks[index] = metrics

    def column(self, name: str) -> Sequence[Any]:
        """Return one number of each subtask that has acknowledged."""
        return column_of(self.subtasks, name)

    @property
    def last_subtask(self) -> int | None:
        """The subtask that acknowledged last; None before the first has."""
        times = self.column("ack_timestamp")
        return max(zip(times, self.subtasks, strict=True))[1] if times else None

    def to_columns(self, triggered: int) -> dict[str, Any]:
        """Return it as plain data, with subtasks in columns.

        Args:
            triggered: What times of acknowledgements count from, ms since 1970.
        """
        columns = SubtaskColumns.of(self.subtasks, triggered)
        acknowledged = "all" if len(columns) == self.num_subtasks else list(columns)
        return {**self.to_plain(), "acknowledged": acknowledged, **columns.to_plain()}

    @classmethod
    def from_columns(cls, plain: object, triggered: int) -> TaskStateStats:
        """Rebuild it.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "the statistics of a task")
        task = cls.from_plain(data)
        indices: Sequence[int] = range(task.num_subtasks)
        if take(data, "acknowledged") != "all":
            last = task.num_subtasks - 1
            indices = take_list(data, "acknowledged", lambda index: take_int({"subtask": index}, "subtask", 0, last))
        task.subtasks = SubtaskColumns.from_plain(data, indices, triggered)
        return task

    def ended(self, triggered: int) -> TaskStateStats:
        """Return it as it is kept when no more subtasks acknowledge."""
        return replace(self, subtasks=SubtaskColumns.of(self.subtasks, triggered))


@dataclass(kw_only=True)
class CheckpointStats(StatsData):
    """The statistics of one checkpoint; see the classes below.

    Attributes:
        tasks: The tasks by uid, in the order of the job.
        restore_timestamp: When the job last started from it; None if it never did.
    """

    status: ClassVar[CheckpointStatsStatus]
    # what the file's version 1 has of every checkpoint, of whatever kind
    _always_kept: ClassVar[dict[str, Any]] = {"discarded": False, "failure_timestamp": 0, "failure_message": None}

    checkpoint_id: Natural = entry("id")
    is_savepoint: bool
    savepoint_format: str | None
    trigger_timestamp: Natural
    epoch: Annotated[int, Bounds(-1, MAX_INT)] | None = None
    path: str | None = None
    restore_timestamp: Natural | None = None
    tasks: dict[str, TaskStateStats] = left_out(default_factory=dict)

    @property
    def is_unaligned(self) -> bool:
        """Whether its barrier has overtaken records in any subtask."""
        return any(any(task.column("unaligned")) for task in self.tasks.values())

    @property
    def end_to_end_duration(self) -> int:
        """From the trigger to the last acknowledgement so far, in ms; UNKNOWN before the first."""
        return self.duration_until(latest_ack(self.tasks.values()))

    @property
    def figures(self) -> CheckpointFigures:
        """The aggregates over all subtasks."""
        return self.figures_of(self.tasks.values(), self.end_to_end_duration)

    def figures_of(self, tasks: Collection[TaskStateStats], duration: int) -> CheckpointFigures:
        """Return the aggregates over the subtasks of some tasks.

        Args:
            tasks: The tasks.
            duration: How long it took from end to end, in ms.
        """

        def total(name: str) -> int:
            return sum(sum(task.column(name)) for task in tasks)

        def largest(name: str) -> int | None:
            known = [number for task in tasks for number in task.column(name)]
            return None if None in known else max(known, default=None)

        return CheckpointFigures(
            id=self.checkpoint_id,
            status=self.status,
            latest_ack_timestamp=latest_ack(tasks),
            checkpointed_size=total("checkpointed_size"),
            state_size=total("state_size"),
            end_to_end_duration=duration,
            alignment_buffered=total("buffered_data"),
            processed_data=total("processed_data"),
            persisted_data=total("persisted_data"),
            num_subtasks=sum(task.num_subtasks for task in tasks),
            num_acknowledged_subtasks=sum(len(task.subtasks) for task in tasks),
            sync_duration=largest("sync_ms"),
            async_duration=largest("async_ms"),
            start_delay=largest("start_delay_ms"),
            alignment_duration=largest("alignment_ms"),
        )

    def duration_until(self, timestamp: int) -> int:
        """Return the ms from the trigger to a moment; UNKNOWN if the moment is."""
        return UNKNOWN if timestamp == UNKNOWN else max(0, timestamp - self.trigger_timestamp)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        tasks = [task.to_columns(self.trigger_timestamp) for task in self.tasks.values()]
        return {**self._always_kept, "status": self.status.value, **super().to_plain(), "tasks": tasks}

    @classmethod
    def from_plain(cls: type[C], plain: object) -> C:
        """Rebuild a checkpoint of whichever class it is.

        Raises:
            CorruptSnapshotError: It isn't one.
        """
        data = as_map(plain, "the statistics of a checkpoint")
        kind = _KINDS[take_enum(data, "status", CheckpointStatsStatus)]
        if cls is not kind:
            return cast(C, kind.from_plain(data))
        stats = super().from_plain(data)
        tasks = take_list(data, "tasks", lambda task: TaskStateStats.from_columns(task, stats.trigger_timestamp))
        stats.tasks = {task.uid: task for task in tasks}
        return stats

    def _ended(self) -> dict[str, Any]:
        tasks = {uid: task.ended(self.trigger_timestamp) for uid, task in self.tasks.items()}
        return {**{one.name: getattr(self, one.name) for one in fields(CheckpointStats)}, "tasks": tasks}


@dataclass(kw_only=True)
class PendingCheckpointStats(CheckpointStats):
    """A checkpoint in progress.

    Attributes:
        waits_for_epoch: The epoch whose end its barrier waits for, while it does; not kept from driver to driver.
        waits_since: Since when, ms since 1970.
    """

    status = CheckpointStatsStatus.IN_PROGRESS
    waits_for_epoch: int | None = left_out(None)
    waits_since: int = left_out(0)

    def completed(self) -> CompletedCheckpointStats:
        """Return it as a completed checkpoint."""
        return CompletedCheckpointStats(**self._ended())

    def failed(self, reason: CheckpointFailureReason, message: str | None, timestamp: int) -> FailedCheckpointStats:
        """Return it as a failed checkpoint.

        Args:
            reason: Why.
            message: The particulars, for people.
            timestamp: When, ms since 1970.
        """
        told = reason.message if not message else f"{reason.message} {message}"
        return FailedCheckpointStats(
            **self._ended(), failure_timestamp=timestamp, failure_message=told, failure_reason=reason.name
        )


class _EndedCheckpointStats(CheckpointStats):
    """A checkpoint of which no more subtasks acknowledge: its aggregates are computed once."""

    @cached_property
    @override
    def is_unaligned(self) -> bool:
        return super().is_unaligned

    @cached_property
    @override
    def figures(self) -> CheckpointFigures:
        return super().figures


@dataclass(kw_only=True)
class CompletedCheckpointStats(_EndedCheckpointStats):
    """A checkpoint that completed; `discarded` once it has been deleted.

    Attributes:
        completion_timestamp: When its metadata was written, ms since 1970; None of one that an older driver completed.
        notification_timestamp: When the last function had been notified; None of a savepoint, and while some aren't.
    """

    status = CheckpointStatsStatus.COMPLETED
    discarded: bool = False
    completion_timestamp: Natural | None = unless_none(default=None)
    notification_timestamp: Natural | None = unless_none(default=None)


@dataclass(kw_only=True)
class FailedCheckpointStats(_EndedCheckpointStats):
    """A checkpoint that failed, with the time (ms since 1970) and the reason.

    Attributes:
        failure_reason: The reason's name in Flink's list; None of one that failed before it was written down.
    """

    status = CheckpointStatsStatus.FAILED
    failure_timestamp: Natural
    failure_message: str | None
    failure_reason: str | None = unless_none(default=None)

    @property
    def end_to_end_duration(self) -> int:
        """From the trigger to the failure, in ms."""
        return self.duration_until(self.failure_timestamp)


_KINDS: dict[CheckpointStatsStatus, type[CheckpointStats]] = {
    kind.status: kind for kind in (PendingCheckpointStats, CompletedCheckpointStats, FailedCheckpointStats)
}


@dataclass(frozen=True)
class RestoredCheckpointStats(StatsData):
    """The last restore."""

    checkpoint_id: Natural
    restore_timestamp: Natural
    is_savepoint: bool
    path: str


@dataclass(frozen=True)
class CheckpointStatsCounts(StatsData):
    """The counts of checkpoints and savepoints; those in progress are listed in the file."""

    restored: Natural = 0
    total: Natural = 0
    in_progress: int = left_out(0)
    completed: Natural = 0
    failed: Natural = 0


def latest_ack(tasks: Iterable[TaskStateStats]) -> int:
    """Return when the last subtask of some tasks acknowledged, ms since 1970; UNKNOWN where none has."""
    return max((at for task in tasks for at in task.column("ack_timestamp")), default=UNKNOWN)
