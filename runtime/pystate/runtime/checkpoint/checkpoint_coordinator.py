"""Coordinates checkpoints: numbers, triggers, completes and aborts them.

The coordinator is the entry point for everything about checkpoints. Each phase of a checkpoint has its own class: a
checkpoint is triggered (`CheckpointTrigger`), gets its place from the engine (`BarrierPlacement`), is acknowledged
(`PendingCheckpoints`), and completes (`CheckpointCompletion`) or fails (`CheckpointFailures`); `CheckpointSchedule` decides
the next step. They share one lock, which is held for decisions, never during access to files, sockets or Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.checkpointing_options import RecoveryClaimMode
from pystate.common.errors import CheckpointFailedError, PystateError
from pystate.common.files.job_files import JobFile
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.core.snapshot.metadata import CheckpointMetadata, CheckpointType, SavepointFormatType
from pystate.core.snapshot.operator_state import TaskState
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.barrier_placement import BarrierPlacement
from pystate.runtime.checkpoint.checkpoint_completion import CheckpointCompletion
from pystate.runtime.checkpoint.checkpoint_failures import CheckpointFailures
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.checkpoint_schedule import CheckpointSchedule
from pystate.runtime.checkpoint.checkpoint_trigger import CheckpointTrigger
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.checkpoint.coordinator_thread import CoordinatorThread
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.id_counter import CheckpointIdCounter
from pystate.runtime.checkpoint.late_acknowledgements import LateAcknowledgements
from pystate.runtime.checkpoint.live_attempt import CheckpointSlots, LiveAttempt
from pystate.runtime.checkpoint.pending_checkpoint import AckResult, PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.checkpoint.request_decider import CheckpointRequestDecider
from pystate.runtime.checkpoint.retention.fallback_snapshot import CheckFallback, any_fallback
from pystate.runtime.checkpoint.retention.restore_points import RestorePoints
from pystate.runtime.checkpoint.settings.checkpoint_settings import CheckpointSettings
from pystate.runtime.checkpoint.snapshot_metadata import JobDescription, write_snapshot
from pystate.runtime.checkpoint.source_cut import SourceCut
from pystate.runtime.checkpoint.stats.checkpoint_stats import CheckpointedTask
from pystate.runtime.checkpoint.stats.file import StatisticsFile
from pystate.runtime.checkpoint.stats.tracker import CheckpointStatsTracker
from pystate.runtime.checkpoint.subtask_metrics import SubtaskCheckpointMetrics
from pystate.runtime.plan.task import TaskSpec

_CLOSE_S = 30.0


class CheckpointCoordinator:
    """Coordinates the checkpoints of one job, over all its attempts.

    Args:
        job: The description of the job in its snapshots.
        configuration: The options in force.
        statistics_file: Where the statistics are kept for the next driver.
        clock: Monotonic seconds.
        ids: Gives the checkpoints' ids.
        check_term: Raises DriverReplacedError if another driver has taken over the job.

    Attributes:
        pending: The pending checkpoints, which the engine places.
        completed_listeners: Called with each checkpoint after which functions may commit; must not block.
        keep_checkpoints, in_memory: See `RestorePoints.keep`; whether checkpoints are lost with this process.
    """

    def __init__(
        self,
        job: JobDescription,
        configuration: Configuration,
        statistics_file: JobFile,
        clock: Callable[[], float] = time.monotonic,
        ids: CheckpointIdCounter | None = None,
        check_term: Callable[[], object] = lambda: None,
    ) -> None:
        self._job = job
        self._settings = settings = CheckpointSettings.of(configuration, job.job_id)
        self._storage = settings.storage
        self._points = points = RestorePoints(settings, job.job_id)
        self.keep_checkpoints, self.in_memory = points.keep, not settings.storage.has_checkpoint_directory
        self._statistics = statistics = StatisticsFile(statistics_file, settings.history_size, current_time_ms)
        self._ids = ids or CheckpointIdCounter()
        self.check_term = check_term
        self._tasks: list[TaskSpec] = []
        self._lock = threading.Condition()
        self._late = late = LateAcknowledgements()
        self._attempt = attempt = LiveAttempt(self._lock, job.job_id)
        self._decider = decider = _decider(settings, clock)
        self.pending = pending = PendingCheckpoints(self._lock, settings, attempt, points.shared, late, statistics, clock)
        self._failures = failures = CheckpointFailures(settings, pending, attempt, points, late, statistics)
        self._trigger = CheckpointTrigger(pending, attempt, failures, self._ids, self._storage, lambda: self.check_term())
        completion = CheckpointCompletion(pending, attempt, decider, failures, points, statistics, self._write)
        self.completed_listeners = completion.listeners
        self._schedule = schedule = CheckpointSchedule(pending, attempt, decider, late, settings.timeout_s, clock)
        self._thread = CoordinatorThread(schedule, attempt, self._trigger, completion, failures, points, settings.timeout_s)

    # -- the job's life

    def recover(self, say: Callable[[str], None], check: CheckFallback = any_fallback) -> None:
        """Recover the checkpoints of an earlier driver of the job, see `RestorePoints.recover`; call it before `start`.

        Args:
            say: Is called with a sentence about a damaged checkpoint that an older one replaces.
            check: Raises if it must not be replaced.
        """
        last = self._statistics.recover(say).snapshot().latest["completed"]  # savepoints aren't missed
        known = None if last is None or getattr(last, "discarded", False) else last.checkpoint_id
        self._ids.continue_above(self._points.recover(say, check, known))

    def has_claimed(self, snapshot: Snapshot) -> bool:
        """Whether an earlier driver of the job has claimed a snapshot.

        Raises:
            SnapshotError: The storage can't tell.
        """
        return self._points.has_claimed(snapshot)

    def start(
        self,
        tasks: list[TaskSpec],
        starting: Snapshot | None,
        mode: RecoveryClaimMode = RecoveryClaimMode.NO_CLAIM,
        job_runs: Callable[[str], bool | None] = lambda _: None,
    ) -> None:
        """Start coordinating for a planned job.

        Args:
            tasks: The job's tasks.
            starting: The snapshot the job was started from; checkpoint ids continue above its id.
            mode: Who owns that snapshot from now on.
            job_runs: Whether a job has not ended; None for an unknown one.

        Raises:
            CheckpointFailedError: Checkpoints are on and there is no place to write them.
            RestoreError: The snapshot is to be claimed, and another job owns it.
            SnapshotError: The storage failed.
        """
        self._tasks = tasks
        self._trigger.describe(tasks)
        self._statistics.tracker.describe_tasks(CheckpointedTask(task.uid, task.vertex_id, task.name) for task in tasks)
        if self._settings.enabled:
            self._storage.initialize()
        if starting is not None:
            self._points.start_from(starting, mode, job_runs)
            self._ids.continue_above(starting.metadata.checkpoint_id)
        self._thread.start()

    def close(self, status: JobStatus) -> None:
        """Stop, and delete the checkpoints that are not retained after the job's end."""
        self.attempt_over(job_ends=status in (JobStatus.CANCELED, JobStatus.FINISHED))
        self._thread.close(_CLOSE_S)
        with self._lock:
            late = self._late.take()
        self._points.discard_failed(late)
        gone = self._points.discard_on(status)
        self._statistics.tracker.report_discarded(checkpoint.checkpoint_id for checkpoint in gone)
        self._statistics.changed()
        self._statistics.close()

    def latest_snapshot(self) -> Snapshot | None:
        """Return the snapshot a new attempt starts from, see `RestorePoints.latest`.

        Waits for a checkpoint whose metadata is being written, so that it doesn't complete unnoticed by the new attempt.
        """
        with self._lock:
            self._lock.wait_for(lambda: not self.pending.finalizing)
            return self._points.latest()

    def ends_at(self, snapshot: Snapshot | None) -> bool:
        """Whether the job ends at a snapshot, see `RestorePoints.ends_at`."""
        return self._points.ends_at(snapshot)

    def give_up_latest(self, error: PystateError, check: CheckFallback = any_fallback) -> bool:
        """Discard the latest checkpoint, which is damaged; see `RestorePoints.check_storage` and `give_up_latest`."""
        self._points.check_storage()
        with self._lock:
            return self._points.give_up_latest(error, check)

    def report_restored(self, snapshot: Snapshot) -> None:
        """Record a restore, for the statistics."""
        is_savepoint = snapshot.metadata.checkpoint_type is CheckpointType.SAVEPOINT
        self._statistics.tracker.report_restored(snapshot.metadata.checkpoint_id, is_savepoint, snapshot.location.uri)
        self._statistics.changed()

    # -- the attempt's life

    @property
    def engine_triggers(self) -> bool:
        """Whether the engine triggers every checkpoint itself, and needs each of them."""
        return self._settings.engine_triggers

    @property
    def task_owned_location(self) -> SnapshotLocation:
        """The location for engine files that belong to the job and not to a checkpoint."""
        return self._storage.task_owned_location

    def attempt_started(
        self, slots: CheckpointSlots, barriers: BarrierPlacement, on_intolerable: Callable[[PystateError], None]
    ) -> None:
        """Start taking checkpoints of an attempt.

        Args:
            slots: Its slots.
            barriers: Where its engine places barriers.
            on_intolerable: Called when more checkpoints failed in a row than is tolerated.
        """
        self._points.delete_orphans(self._ids.next_id)
        with self._lock:
            self._attempt.begin(slots, barriers, on_intolerable)
            self._failures.reset()
            self.pending.restart()
            self._decider.restart()
            self._lock.notify_all()

    def attempt_over(self, slots: CheckpointSlots | None = None, *, job_ends: bool = False) -> None:
        """End the attempt: its checkpoints are aborted, and waiting callers get AttemptOverError.

        Args:
            slots: Its slots; does nothing if another attempt has begun since. None for the current attempt.
            job_ends: The job was cancelled or is finished: a pending checkpoint then doesn't count as failed.
        """
        with self._lock:
            if not self._attempt.end(slots, job_ends=job_ends):
                return
            # if its metadata is being written, it completes, and the next attempt starts from it
            unfinished = [checkpoint for checkpoint in self.pending if not checkpoint.finalizing]
            waiting = self._decider.stop()
            self._lock.notify_all()
        for checkpoint in unfinished:
            self._failures.fail_with_attempt(checkpoint, job_ends=job_ends)
        for request in waiting:
            request.future.set_exception(self._attempt.over())

    # -- asking for checkpoints

    def trigger_checkpoint(self, *, full: bool = False, last: bool = False) -> Future[CompletedCheckpoint]:
        """Request a checkpoint now.

        Args:
            full: Whether it refers to no older one's files, where the job's checkpoints are incremental.
            last: Whether the inputs of all subtasks have ended.
        """
        self._settings.check_streaming(self._job.job_id)
        self._storage.initialize()
        return self.submit(CheckpointRequest(CheckpointType.CHECKPOINT, full=full, last=last))

    def trigger_savepoint(
        self,
        target_directory: str | None,
        *,
        hold: bool,
        message: str | None = None,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> Future[CompletedCheckpoint]:
        """Request a savepoint.

        Args:
            target_directory: Where; None for the configured directory.
            hold: Nothing may follow it, unless it fails.
            message: The user's message in the savepoint.
            format: How keyed state is written.

        Raises:
            CheckpointFailedError: There is neither.
        """
        return self.submit(self.savepoint_request(target_directory, hold=hold, message=message, format=format))

    def savepoint_request(
        self,
        target_directory: str | None,
        *,
        hold: bool,
        message: str | None = None,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CheckpointRequest:
        """Return the request for a savepoint that the engine triggers itself; arguments as in `trigger_savepoint`.

        Raises:
            CheckpointFailedError: There is no directory for it, or the job runs in BATCH mode.
        """
        self._settings.check_streaming(self._job.job_id)
        location = self._storage.savepoint_location(target_directory)
        return CheckpointRequest(CheckpointType.SAVEPOINT, location=location, hold=hold, message=message, format=format)

    def final_checkpoint(self) -> Future[CompletedCheckpoint] | None:
        """Request the last checkpoint of a job whose sources are read; None if checkpoints are off.

        It never comes where the savepoint of a stop completes before it, after which nothing may follow.
        """
        return self.trigger_checkpoint(last=True) if self._settings.enabled else None

    def submit(self, request: CheckpointRequest) -> Future[CompletedCheckpoint]:
        """Enqueue a request; return its future."""
        if (rejected := self._schedule.submit(request)) is not None:
            rejected.future.set_exception(CheckpointFailedError("Too many checkpoints wait already.", hint="wait for one"))
        return request.future

    # -- the engine's and the subtasks' side

    def prepare(self, request: CheckpointRequest) -> PendingCheckpoint:
        """Begin a checkpoint that the engine triggers itself, see `CheckpointTrigger.prepare`.

        Raises:
            PystateError: It can't begin, and has failed.
        """
        return self._trigger.prepare(request)

    def give_up(self, checkpoint: PendingCheckpoint, error: PystateError) -> None:
        """Fail a checkpoint that the engine triggered itself and can't place."""
        self._failures.fail(checkpoint, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, error)

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> AckResult:
        """Process the acknowledgement of a subtask."""
        return self.pending.acknowledge(checkpoint_id, uid, subtask, state, metrics)

    def decline(self, checkpoint_id: int, error: PystateError, reason: CheckpointFailureReason) -> None:
        """Process the failure of a subtask's part of a checkpoint."""
        self.pending.decline(checkpoint_id, error, reason)

    # -- what came of them

    def savepoint_progress(self) -> dict[str, int]:
        """Return the progress of the current savepoint, see `PendingCheckpoints.savepoint_progress`."""
        return self.pending.savepoint_progress(self._trigger.subtask_count)

    @property
    def tracker(self) -> CheckpointStatsTracker:
        """The statistics of the job's checkpoints."""
        return self._statistics.tracker

    def statistics(self, limit: int | None = None, before: int | None = None) -> dict[str, Any]:
        """Return the statistics as Flink's REST has them.

        Args:
            limit: How many checkpoints are listed, the newest first; None for all.
            before: Only those with a lower id are; None for all.
        """
        return self._statistics.tracker.to_rest(limit, before)

    def statistics_of(self, checkpoint_id: int) -> dict[str, Any] | None:
        """Return one checkpoint's statistics as Flink's REST has them; None if it isn't listed."""
        return self._statistics.tracker.details(checkpoint_id)

    def statistics_of_subtasks(self, checkpoint_id: int, vertex_id: str) -> dict[str, Any] | None:
        """Return the statistics of an operator's subtasks; None if the checkpoint or the operator isn't listed."""
        return self._statistics.tracker.subtask_details(checkpoint_id, vertex_id)

    def _write(self, checkpoint: PendingCheckpoint, cut: SourceCut) -> CheckpointMetadata:
        self.check_term()  # as late as possible: the next driver starts from what is complete
        threshold = self._settings.inline_threshold(checkpoint.location)
        parent, settled = self._points.parent, self._points.shared.settled
        return write_snapshot(checkpoint, checkpoint.location, cut, self._job, self._tasks, parent, threshold, settled)


def _decider(settings: CheckpointSettings, clock: Callable[[], float]) -> CheckpointRequestDecider[CheckpointRequest]:
    return CheckpointRequestDecider(
        lambda: int(clock() * 1000),
        lambda: CheckpointRequest(CheckpointType.CHECKPOINT),
        interval_ms=settings.interval_ms,
        min_pause_ms=settings.min_pause_ms,
        max_concurrent=settings.max_concurrent,
    )
