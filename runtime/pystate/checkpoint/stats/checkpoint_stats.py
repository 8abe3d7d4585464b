"""What is known of a checkpoint afterwards: who acknowledged when, how long it took, how large it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pystate.checkpoint.plain import MAX_INT, as_map, take, take_int


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


@dataclass(frozen=True)
class CheckpointedTask:
    """An operator as checkpoints know it.

    Attributes:
        uid: Its uid.
        vertex_id: Its id in Flink's REST, 32 hex digits.
        name: What people call it.
    """

    uid: str
    vertex_id: str
    name: str


@dataclass
class TaskStateStats:
    """One operator's part of a checkpoint."""

    uid: str
    vertex_id: str
    name: str
    num_subtasks: int
    subtasks: dict[int, SubtaskCheckpointMetrics] = field(default_factory=dict)


@dataclass
class CheckpointStats:
    """One checkpoint. `discarded` belongs to a completed one, `failure_...` to a failed one.

    Attributes:
        tasks: By uid, in the order of the job.
        restore_timestamp: When the job last started from it; None where it never did.
        waits_for_epoch: The epoch whose end its barrier waits for, while it does; not kept from driver to driver.
        waits_since: Since when, ms since 1970.
    """

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
    restore_timestamp: int | None = None
    waits_for_epoch: int | None = None
    waits_since: int = 0

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
