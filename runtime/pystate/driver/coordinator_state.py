"""What the coordinator decides on, behind one lock: the attempt, where its epochs and barriers stand, what is under way.

Decisions only. Each method is one step that no other thread sees half done; slots, futures and the storage of checkpoints
are the coordinator's, which acts on what a step returns and holds no lock meanwhile.

Where a barrier stands: a checkpoint that is triggered while an epoch runs rides on that epoch, unless its subtasks are
told already to finish it. Between epochs it is taken at once at the last finished epoch, and the next epoch begins when
the synchronous part is over. So an idle stream never delays a savepoint. After the savepoint of a stop or a cancel no epoch
begins, unless it fails.

When a checkpoint expires: its time runs while no epoch stands between it and its cut. A subtask that has its barrier has as
much time for its synchronous part; one that needs more hangs, and the attempt ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pystate.checkpoint.barrier import CheckpointBarrier
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.failure_manager import CheckpointFailureDecision, CheckpointFailureManager
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.metadata import CheckpointMetadata, CheckpointType, TaskState
from pystate.checkpoint.pending_checkpoint import AckResult
from pystate.checkpoint.request_decider import CheckpointRequestDecider
from pystate.checkpoint.stats.checkpoint_stats import SubtaskCheckpointMetrics
from pystate.checkpoint.stats.file import StatisticsFile
from pystate.checkpoint.storage import SnapshotLocation
from pystate.common.errors import DriverReplacedError, PystateError
from pystate.driver.checkpoint_settings import CheckpointSettings
from pystate.driver.confirmed_checkpoints import ConfirmedCheckpoints
from pystate.driver.coordinator_steps import (
    CompleteCheckpoint,
    CoordinatorStep,
    DiscardLateParts,
    FailCheckpoint,
    GiveUpStorageStep,
    SnapshotBetweenEpochs,
    StorageStep,
    TriggerCheckpoint,
)
from pystate.driver.epoch_tracker import AttemptOverError, EpochTracker
from pystate.driver.live_attempt import LeftByAttempt, LiveAttempt, Subsumed
from pystate.driver.record_counts import RecordCounter
from pystate.driver.restore_points import RestorePoints
from pystate.driver.restored_state import Snapshot
from pystate.driver.running_checkpoint import CheckpointRequest, RunningCheckpoint, RunningCheckpoints
from pystate.driver.slot_pool import SlotPool
from pystate.driver.snapshot_disposal import FailedCheckpoints
from pystate.driver.snapshot_metadata import SourceFiles
from pystate.plan.task import TaskSpec
from pystate.slot.micro_batch.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory

_COMMIT_POLL_S = 0.01
_IDLE_WAIT_S = 1.0


class CoordinatorState:
    """The epochs of the attempt that runs, the checkpoints under way, and those that someone waits for.

    Args:
        settings: The options of checkpointing.
        points: What an attempt can start from; its decisions are made under this lock, its effects are the coordinator's.
        statistics: Told in step with what happens here.
        clock: Monotonic seconds.
    """

    def __init__(
        self, settings: CheckpointSettings, points: RestorePoints, statistics: StatisticsFile, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._points = points
        self._statistics = statistics
        self._clock = clock
        self._lock = threading.Condition()
        self._decider: CheckpointRequestDecider[CheckpointRequest] = CheckpointRequestDecider(
            lambda: int(clock() * 1000),
            lambda: CheckpointRequest(CheckpointType.CHECKPOINT),
            interval_ms=settings.interval_ms,
            min_pause_ms=settings.min_pause_ms,
            max_concurrent=settings.max_concurrent,
        )
        self._failures = CheckpointFailureManager(settings.tolerable_failures)
        self._running = RunningCheckpoints()
        self._failed = FailedCheckpoints()
        self._confirmed = ConfirmedCheckpoints()
        self._records = RecordCounter()
        self._tasks: list[TaskSpec] = []
        self._attempt: LiveAttempt | None = None  # None between attempts
        self._had_attempt = False
        self._epoch_begun = 0.0  # by the clock, of the running epoch
        self._on_intolerable: Callable[[PystateError], None] = lambda _: None
        self._syncing: RunningCheckpoint | None = None  # between two epochs
        self._storage_step: StorageStep | None = None  # under way on a thread of its own, as it may hang
        self._storage_deadline = 0.0
        self._beginning = False  # an epoch is about to begin: no barrier may be placed in front of it any more
        self._stopped = False  # a savepoint is complete behind which no epoch may begin
        self._job_ends = False
        self._closed = False

    # -- the job and its attempts

    def describe(self, tasks: list[TaskSpec]) -> None:
        """Take note of the job's tasks."""
        with self._lock:
            self._tasks = tasks

    def begin_attempt(
        self,
        pool: SlotPool,
        spark: SparkCheckpointDirectory,
        epoch: int,
        batch: int,
        on_intolerable: Callable[[PystateError], None],
    ) -> None:
        """Begin an attempt; see `CheckpointCoordinator.attempt_started`."""
        with self._lock:
            self._attempt = LiveAttempt(pool, spark, EpochTracker(self._subtasks(), epoch, batch))
            self._had_attempt = True
            self._on_intolerable = on_intolerable
            self._failures.reset()
            self._confirmed.restart()
            self._decider.restart()
            self._lock.notify_all()

    def end_attempt(self, pool: SlotPool | None, *, job_ends: bool = False) -> LeftByAttempt:
        """End the attempt: whoever waits in it gets AttemptOverError.

        Args:
            pool: Its slots; nothing is done where another attempt has begun since. None for whichever attempt runs.
            job_ends: Nobody wants the checkpoints any more that are under way.
        """
        with self._lock:
            if pool is not None and self._attempt is not None and pool is not self._attempt.pool:
                return LeftByAttempt([], [])
            self._attempt = None
            self._job_ends = self._job_ends or job_ends
            self._running.rider = self._syncing = None
            self._stopped = False
            # one whose metadata is being written is whole: it is completed, and the next attempt starts from it
            entries = [entry for entry in self._running if not entry.finalizing]
            requests = self._decider.stop()
            self._lock.notify_all()
            return LeftByAttempt(entries, requests)

    def live_attempt(self) -> LiveAttempt:
        """Return the attempt that runs.

        Raises:
            AttemptOverError: None does.
        """
        with self._lock:
            return self._live()

    @property
    def pool(self) -> SlotPool | None:
        """The slots of the attempt that runs; None where none does."""
        with self._lock:
            return None if self._attempt is None else self._attempt.pool

    def close(self) -> None:
        """End `await_step`: there is nothing to do any more."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def latest_snapshot(self) -> Snapshot | None:
        """Return what a new attempt starts from, see `RestorePoints.latest`.

        Waits for a checkpoint whose metadata is being written, so that it isn't completed behind the new attempt's back.
        """
        with self._lock:
            self._lock.wait_for(lambda: not self._running.finalizing)
            return self._points.latest()

    def give_up_latest(self) -> bool:
        """Forget the latest checkpoint, which is damaged; return whether an older one of the job is there to restore."""
        with self._lock:
            return self._points.give_up_latest()

    # -- epochs

    def await_turn(self, reserve: Callable[[], None]) -> None:
        """Wait until nothing stands against the next epoch; from then on barriers ride on it, until `turn_over`.

        Args:
            reserve: Reserves its number; called once it is its turn, so that no barrier comes between.

        Raises:
            AttemptOverError: The attempt ends instead.
            PystateError: The number can't be reserved; it is nobody's turn then.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._attempt is None or not (self._syncing or self._held() or self._overtakes()))
            self._live()
            self._beginning = True
        try:
            reserve()  # not under the lock: the storage may hang
        except BaseException:
            self.turn_over()
            raise

    def begin_epoch(self, epoch: int, barrier: RunningCheckpoint | None) -> None:
        """Begin an epoch whose turn it is.

        Args:
            epoch: Which.
            barrier: The checkpoint that rides on it from the start, or None.

        Raises:
            ControlError: Another one runs, or it is not behind the last one; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            attempt = self._live()
            if barrier is not None and barrier.pending.is_aborted:
                message = f"Checkpoint {barrier.pending.checkpoint_id}, which epoch {epoch} was to carry, has failed."
                raise AttemptOverError(message)
            attempt.tracker.begin(epoch)
            self._epoch_begun = self._clock()
            if barrier is not None:
                self._running.add_rider(barrier)
            for entry in self._running:
                entry.take_commit(attempt.spark)  # Spark has committed the epoch before, and keeps commits for a while
            self._wait_for_epoch(self._running.rider)

    def turn_over(self) -> None:
        """Take note that the epoch whose turn it was has begun, or failed to."""
        with self._lock:
            self._beginning = False
            self._lock.notify_all()

    def unprepared(self) -> list[SubtaskId]:
        """Return the subtasks that have not got all rows of the running epoch."""
        with self._lock:
            return self._live().tracker.unprepared()

    def prepared_subtasks(self) -> dict[SubtaskId, PreparedEpoch]:
        """Return what each subtask that has got all rows of the running epoch has told of them."""
        with self._lock:
            return dict(self._live().tracker.prepared)

    def running_in(self, slot: int) -> str:
        """Say which epoch a slot runs, and in which operators it had not ended; nothing between two epochs."""
        with self._lock:
            tracker = None if self._attempt is None else self._attempt.tracker
            if tracker is None or tracker.running is None:
                return ""
            missing = tracker.unprepared() or tracker.missing()
            left = [repr(task.uid) for task in self._tasks if (task.uid, slot) in missing]
            return f", while epoch {tracker.running} ran" + (f" in {', '.join(left)}" if left else "")

    def stages_of_barrier(self, epoch: int) -> tuple[dict[str, int], int]:
        """Return what is to be measured for the barrier on an epoch: the stage of each task's exchange, the trigger time.

        No stages where it carries none.
        """
        with self._lock:
            riding = self._running.of_epoch(epoch)
            if not riding:
                return {}, 0
            prepared = self._live().tracker.prepared
            return {uid: share.stage_id for (uid, _), share in prepared.items()}, riding[0].pending.trigger_timestamp

    def report_alignment(self, epoch: int, milliseconds: dict[str, int | None]) -> None:
        """Take note, by task, how long the epoch's upstream partitions were apart at their ends."""
        with self._lock:
            for entry in self._running.of_epoch(epoch):
                entry.alignment = milliseconds

    def finish_epoch(self, epoch: int, batch: int) -> None:
        """End an epoch: all subtasks have run it and all sinks have its output. Spark commits it next."""
        with self._lock:
            attempt = self._live()
            attempt.tracker.finish(epoch, batch)
            for entry in self._running.of_epoch(epoch):
                entry.capture(attempt.spark, batch)
                if self._running.rider is entry:
                    self._running.rider = None
                self._let_time_run(entry)
            self._let_time_run(self._running.rider)
            self._lock.notify_all()

    # -- the protocol with the subtasks

    def subtask_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Take note that a subtask has got all rows of the running epoch.

        Raises:
            ControlError: That epoch doesn't run; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._live().tracker.prepare((uid, subtask), prepared)

    def decide(self, epoch: int) -> CheckpointBarrier | None:
        """Return the barrier that an epoch carries, None where it carries none; the same each time.

        Raises:
            ControlError: The epoch isn't at its end; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            first = self._live().tracker.decide(epoch)
            rider = self._running.rider
            if first and rider is not None:
                rider.pending.epoch = epoch
            if rider is None or rider.pending.epoch != epoch:
                return None
            if first:
                rider.handed_out = dict.fromkeys(self._subtasks(), self._clock())
            return self._snapshot_request(rider, epoch)

    def slot_finished(self, slot: int) -> None:
        """Take note that a slot's subtasks have finished the epoch that is decided, and hang in no barrier of it."""
        with self._lock:
            for entry in self._running:
                entry.handed_out = {subtask: since for subtask, since in entry.handed_out.items() if subtask[1] != slot}

    def subtasks_finished(self, epoch: int) -> None:
        """Take note that the changes of an epoch are in all subtasks' backends."""
        with self._lock:
            tracker = self._live().tracker
            if tracker.subtasks_finished(epoch):
                for (uid, _), share in tracker.prepared.items():
                    self._records.add(uid, share.rows_in, share.rows_out)

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
                entry.handed_out.pop((uid, subtask), None)
                if result is AckResult.SUCCESS:
                    self._statistics.tracker.report_ack(checkpoint_id, uid, subtask, metrics)
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

    # -- checkpoints

    def submit(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Let a request wait for its turn; return one that has no room, this one or another.

        Raises:
            AttemptOverError: No attempt runs; says what the job does instead, and when to ask again.
        """
        with self._lock:
            if self._attempt is None:
                raise self._not_running()
            rejected = self._decider.submit(request)
            self._lock.notify_all()
        return rejected

    def await_step(self) -> CoordinatorStep | None:
        """Wait for something to be done, and return it; None after `close`."""
        with self._lock:
            while not self._closed:
                step = self._next_step()
                if step is not None:
                    return step
                self._lock.wait(self._wait_s())
        return None

    def triggering(self, entry: RunningCheckpoint) -> bool:
        """Take in a checkpoint whose directory is about to be made; return whether the attempt still runs."""
        with self._lock:
            in_time = self._attempt is not None
            if in_time:
                self._running.add(entry)
            self._lock.notify_all()
        return in_time

    def triggered(self, entry: RunningCheckpoint | None) -> bool:
        """Let a checkpoint that was triggered wait for its place, None for one that couldn't be.

        Returns:
            Whether it is still wanted: it hasn't failed meanwhile, no other one has taken its place while the storage hung,
            and the attempt hasn't ended.
        """
        with self._lock:
            in_time = self._attempt is not None and self._running.rider is None
            in_time = in_time and not (entry is not None and entry.pending.is_aborted)
            if entry is not None and in_time:
                self._running.add_rider(entry)
                self._wait_for_epoch(entry)
            self._lock.notify_all()
        return in_time

    def storage_done(self, step: StorageStep) -> None:
        """Take note that a step is over, so that the next one may begin; nothing where it was given up."""
        with self._lock:
            if self._storage_step is step:
                self._storage_step = None
            self._lock.notify_all()

    def await_storage(self, timeout_s: float) -> dict[int, SnapshotLocation]:
        """Wait, behind `close`, for the step that is under way; return what is still to be deleted, by checkpoint."""
        with self._lock:
            self._lock.wait_for(lambda: self._storage_step is None, timeout_s)
            return self._failed.take_late()

    def begin_snapshot(self, entry: RunningCheckpoint) -> tuple[SlotPool, CheckpointBarrier] | None:
        """Place a barrier behind the last finished epoch, and let no epoch begin until `end_snapshot`.

        Returns:
            Who is asked for what; None where an epoch that began, or is about to, takes the barrier along, or the attempt
            has ended.
        """
        with self._lock:
            attempt = self._attempt
            if attempt is None or attempt.tracker.running is not None or self._beginning:
                return None
            if self._running.rider is not entry or self._syncing is not None:
                return None
            tracker = attempt.tracker
            self._running.rider = None
            self._syncing = entry
            self._let_time_run(entry)
            entry.alignment = {task.uid: 0 for task in self._tasks}  # no row is under way that could be waited for
            entry.pending.epoch = tracker.finished
            entry.capture(attempt.spark, tracker.finished_batch)
            return attempt.pool, self._snapshot_request(entry, tracker.finished)

    def end_snapshot(self, entry: RunningCheckpoint, error: PystateError | None) -> None:
        """Take note that the synchronous part of a snapshot between epochs is over, with or without an error."""
        with self._lock:
            entry.error = entry.error or error
            if self._syncing is entry:
                self._syncing = None
            self._lock.notify_all()

    def begin_finalizing(self, entry: RunningCheckpoint) -> SourceFiles | None:
        """Let a checkpoint outlive its attempt from now on: its metadata is about to be written.

        Returns:
            What was captured of Spark's logs; None where it is too late for that.
        """
        with self._lock:
            sources = entry.sources
            if sources is None or self._attempt is None or entry.pending.is_aborted:
                return None
            entry.finalizing = True
            return sources

    def settle(
        self, entry: RunningCheckpoint, metadata: CheckpointMetadata, completion_timestamp: int
    ) -> CompletedCheckpoint | None:
        """Decide that a checkpoint whose metadata is written has ended well; None where it expired meanwhile."""
        with self._lock:
            return None if entry.pending.is_aborted else entry.pending.complete(metadata, completion_timestamp)

    def abort(self, entry: RunningCheckpoint, reason: CheckpointFailureReason) -> bool:
        """Decide that a checkpoint has failed; return whether it hadn't ended before. `fail` has to be called behind it."""
        with self._lock:
            return entry.pending.abort(reason)

    def complete(self, entry: RunningCheckpoint, completed: CompletedCheckpoint) -> Subsumed:
        """Take in a checkpoint whose metadata is written; return those it subsumes."""
        pending, tracker = entry.pending, self._statistics.tracker
        with self._lock:
            self._running.remove(entry)
            self._stopped = self._stopped or (entry.request.hold and self._attempt is not None)
            subsumed = self._points.add(completed)
            self._failures.handle_success()
            if not pending.is_savepoint:
                self._confirmed.add(pending.checkpoint_id, entry.confirmed)
            self._decider.report_completed(pending.checkpoint_type)
            tracker.report_alignment(pending.checkpoint_id, entry.alignment)
            tracker.report_completed(completed)
            overtaken = [] if pending.is_savepoint else self._running.older_than(pending.checkpoint_id)
            lowest_base = self._running.lowest_base(besides=overtaken)
            self._lock.notify_all()
        return Subsumed(subsumed, overtaken, lowest_base)

    def fail(
        self,
        entry: RunningCheckpoint,
        reason: CheckpointFailureReason,
        error: PystateError,
        *,
        leaves_files: bool,
        fails_attempt: bool = False,
    ) -> Callable[[PystateError], None] | None:
        """Let a checkpoint go that was aborted; return what ends the attempt, where it must end for that.

        Args:
            entry: Which.
            reason: Why.
            error: The same for people.
            leaves_files: Whether what lies at its location is to be deleted, also what comes late.
            fails_attempt: Whether the attempt can't go on, however many failures are tolerated.
        """
        pending = entry.pending
        with self._lock:
            self._running.remove(entry)
            if self._syncing is entry:
                self._syncing = None
            if leaves_files:
                self._failed.add(pending.checkpoint_id, entry.location)
                if not entry.finalizing:  # else it is deleted behind the write of its metadata
                    self._failed.report_late(pending.checkpoint_id)
            counts = not pending.is_savepoint and self._attempt is not None
            decision = self._failures.handle_failure(pending.checkpoint_id, reason, is_savepoint=pending.is_savepoint)
            if self._job_ends and not pending.is_savepoint:
                self._statistics.tracker.withdraw(pending.checkpoint_id)
            else:
                self._statistics.tracker.report_failed(pending, reason, error.message)
            # without its checkpoint an epoch that carries a barrier could not be run again
            if fails_attempt or isinstance(error, DriverReplacedError) or (self._settings.every_epoch and counts):
                decision = CheckpointFailureDecision.FAIL_JOB
            on_intolerable = self._on_intolerable
            self._lock.notify_all()
        return on_intolerable if decision is CheckpointFailureDecision.FAIL_JOB else None

    # -- how far things are

    def progress(self) -> dict[str, Any]:
        """Return how far the job is: the last finished epoch, records read by the first and written by the last task.

        Records that are read again after a restart count again.
        """
        with self._lock:
            epoch = None if self._attempt is None else self._attempt.tracker.finished
            return {"epoch": epoch, **self._records.to_plain(task.uid for task in self._tasks)}

    def savepoint_progress(self) -> dict[str, int]:
        """Return of the savepoint in progress: `acknowledged` subtasks, the `total` of them, `bytes` so far.

        With `waits_for_epoch` while it waits for the end of that epoch, which has run for `epoch_running` ms; `waits_since`
        is the savepoint's trigger, ms since 1970.
        """
        with self._lock:
            entry = self._running.savepoint()
            epoch = None if self._attempt is None else self._attempt.tracker.running
            waits = {}
            if epoch is not None and not (entry and entry.sources):
                waits = {"waits_for_epoch": epoch, "epoch_running": int((self._clock() - self._epoch_begun) * 1000)}
            if entry is None:
                return {"acknowledged": 0, "total": len(self._subtasks()), "bytes": 0, **waits}
            pending = entry.pending
            if waits:
                waits["waits_since"] = pending.trigger_timestamp
            counts = {"acknowledged": pending.acknowledged_count, "total": pending.total_count}
            return {**counts, "bytes": pending.state_size, **waits}

    # -- under the lock

    def _subtasks(self) -> list[SubtaskId]:
        return [(task.uid, index) for task in self._tasks for index in range(task.parallelism)]

    def _live(self) -> LiveAttempt:
        if self._attempt is None:
            message = "The execution attempt is over."
            raise AttemptOverError(message)
        return self._attempt

    def _not_running(self) -> AttemptOverError:
        if self._job_ends:
            return AttemptOverError("The job is ending: it takes no checkpoint or savepoint any more.")
        does = "restarting" if self._had_attempt else "starting"
        hint = f"try again in a moment, or wait for it: pystate wait {self._settings.storage.job_id} --for running"
        return AttemptOverError(f"The job is {does}: it can take no checkpoint or savepoint yet.", hint=hint)

    def _held(self) -> bool:
        """Whether a savepoint is under way or complete behind which no epoch may begin."""
        return self._stopped or self._running.hold_epochs

    def _overtakes(self) -> bool:
        """Whether an epoch that is to carry a barrier would overtake the barrier before, or one that is being triggered."""
        # the place of one that is being triggered is not open yet
        placed = isinstance(self._storage_step, TriggerCheckpoint) or self._running.rider is not None
        return self._settings.every_epoch and (placed or self._running.for_recovery)

    def _snapshot_request(self, entry: RunningCheckpoint, epoch: int) -> CheckpointBarrier:
        target = self._points.shared.target(entry.pending.checkpoint_id)
        if entry.confirmed is None and target[0] is not None and not entry.pending.is_savepoint:
            entry.confirmed = self._confirmed.barrier()  # once: all subtasks get the same answer
        return entry.snapshot_request(epoch, target, self._settings.inline_threshold(entry.location))

    def _let_time_run(self, entry: RunningCheckpoint | None) -> None:
        """Let a checkpoint's time run from now on: its barrier is placed, or can be."""
        if entry is not None:
            entry.deadline = self._clock() + self._settings.timeout_s
            self._statistics.tracker.report_waiting(entry.pending.checkpoint_id, None)

    def _wait_for_epoch(self, entry: RunningCheckpoint | None) -> None:
        """Let a checkpoint's time stand still while an epoch runs, whose end its barrier waits for."""
        epoch = None if self._attempt is None else self._attempt.tracker.running
        if epoch is None:
            self._let_time_run(entry)
        elif entry is not None:
            entry.deadline = None
            self._statistics.tracker.report_waiting(entry.pending.checkpoint_id, epoch)

    def _next_step(self) -> CoordinatorStep | None:
        now = self._clock()
        for entry in self._running:
            if self._attempt is not None:
                entry.take_commit(self._attempt.spark)
            failure = entry.failure(now, self._settings.timeout_s, syncing=entry is self._syncing)
            if failure is not None:
                return FailCheckpoint(entry, *failure)
        attempt, rider = self._attempt, self._running.rider
        between = attempt is not None and attempt.tracker.running is None
        if rider is not None and between and not self._beginning and self._syncing is None:
            return SnapshotBetweenEpochs(rider)
        hung = self._storage_step
        if hung is not None and now < self._storage_deadline:
            return None
        self._storage_step = None
        if hung is not None:
            return GiveUpStorageStep(hung)
        self._storage_step = self._next_storage_step()
        self._storage_deadline = now + self._settings.timeout_s
        return self._storage_step

    def _next_storage_step(self) -> StorageStep | None:
        for entry in self._running:
            whole = entry.committed and entry.pending.is_fully_acknowledged
            if whole and self._attempt is not None and not entry.finalizing:
                return CompleteCheckpoint(entry)
        late = self._failed.take_late()
        if late:
            return DiscardLateParts(late)
        if self._attempt is None or self._running.rider is not None:
            return None
        if self._beginning and self._settings.every_epoch:  # the epoch brings a barrier of its own
            return None
        request = self._decider.next_request(len(self._running))
        return None if request is None else TriggerCheckpoint(request)

    def _wait_s(self) -> float:
        if any(entry.sources is not None and not entry.committed for entry in self._running):
            return _COMMIT_POLL_S
        times = [at for entry in self._running for at in entry.deadlines(self._settings.timeout_s)]
        if self._storage_step is not None:
            times.append(self._storage_deadline)
        wait_s = max(0.0, min([_IDLE_WAIT_S, *(at - self._clock() for at in times)]))
        if self._attempt is None or self._running.rider is not None or self._storage_step is not None:
            return wait_s
        wait_ms = self._decider.wait_ms(len(self._running))
        return wait_s if wait_ms is None else min(wait_s, wait_ms / 1000)
