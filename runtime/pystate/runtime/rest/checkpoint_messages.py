"""A job's checkpoints."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pystate.common.text.plain_data import entry, unless_none
from pystate.runtime.rest.message import RestMessage


class CheckpointStatsStatus(Enum):
    """Where a checkpoint stands."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


CheckpointKind = Literal["CHECKPOINT", "UNALIGNED_CHECKPOINT", "SAVEPOINT"]
"""As Flink has it."""


class CheckpointFigures(RestMessage):
    """What the subtasks of a checkpoint, or of one operator in it, say together.

    The largest of all subtasks, the last four, are null where they aren't known of each.

    Attributes:
        id: The checkpoint.
        status: Where the checkpoint stands.
        latest_ack_timestamp: When the last subtask so far acknowledged; -1 before the first.
        checkpointed_size: Bytes that were written for it.
        state_size: Bytes that it refers to.
        end_to_end_duration: From the trigger to that acknowledgement, or to the failure; -1 before the first.
        alignment_buffered: Bytes that were held back during the alignment.
        processed_data: Bytes that were processed during the alignment.
        persisted_data: Bytes in flight that are in it.
        num_subtasks: Subtasks that take part.
        num_acknowledged_subtasks: Those that have acknowledged.
        sync_duration: The longest synchronous part.
        async_duration: The longest asynchronous part.
        start_delay: The longest way of the barrier.
        alignment_duration: The longest alignment.
    """

    id: int
    status: CheckpointStatsStatus
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    sync_duration: int | None = None
    async_duration: int | None = None
    start_delay: int | None = None
    alignment_duration: int | None = None


class CheckpointDuration(RestMessage):
    """How long the two parts of a checkpoint took, in ms.

    Attributes:
        sync: The synchronous part.
        asynchronous: The asynchronous part.
    """

    sync: int
    asynchronous: int = entry("async")


class CheckpointAlignment(RestMessage):
    """What happened while barriers were aligned.

    Attributes:
        buffered: Bytes that were held back: their channel's barrier had come, and that of another one had not.
        processed: Bytes that were processed.
        persisted: Bytes in flight that are in the checkpoint.
        duration: In ms; -1 where it isn't known.
    """

    buffered: int
    processed: int
    persisted: int
    duration: int


class CompletedSubtaskCheckpointStatistics(RestMessage):
    """A subtask that has acknowledged.

    Attributes:
        index: Its number, from 0.
        start_delay: How long the barrier took to it.
        unaligned_checkpoint: Whether the barrier has overtaken records here.
    """

    class_name: Literal["completed"] = entry("className", default="completed")
    index: int
    ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int
    state_size: int
    checkpoint: CheckpointDuration
    alignment: CheckpointAlignment
    start_delay: int
    unaligned_checkpoint: bool = False
    aborted: bool = False
    status: Literal["completed"] = "completed"


class TaskCheckpointStatistics(CheckpointFigures):
    """An operator's part of a checkpoint; Flink has no `uid`, `name` and `last_subtask`.

    Attributes:
        uid: Its uid.
        name: What people call it.
        last_subtask: The subtask that acknowledged last; not there where all of them are listed.
    """

    uid: str = ""
    name: str = ""
    last_subtask: CompletedSubtaskCheckpointStatistics | None = unless_none(default=None)


class CheckpointStatistics(CheckpointFigures):
    """A checkpoint; Flink has none of the fields from `failure_reason` on.

    Attributes:
        class_name: Its status in small letters.
        checkpoint_type: `UNALIGNED_CHECKPOINT` as soon as the barrier has overtaken records in any subtask.
        savepoint_format: How a savepoint is written; null of a checkpoint.
        tasks: Its operators by vertex, where one checkpoint is asked for.
        external_path: Where it is, once it is complete.
        discarded: Whether it has been deleted since, once it is complete.
        failure_timestamp: When it failed.
        failure_message: Why it failed.
        failure_reason: The name of the reason in Flink's list, such as `CHECKPOINT_EXPIRED`.
        waits_for_epoch: The epoch whose end its barrier waits for, while it does.
        waits_since: Since when.
        completion_timestamp: When its metadata was written, after the last acknowledgement: since then it can be restored.
        notification_timestamp: When all functions had been notified of that; not there of a savepoint, and while some have
            not been.
        epoch: After which its barrier stands.
        path: Where it is, or would have been.
        restore_timestamp: When the job last started from it; null where it never did.
    """

    class_name: Literal["in_progress", "completed", "failed"] = entry("className")
    is_savepoint: bool
    savepoint_format: str | None = entry("savepointFormat", default=None)
    trigger_timestamp: int
    checkpoint_type: CheckpointKind = "CHECKPOINT"
    tasks: dict[str, TaskCheckpointStatistics]
    external_path: str | None = unless_none(default=None)
    discarded: bool | None = unless_none(default=None)
    failure_timestamp: int | None = unless_none(default=None)
    failure_message: str | None = unless_none(default=None)
    failure_reason: str | None = unless_none(default=None)
    waits_for_epoch: int | None = unless_none(default=None)
    waits_since: int | None = unless_none(default=None)
    completion_timestamp: int | None = unless_none(default=None)
    notification_timestamp: int | None = unless_none(default=None)
    epoch: int | None = None
    path: str | None = None
    restore_timestamp: int | None = None


