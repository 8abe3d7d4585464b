"""Owns time: numbers epochs and checkpoints, decides where barriers stand, completes and aborts checkpoints.

The rules are in `pystate.checkpoint`; here they meet threads, slots and storage.

Where a barrier stands: a checkpoint that is triggered while an epoch runs rides on that epoch, unless a subtask has
already finished it. Between epochs it is taken at once at the last finished epoch, and the next epoch begins when the
synchronous part is over. So an idle stream never delays a savepoint. After the savepoint of a stop or a cancel no epoch
begins, unless it fails.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.failure_manager import CheckpointFailureDecision, CheckpointFailureManager
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.id_counter import CheckpointIdCounter
from pystate.checkpoint.metadata import CheckpointType, SavepointFormatType, TaskState
from pystate.checkpoint.pending_checkpoint import AckResult, PendingCheckpoint
from pystate.checkpoint.request_decider import CheckpointRequestDecider
from pystate.checkpoint.running_epoch import RunningEpoch
from pystate.checkpoint.stats import CheckpointedTask, SubtaskCheckpointMetrics
from pystate.checkpoint.stats_file import StatisticsFile
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.configuration import Configuration
from pystate.common.errors import (
    CheckpointFailedError,
    ControlError,
    DriverReplacedError,
    PystateError,
    SnapshotError,
    SnapshotExistsError,
)
from pystate.common.job_status import JobStatus
from pystate.common.options import RecoveryClaimMode
from pystate.driver.checkpoint_settings import CheckpointSettings
from pystate.driver.epoch_numbers import EpochNumbers
from pystate.driver.epoch_tracker import AttemptOverError, EpochTracker
from pystate.driver.record_counts import RecordCounter
from pystate.driver.restore_points import RestorePoints
from pystate.driver.restored_state import Snapshot
from pystate.driver.running_checkpoint import CheckpointRequest, RunningCheckpoint, RunningCheckpoints
from pystate.driver.slot_pool import SlotPool
from pystate.driver.snapshot_disposal import FailedCheckpoints, discard
from pystate.driver.snapshot_metadata import JobDescription, SourceFiles, write_snapshot
from pystate.driver.status import now_ms
from pystate.slot.subtask import SnapshotRequest
from pystate.slot.task import TaskSpec
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory

_COMMIT_POLL_S = 0.01
_IDLE_WAIT_S = 1.0


class CheckpointCoordinator:
    """The checkpoints of one job, over all its attempts.

    Args:
        job: What snapshots say of the job.
        configuration: The options in force.
        epochs: The epoch numbers of the job.
        statistics_file: Where the statistics are kept for the next driver.
        clock: Monotonic seconds.
        ids: Gives the checkpoints' ids.
        check_term: Raises DriverReplacedError where another driver runs the job by now.
    """

    def __init__(
        self,
        job: JobDescription,
        configuration: Configuration,
        epochs: EpochNumbers,
        statistics_file: Path,
        clock: Callable[[], float] = time.monotonic,
        ids: CheckpointIdCounter | None = None,
        check_term: Callable[[], object] = lambda: None,
    ) -> None:
        self._job = job
        self._epochs = epochs
        self._clock = clock
        self._settings = settings = CheckpointSettings.of(configuration, job.job_id)
        self._storage = settings.storage
        self._points = RestorePoints(settings, job.job_id)
        self._failures = CheckpointFailureManager(settings.tolerable_failures)
        self._statistics = StatisticsFile(statistics_file, settings.history_size, now_ms)
        self._stats = self._statistics.tracker
        self._decider: CheckpointRequestDecider[CheckpointRequest] = CheckpointRequestDecider(
            lambda: int(clock() * 1000),
            lambda: CheckpointRequest(CheckpointType.CHECKPOINT),
            interval_ms=settings.interval_ms,
            min_pause_ms=settings.min_pause_ms,
            max_concurrent=settings.max_concurrent,
        )
        self._ids = ids or CheckpointIdCounter()
        self._check_term = check_term
        self._lock = threading.Condition()
        self._tasks: list[TaskSpec] = []
        self._tracker: EpochTracker | None = None  # None between attempts
        self._pool: SlotPool | None = None
        self._spark: SparkCheckpointDirectory | None = None
        self._on_intolerable: Callable[[PystateError], None] = lambda _: None
        self._running = RunningCheckpoints()
        self._syncing = False
        self._beginning = False  # an epoch is about to begin: no barrier may be placed in front of it any more
        self._triggering = False  # a checkpoint is being triggered whose place among the epochs is not open yet
        self._stopped = False  # a savepoint is complete behind which no epoch may begin
        self._failed = FailedCheckpoints()
        self._stages: dict[str, int] = {}  # by task: the stage of its exchange in the running epoch
        self._records = RecordCounter()
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="checkpoint-coordinator", daemon=True)

    # -- the job's life

    def recover(self, say: Callable[[str], None]) -> None:
        """Take over the checkpoints of an earlier driver of the job; to be called in front of `start`.

        Args:
            say: Takes a sentence about a damaged checkpoint that an older one stands in for.

        Raises:
            CorruptSnapshotError: There is none but a damaged one.
            SnapshotError: The storage can't be read.
        """
        self._ids.continue_above(self._points.recover(say))
        self._stats = self._statistics.recover(say)

    def give_up_latest(self) -> bool:
        """Forget the latest checkpoint, which is damaged; return whether an older one of the job is there to restore."""
        with self._lock:
            return self._points.give_up_latest()

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
        """Begin to work for a planned job.

        Args:
            tasks: The job's tasks.
            starting: The snapshot the job was started from; ids of checkpoints go on above its id.
            mode: Whose that one is from now on.
            job_runs: Whether a job has not ended; None for one that nobody knows.

        Raises:
            CheckpointFailedError: Checkpoints are on and there is no place to write them.
            RestoreError: The snapshot is to be the job's, and is another one's.
            SnapshotError: The storage failed.
        """
        self._tasks = tasks
        self._stats.describe_tasks(CheckpointedTask(task.uid, task.vertex_id, task.name) for task in tasks)
        if self._settings.enabled:
            self._storage.initialize()
        if starting is not None:
            self._points.start_from(starting, mode, job_runs)
            self._ids.continue_above(starting.metadata.checkpoint_id)
        self._thread.start()

    def close(self, status: JobStatus) -> None:
        """Stop working, and delete the checkpoints that the job's end leaves to nobody."""
        self.attempt_over()
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._thread.is_alive():
            self._thread.join(30)
        self._points.discard_on(status)
        self._statistics.changed()
        self._statistics.close()

    def latest_snapshot(self) -> Snapshot | None:
        """Return what a new attempt starts from: the job's latest checkpoint, else the snapshot it was started from.

        Waits for a checkpoint whose metadata is being written, so that it isn't completed behind the new attempt's back.
        """
        with self._lock:
            self._lock.wait_for(lambda: not self._running.finalizing)
            return self._points.latest()

    def report_restored(self, snapshot: Snapshot) -> None:
        """Take note of a restore, for the statistics."""
        is_savepoint = snapshot.metadata.checkpoint_type is CheckpointType.SAVEPOINT
        self._stats.report_restored(snapshot.metadata.checkpoint_id, is_savepoint, snapshot.location.uri)
        self._statistics.changed()

    # -- the attempt's life

    def attempt_started(
        self,
        pool: SlotPool,
        spark: SparkCheckpointDirectory,
        epoch: int,
        batch: int,
        on_intolerable: Callable[[PystateError], None],
    ) -> None:
        """Begin to take checkpoints of an attempt.

        Args:
            pool: Its slots.
            spark: Spark's logs.
            epoch: Where the restored state stands.
            batch: Spark's number of that epoch.
            on_intolerable: Called when more checkpoints failed in a row than is tolerated.
        """
        self._points.delete_orphans(self._ids.next_id)
        with self._lock:
            subtasks = [(task.uid, index) for task in self._tasks for index in range(task.parallelism)]
            self._tracker = EpochTracker(subtasks, epoch, batch)
            self._pool = pool
            self._spark = spark
            self._on_intolerable = on_intolerable
            self._failures.reset()
            self._decider.restart()
            self._lock.notify_all()

    def attempt_over(self, pool: SlotPool | None = None) -> None:
        """Give up all that belongs to the attempt: whoever waits in it gets AttemptOverError.

        Args:
            pool: Its slots; nothing is done where another attempt has begun since. None for whichever attempt runs.
        """
        with self._lock:
            if pool is not None and self._pool is not None and pool is not self._pool:
                return
            self._tracker = None
            self._pool = None
            self._spark = None
            self._running.rider = None
            self._stopped = False
            # one whose metadata is being written is whole: it is completed, and the next attempt starts from it
            entries = [entry for entry in self._running if not entry.finalizing]
            requests = self._decider.stop()
            self._lock.notify_all()
        for entry in entries:
            self._fail(entry, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, _over())
        for request in requests:
            request.future.set_exception(_over())

    def begin_epoch(self, epoch: int, batch: int) -> None:
        """Begin an epoch, once nothing stands against it. Called at the start of the micro-batch, before any of its tasks.

        Args:
            epoch: Which.
            batch: Spark's number of it.

        Raises:
            AttemptOverError: The attempt ends instead.
            DriverReplacedError: The job is another driver's.
            PystateError: The barrier that every epoch is to carry can't be prepared.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._tracker is None or not (self._syncing or self._held() or self._overtakes()))
            self._live_tracker()
            self._check_term()
            self._epochs.reserve(epoch)
            self._beginning = True
        barrier: RunningCheckpoint | None = None
        try:
            if self._settings.every_epoch:
                barrier = self._barrier_of(epoch, batch)
            with self._lock:
                self._live_tracker().begin(epoch)
                if barrier is not None:
                    self._running.add_rider(barrier)
        except PystateError as error:
            if barrier is not None:
                self._fail(barrier, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, error)
            raise
        finally:
            with self._lock:
                self._beginning = False
                self._lock.notify_all()

    def _overtakes(self) -> bool:
        """Whether an epoch that is to carry a barrier would overtake the barrier before, or one that is being triggered."""
        placed = self._triggering or self._running.rider is not None
        return self._settings.every_epoch and (placed or self._running.for_recovery)

    def _barrier_of(self, epoch: int, batch: int) -> RunningCheckpoint:
        """Write down the epoch that is about to run, and prepare the checkpoint that rides on it."""
        spark, snapshot = self._spark, self.latest_snapshot()
        if spark is None:
            raise _attempt_over()
        self._points.begin_epoch(epoch, batch, spark, snapshot)
        return self._prepared(CheckpointRequest(CheckpointType.CHECKPOINT))

    def running_epoch(self, snapshot: Snapshot | None) -> RunningEpoch | None:
        """Return the epoch that ran when the last attempt ended, if it is to be run again behind `snapshot`.

        Raises:
            CorruptSnapshotError: It is damaged.
            SnapshotError: The storage can't be read.
        """
        return self._points.running_epoch(snapshot)

    def check_all_finished(self, epoch: int) -> None:
        """Make sure, before sinks see it, that every subtask has run the epoch: Spark's word is not enough.

        Raises:
            ControlError: One hasn't.
            DriverReplacedError: The job is another driver's.
        """
        self._check_term()
        with self._lock:
            missing = self._live_tracker().missing()
        if missing:
            message = f"Spark ended epoch {epoch}, but these subtasks never ran it: {missing}."
            raise ControlError(message)

    def stages_of_barrier(self, epoch: int) -> tuple[dict[str, int], int]:
        """Return what is to be measured for the barrier on an epoch: the stage of each task's exchange, the trigger time.

        No stages where it carries none.
        """
        with self._lock:
            riding = self._running.of_epoch(epoch)
            return (dict(self._stages), riding[0].pending.trigger_timestamp) if riding else ({}, 0)

    def report_alignment(self, epoch: int, milliseconds: dict[str, int | None]) -> None:
        """Take note, by task, how long the epoch's upstream partitions were apart at their ends."""
        with self._lock:
            for entry in self._running.of_epoch(epoch):
                entry.alignment = milliseconds

    def finish_epoch(self, epoch: int, batch: int) -> None:
        """End an epoch: all subtasks have run it and all sinks have its output. Spark commits it next."""
        with self._lock:
            self._live_tracker().finish(epoch, batch)
            for entry in self._running.of_epoch(epoch):
                self._capture(entry, batch)
                if self._running.rider is entry:
                    self._running.rider = None
            self._lock.notify_all()

    # -- asking for checkpoints

    def trigger_checkpoint(self, *, full: bool = False) -> Future[CompletedCheckpoint]:
        """Ask for a checkpoint now.

        Args:
            full: Whether it refers to no older one's files, where the job's checkpoints are incremental.
        """
        self._storage.initialize()
        return self._enqueue(CheckpointRequest(CheckpointType.CHECKPOINT, full=full))

    def trigger_savepoint(
        self,
        target_directory: str | None,
        *,
        hold: bool,
        message: str | None = None,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> Future[CompletedCheckpoint]:
        """Ask for a savepoint.

        Args:
            target_directory: Where; None for the configured directory.
            hold: No epoch may begin behind it, unless it fails.
            message: What the savepoint says about itself.
            format: How keyed state is written.

        Raises:
            CheckpointFailedError: There is neither.
        """
        location = self._storage.savepoint_location(target_directory)
        request = CheckpointRequest(CheckpointType.SAVEPOINT, location=location, hold=hold, message=message, format=format)
        return self._enqueue(request)

    def final_checkpoint(self, timeout_s: float) -> None:
        """Take the last checkpoint of a job whose sources are read; nothing where checkpoints are off.

        Raises:
            CheckpointFailedError: It failed.
        """
        if self._settings.enabled:
            self.trigger_checkpoint().result(timeout_s)

    def progress(self) -> dict[str, Any]:
        """Return how far the job is: the last finished epoch, records read by the first and written by the last task.

        Records that are read again after a restart count again.
        """
        with self._lock:
            epoch = None if self._tracker is None else self._tracker.finished
            return {"epoch": epoch, **self._records.to_plain(task.uid for task in self._tasks)}

    def statistics(self) -> dict[str, Any]:
        """Return the statistics as Flink's REST has them."""
        return self._stats.to_rest()

    def statistics_of(self, checkpoint_id: int) -> dict[str, Any] | None:
        """Return one checkpoint's statistics as Flink's REST has them; None where it isn't listed."""
        return self._stats.details(checkpoint_id)

    def statistics_of_subtasks(self, checkpoint_id: int, vertex_id: str) -> dict[str, Any] | None:
        """Return the statistics of an operator's subtasks; None where the checkpoint or the operator isn't listed."""
        return self._stats.subtask_details(checkpoint_id, vertex_id)

    def savepoint_progress(self) -> tuple[int, int, int]:
        """Return of the savepoint in progress: subtasks that acknowledged, all subtasks, bytes so far."""
        with self._lock:
            pending = self._running.savepoint()
            if pending is not None:
                return pending.acknowledged_count, pending.total_count, pending.state_size
        return 0, sum(task.parallelism for task in self._tasks), 0

    # -- the protocol with the subtasks

    def decide(self, uid: str, subtask: int, epoch: int, stage: int) -> SnapshotRequest | None:
        """Return the barrier that an epoch carries, None where it carries none; all subtasks get the same answer.

        Args:
            uid: Of the task.
            subtask: Which of its subtasks is at the end of the epoch.
            epoch: Which.
            stage: Spark's stage that brought it there.
        """
        with self._lock:
            first = self._live_tracker().decide((uid, subtask), epoch)
            self._stages[uid] = stage
            rider = self._running.rider
            if first and rider is not None:
                rider.pending.epoch = epoch
            if rider is None or rider.pending.epoch != epoch:
                return None
            return self._snapshot_request(rider, epoch)

    def subtask_finished(self, uid: str, subtask: int, epoch: int, rows_in: int, rows_out: int) -> None:
        """Take note that a subtask's changes of an epoch are in its backend."""
        with self._lock:
            if self._live_tracker().subtask_finished((uid, subtask), epoch):
                self._records.add(uid, rows_in, rows_out)

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> AckResult:
        """Take a subtask's part of a checkpoint."""
        with self._lock:
            entry = self._running.get(checkpoint_id)
            if entry is None:
                result = AckResult.UNKNOWN
                self._failed.report_late(checkpoint_id)
            else:
                result = entry.pending.acknowledge(uid, subtask, state, metrics)
                if result is AckResult.SUCCESS:
                    self._stats.report_ack(checkpoint_id, uid, subtask, metrics)
                    entry.error = entry.error or self._settings.check_size(entry.location, entry.pending.state_size)
            self._lock.notify_all()
        return result

    def decline(self, checkpoint_id: int, error: PystateError) -> None:
        """Take note that a subtask's part of a checkpoint failed."""
        with self._lock:
            entry = self._running.get(checkpoint_id)
            if entry is not None:
                entry.error = error
            else:
                self._failed.report_late(checkpoint_id)
            self._lock.notify_all()

    def _snapshot_request(self, entry: RunningCheckpoint, epoch: int) -> SnapshotRequest:
        target = self._points.shared.target(entry.pending.checkpoint_id)
        shared, prefix = (None, "") if entry.pending.is_savepoint else target
        return SnapshotRequest(
            checkpoint_id=entry.pending.checkpoint_id,
            epoch=epoch,
            location=entry.location.state_uri,
            inline_threshold=self._settings.inline_threshold(entry.location),
            trigger_timestamp=entry.pending.trigger_timestamp,
            shared=shared,
            shared_prefix=prefix,
            savepoint=entry.pending.is_savepoint,
            native=entry.pending.is_savepoint and entry.pending.format is SavepointFormatType.NATIVE,
            full=entry.request.full,
        )

    def _held(self) -> bool:
        """Whether a savepoint is under way or complete behind which no epoch may begin."""
        return self._stopped or self._running.hold_epochs

    def _live_tracker(self) -> EpochTracker:
        if self._tracker is None:
            raise _attempt_over()
        return self._tracker

    # -- the coordinator's own thread

    def _loop(self) -> None:
        while True:
            with self._lock:
                if self._closed:
                    return
                action = self._next_action()
                if action is None:
                    self._lock.wait(self._wait_s())
                    continue
            try:
                action()
            except Exception:  # one checkpoint's trouble must not end all later ones; the log tells what it was
                traceback.print_exc()

    def _next_action(self) -> Callable[[], None] | None:
        now = self._clock()
        for entry in self._running:
            action = self._next_action_for(entry, now)
            if action is not None:
                return action
        late = self._failed.take_late()
        if late:
            return lambda: self._discard(late)
        tracker = self._tracker
        if tracker is None or self._beginning:
            return None
        rider = self._running.rider
        if rider is not None:
            between = tracker.running is None and not self._syncing
            return (lambda: self._snapshot_between_epochs(rider)) if between else None
        request = self._decider.next_request(len(self._running))
        if request is None:
            return None
        self._triggering = True
        return lambda: self._trigger(request)

    def _next_action_for(self, entry: RunningCheckpoint, now: float) -> Callable[[], None] | None:
        reason = CheckpointFailureReason
        if entry.error is not None:
            error = entry.error
            return lambda: self._fail(entry, reason.CHECKPOINT_DECLINED, error)
        if now >= entry.deadline:
            expired = CheckpointFailedError(f"The checkpoint did not complete within {self._settings.timeout_s:g} s.")
            return lambda: self._fail(entry, reason.CHECKPOINT_EXPIRED, expired)
        if entry.sources is None or self._spark is None or not entry.pending.is_fully_acknowledged:
            return None
        # the commit of the cut's epoch comes after its sinks; until then the checkpoint must not be restored from
        return (lambda: self._complete(entry)) if self._spark.is_committed(entry.sources.batch) else None

    def _wait_s(self) -> float:
        if any(entry.pending.is_fully_acknowledged and entry.sources is not None for entry in self._running):
            return _COMMIT_POLL_S
        if self._tracker is None or self._running.rider is not None:
            return _IDLE_WAIT_S
        wait_ms = self._decider.wait_ms(len(self._running))
        return _IDLE_WAIT_S if wait_ms is None else min(_IDLE_WAIT_S, wait_ms / 1000)

    def _enqueue(self, request: CheckpointRequest) -> Future[CompletedCheckpoint]:
        with self._lock:
            self._live_tracker()
            rejected = self._decider.submit(request)
            self._lock.notify_all()
        if rejected is not None:
            message = "Too many checkpoints wait already."
            rejected.future.set_exception(CheckpointFailedError(message, hint="wait for one of them"))
        return request.future

    def _trigger(self, request: CheckpointRequest) -> None:
        entry: RunningCheckpoint | None = None
        try:
            with contextlib.suppress(PystateError):  # whoever asked for it knows
                entry = self._prepared(request)
        finally:
            with self._lock:
                self._triggering = False
                too_late = self._tracker is None
                if entry is not None and not too_late:
                    self._running.add_rider(entry)
                self._lock.notify_all()
        if entry is not None and too_late:
            self._fail(entry, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, _over())

    def _prepared(self, request: CheckpointRequest) -> RunningCheckpoint:
        """Return the checkpoint for a request, with its directory made.

        Raises:
            PystateError: The directory can't be made, or the job is another driver's; the checkpoint has failed.
        """
        checkpoint_id = self._ids.get_and_increment()
        location = request.location or self._storage.checkpoint_location(checkpoint_id)
        tasks = {(task.uid, index) for task in self._tasks for index in range(task.parallelism)}
        pending = PendingCheckpoint(
            checkpoint_id,
            checkpoint_type=request.checkpoint_type,
            format=request.format,
            trigger_timestamp=now_ms(),
            tasks=tasks,
            location=location.uri,
            message=request.message,
        )
        entry = RunningCheckpoint(pending, request, location, deadline=self._clock() + self._settings.timeout_s)
        self._stats.report_pending(pending)
        self._statistics.changed()
        try:
            self._check_term()
            location.create()
        except PystateError as error:
            self._fail(entry, CheckpointFailureReason.IO_EXCEPTION, error)
            raise
        return entry

    def _snapshot_between_epochs(self, entry: RunningCheckpoint) -> None:
        with self._lock:
            tracker, pool = self._tracker, self._pool
            # an epoch that began, or is about to, since this action was chosen takes the barrier along
            if tracker is None or pool is None or tracker.running is not None or self._beginning:
                return
            if self._running.rider is not entry:
                return
            self._running.rider = None
            self._syncing = True
            entry.alignment = {task.uid: 0 for task in self._tasks}  # no row is under way that could be waited for
            entry.pending.epoch = tracker.finished
            self._capture(entry, tracker.finished_batch)
            request = self._snapshot_request(entry, tracker.finished)
        error: PystateError | None = None
        try:
            pool.snapshot(request)
        except PystateError as declined:
            error = declined
        with self._lock:
            entry.error = entry.error or error
            self._syncing = False
            self._lock.notify_all()

    def _capture(self, entry: RunningCheckpoint, batch: int) -> None:
        if self._spark is None:
            return
        try:
            entry.sources = SourceFiles(batch, self._spark.capture(batch))
        except SnapshotError as error:
            entry.error = error

    def _complete(self, entry: RunningCheckpoint) -> None:
        pending, sources = entry.pending, entry.sources
        with self._lock:
            spark = self._spark
            if sources is None or spark is None or self._running.get(pending.checkpoint_id) is None:
                return
            entry.finalizing = True
        try:
            sources.files.update(spark.capture_commit(sources.batch))
            self._check_term()
            threshold, parent = self._settings.inline_threshold(entry.location), self._points.parent
            settled = self._points.shared.settled
            metadata = write_snapshot(pending, entry.location, sources, self._job, self._tasks, parent, threshold, settled)
        except Exception as error:  # whatever it was: nobody may wait for this checkpoint any longer
            failure = (
                error if isinstance(error, PystateError) else SnapshotError(f"The metadata can't be written: {error!r}")
            )
            self._fail(entry, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, failure)
            return
        completed = pending.complete(metadata, now_ms())
        self._points.shared.completed(metadata)
        with self._lock:
            self._running.remove(entry)
            self._stopped = self._stopped or (entry.request.hold and self._tracker is not None)
            subsumed = self._points.add(completed)
            self._failures.handle_success()
            self._decider.report_completed(pending.checkpoint_type)
            self._stats.report_alignment(pending.checkpoint_id, entry.alignment)
            self._stats.report_completed(completed)
            overtaken = [] if pending.is_savepoint else self._running.older_than(pending.checkpoint_id)
            self._lock.notify_all()
        for older in overtaken:
            late = CheckpointFailedError(f"Checkpoint {pending.checkpoint_id} completed first.")
            self._fail(older, CheckpointFailureReason.CHECKPOINT_SUBSUMED, late)
        gone = self._points.discard_subsumed(subsumed)
        self._stats.report_discarded(checkpoint.checkpoint_id for checkpoint in gone)
        self._statistics.changed()
        told = self._tell(entry, completed=True)
        # a job that is stopped or has read its sources ends behind its last checkpoint: its functions must know of it first
        told.add_done_callback(lambda _: entry.request.future.set_result(completed))

    def _fail(self, entry: RunningCheckpoint, reason: CheckpointFailureReason, error: PystateError) -> None:
        checkpoint_id = entry.pending.checkpoint_id
        if not entry.pending.abort(reason):
            return
        # what stands there already is not ours to delete
        taken = isinstance(error, SnapshotExistsError)
        with self._lock:
            self._running.remove(entry)
            if not taken:
                self._failed.add(checkpoint_id, entry.location)
            counts = not entry.pending.is_savepoint and self._tracker is not None
            decision = self._failures.handle_failure(checkpoint_id, reason, is_savepoint=entry.pending.is_savepoint)
            self._stats.report_failed(entry.pending, reason, error.message)
            # without its checkpoint an epoch that carries a barrier could not be run again
            if isinstance(error, DriverReplacedError) or (self._settings.every_epoch and counts):
                decision = CheckpointFailureDecision.FAIL_JOB
            on_intolerable = self._on_intolerable
            self._lock.notify_all()
        self._tell(entry, completed=False)
        if not taken:
            self._discard({checkpoint_id: entry.location})
        self._statistics.changed()
        failure = CheckpointFailedError(error.message, where=error.where or entry.location.uri, hint=error.hint)
        entry.request.future.set_exception(failure)
        if decision is CheckpointFailureDecision.FAIL_JOB:
            on_intolerable(failure)

    def _discard(self, failed: dict[int, SnapshotLocation]) -> None:
        """Delete what failed checkpoints have left."""
        for checkpoint_id, location in failed.items():
            discard(location)
            self._points.shared.discard_failed(checkpoint_id)

    def _tell(self, entry: RunningCheckpoint, *, completed: bool) -> Future[None]:
        """Tell the job's functions how a checkpoint ended; return what is done when those that are idle have been called.

        A savepoint is for people: unless the job ends behind it, functions must not commit anything because of it.
        """
        with self._lock:
            pool = self._pool
        if pool is None or (completed and entry.pending.is_savepoint and not entry.request.hold):
            nobody: Future[None] = Future()
            nobody.set_result(None)
            return nobody
        return pool.notify(entry.pending.checkpoint_id, completed=completed)


def _attempt_over() -> AttemptOverError:
    return AttemptOverError("The execution attempt is over.")


def _over() -> CheckpointFailedError:
    return CheckpointFailedError("The job ended or restarted before the checkpoint was complete.")