class StatsSummaryDto(RestMessage):
    """A figure over several: percentiles are of the last 10,000, and "NaN" where they would say nothing.

    Attributes:
        p999: The 99.9th percentile.
    """

    min: int
    max: int
    avg: int
    p50: float | Literal["NaN"] = "NaN"
    p90: float | Literal["NaN"] = "NaN"
    p95: float | Literal["NaN"] = "NaN"
    p99: float | Literal["NaN"] = "NaN"
    p999: float | Literal["NaN"] = "NaN"

    @property
    def has_percentiles(self) -> bool:
        """Whether they say anything."""
        return self.p50 != "NaN"


class CheckpointsSummary(RestMessage):
    """Figures over all completed checkpoints."""

    checkpointed_size: StatsSummaryDto
    state_size: StatsSummaryDto
    end_to_end_duration: StatsSummaryDto
    alignment_buffered: StatsSummaryDto
    processed_data: StatsSummaryDto
    persisted_data: StatsSummaryDto
    sync_duration: StatsSummaryDto
    async_duration: StatsSummaryDto
    start_delay: StatsSummaryDto
    alignment_duration: StatsSummaryDto


class CheckpointCounts(RestMessage):
    """How many checkpoints and savepoints there were.

    Attributes:
        restored: Restores.
    """

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class RestoredCheckpointStatistics(RestMessage):
    """The last restore."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str | None


class LatestCheckpoints(RestMessage):
    """The last checkpoints; null where there is none.

    Attributes:
        completed: The last checkpoint that completed.
        savepoint: The last savepoint that completed.
        failed: The last one that failed.
        restored: The last restore.
    """

    completed: CheckpointStatistics | None = None
    savepoint: CheckpointStatistics | None = None
    failed: CheckpointStatistics | None = None
    restored: RestoredCheckpointStatistics | None = None


class CheckpointingStatistics(RestMessage):
    """A job's checkpoints.

    Attributes:
        counts: How many there were.
        summary: Figures over all that completed.
        latest: The last one of each kind.
        history: The last ones of all kinds, the newest first.
    """

    counts: CheckpointCounts
    summary: CheckpointsSummary
    latest: LatestCheckpoints
    history: list[CheckpointStatistics]


class PendingSubtaskCheckpointStatistics(RestMessage):
    """A subtask that has not acknowledged, or never will."""

    class_name: Literal["pending"] = entry("className", default="pending")
    index: int
    status: Literal["pending_or_failed"] = "pending_or_failed"


class CheckpointDurationSummary(RestMessage):
    """How long the two parts of a checkpoint took, in ms.

    Attributes:
        sync: The synchronous part.
        asynchronous: The asynchronous part.
    """

    sync: StatsSummaryDto
    asynchronous: StatsSummaryDto = entry("async")


class CheckpointAlignmentSummary(RestMessage):
    """What happened while barriers were aligned."""

    buffered: StatsSummaryDto
    processed: StatsSummaryDto
    persisted: StatsSummaryDto
    duration: StatsSummaryDto


class TaskCheckpointSummary(RestMessage):
    """Figures over the subtasks of an operator."""

    checkpointed_size: StatsSummaryDto
    state_size: StatsSummaryDto
    end_to_end_duration: StatsSummaryDto
    checkpoint_duration: CheckpointDurationSummary
    alignment: CheckpointAlignmentSummary
    start_delay: StatsSummaryDto


class TaskCheckpointStatisticsWithSubtaskDetails(TaskCheckpointStatistics):
    """An operator's part of a checkpoint, subtask by subtask.

    Attributes:
        summary: Figures over its subtasks.
        subtasks: Each of them.
    """

    summary: TaskCheckpointSummary
    subtasks: list[CompletedSubtaskCheckpointStatistics | PendingSubtaskCheckpointStatistics]


class ExternalizedCheckpointInfo(RestMessage):
    """What is kept of checkpoints when the job ends.

    Attributes:
        enabled: Whether the last one is kept.
        delete_on_cancellation: Whether it is deleted all the same when the job is cancelled.
    """

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(RestMessage):
    """How a job's checkpoints are configured.

    Attributes:
        interval: From trigger to trigger, in ms.
        timeout: After how many ms one fails.
        min_pause: From end to trigger, in ms.
        max_concurrent: How many may be under way.
        externalization: What is kept when the job ends.
    """

    mode: Literal["exactly_once", "at_least_once"]
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: ExternalizedCheckpointInfo
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str
