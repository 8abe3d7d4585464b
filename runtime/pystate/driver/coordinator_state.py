"""What the coordinator decides on, behind one lock: the attempt, where its epochs and barriers stand, what is under way.

Decisions only. Each method is one step that no other thread sees half done; slots, futures and the storage of checkpoints
are the coordinator's, which acts on what a step returns and holds no lock meanwhile.

Where a barrier stands: a checkpoint that is triggered while an epoch runs rides on that epoch, unless a subtask has
already finished it. Between epochs it is taken at once at the last finished epoch, and the next epoch begins when the
synchronous part is over. So an idle stream never delays a savepoint. After the savepoint of a stop or a cancel no epoch
begins, unless it fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.failure_manager import CheckpointFailureDecision, CheckpointFailureManager
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.metadata import CheckpointType, TaskState
from pystate.checkpoint.pending_checkpoint import AckResult
from pystate.checkpoint.request_decider import CheckpointRequestDecider
from pystate.checkpoint.stats import SubtaskCheckpointMetrics
from pystate.checkpoint.stats_file import StatisticsFile
from pystate.common.errors import CheckpointFailedError, DriverReplacedError, PystateError, SnapshotError
from pystate.driver.checkpoint_settings import CheckpointSettings
from pystate.driver.confirmed_checkpoints import ConfirmedCheckpoints
from pystate.driver.coordinator_steps import (
    CompleteCheckpoint,
    CoordinatorStep,
    DiscardLateParts,
    FailCheckpoint,
    SnapshotBetweenEpochs,
    TriggerCheckpoint,
)
from pystate.driver.epoch_tracker import AttemptOverError, EpochTracker, SubtaskId
from pystate.driver.record_counts import RecordCounter
from pystate.driver.restore_points import RestorePoints
from pystate.driver.restored_state import Snapshot
from pystate.driver.running_checkpoint import CheckpointRequest, RunningCheckpoint, RunningCheckpoints
from pystate.driver.slot_pool import SlotPool
from pystate.driver.snapshot_disposal import FailedCheckpoints
from pystate.driver.snapshot_metadata import SourceFiles
from pystate.slot.subtask import SnapshotRequest
from pystate.slot.task import TaskSpec
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory

_COMMIT_POLL_S = 0.01
_IDLE_WAIT_S = 1.0


@dataclass(frozen=True)
class LiveAttempt:
    """What belongs to the attempt that runs.

    Attributes:
        pool: Its slots.
        spark: Spark's logs.
        tracker: Its epochs.
    """

    pool: SlotPool
    spark: SparkCheckpointDirectory
    tracker: EpochTracker


@dataclass(frozen=True)
class LeftByAttempt:
    """What an attempt that is over leaves to be given up.

    Attributes:
        checkpoints: Those that were under way.
        requests: Those that waited.
    """

    checkpoints: list[RunningCheckpoint]
    requests: list[CheckpointRequest]


@dataclass(frozen=True)
class Subsumed:
    """What is of no use any more, now that a checkpoint is complete.

    Attributes:
        completed: To be deleted.
        overtaken: Under way, to be given up.
        lowest_base: The oldest checkpoint whose files may be named by one that stays under way; None for none.
    """

    completed: list[CompletedCheckpoint]
    overtaken: list[RunningCheckpoint]
    lowest_base: int | None


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
        self._stages: dict[str, int] = {}  # by task: the stage of its exchange in the running epoch
        self._attempt: LiveAttempt | None = None  # None between attempts
        self._on_intolerable: Callable[[PystateError], None] = lambda _: None
        self._syncing = False
        self._beginning = False  # an epoch is about to begin: no barrier may be placed in front of it any more
        self._triggering = False  # a checkpoint is being triggered whose place among the epochs is not open yet
        self._stopped = False  # a savepoint is complete behind which no epoch may begin
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
            self._on_intolerable = on_intolerable
            self._failures.reset()
            self._confirmed.restart()
            self._decider.restart()
            self._lock.notify_all()

    def end_attempt(self, pool: SlotPool | None) -> LeftByAttempt:
        """End the attempt: whoever waits in it gets AttemptOverError.

        Args:
            pool: Its slots; nothing is done where another attempt has begun since. None for whichever attempt runs.
        """
        with self._lock:
            if pool is not None and self._attempt is not None and pool is not self._attempt.pool:
                return LeftByAttempt([], [])
            self._attempt = None
            self._running.rider = None
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
            reserve: Reserves its number. Called under the lock: a barrier must not come between.

        Raises:
            AttemptOverError: The attempt ends instead.
            PystateError: The number can't be reserved; it is nobody's turn then.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._attempt is None or not (self._syncing or self._held() or self._overtakes()))
            self._live()
            reserve()
            self._beginning = True

    def begin_epoch(self, epoch: int, barrier: RunningCheckpoint | None) -> None:
        """Begin an epoch whose turn it is.

        Args:
            epoch: Which.
            barrier: The checkpoint that rides on it from the start, or None.

        Raises:
            ControlError: Another one runs, or it is not behind the last one; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._live().tracker.begin(epoch)
            if barrier is not None:
                self._running.add_rider(barrier)

    def turn_over(self) -> None:
        """Take note that the epoch whose turn it was has begun, or failed to."""
        with self._lock:
            self._beginning = False
            self._lock.notify_all()

    def missing(self) -> list[SubtaskId]:
        """Return the subtasks that have not finished the running epoch."""
        with self._lock:
            return self._live().tracker.missing()

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
            attempt = self._live()
            attempt.tracker.finish(epoch, batch)
            for entry in self._running.of_epoch(epoch):
                _capture(entry, attempt.spark, batch)
                if self._running.rider is entry:
                    self._running.rider = None
            self._lock.notify_all()

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
            first = self._live().tracker.decide((uid, subtask), epoch)
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
            if self._live().tracker.subtask_finished((uid, subtask), epoch):
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
            AttemptOverError: No attempt runs.
        """
        with self._lock:
            self._live()
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

    def triggered(self, entry: RunningCheckpoint | None) -> bool:
        """Take in a checkpoint that was triggered, None for one that couldn't be; return whether the attempt still runs.

        It is not taken in where the attempt has ended.
        """
        with self._lock:
            self._triggering = False
            in_time = self._attempt is not None
            if entry is not None and in_time:
                self._running.add_rider(entry)
            self._lock.notify_all()
        return in_time

    def begin_snapshot(self, entry: RunningCheckpoint) -> tuple[SlotPool, SnapshotRequest] | None:
        """Place a barrier behind the last finished epoch, and let no epoch begin until `end_snapshot`.

        Returns:
            Who is asked for what; None where an epoch that began, or is about to, takes the barrier along, or the attempt
            has ended.
        """
        with self._lock:
            attempt = self._attempt
            if attempt is None or attempt.tracker.running is not None or self._beginning:
                return None
            if self._running.rider is not entry:
                return None
            tracker = attempt.tracker
            self._running.rider = None
            self._syncing = True
            entry.alignment = {task.uid: 0 for task in self._tasks}  # no row is under way that could be waited for
            entry.pending.epoch = tracker.finished
            _capture(entry, attempt.spark, tracker.finished_batch)
            return attempt.pool, self._snapshot_request(entry, tracker.finished)

    def end_snapshot(self, entry: RunningCheckpoint, error: PystateError | None) -> None:
        """Take note that the synchronous part of a snapshot between epochs is over, with or without an error."""
        with self._lock:
            entry.error = entry.error or error
            self._syncing = False
            self._lock.notify_all()

    def begin_finalizing(self, entry: RunningCheckpoint) -> tuple[SparkCheckpointDirectory, SourceFiles] | None:
        """Let a checkpoint outlive its attempt from now on: its metadata is about to be written.

        Returns:
            Spark's logs, and what was captured of them; None where it is too late for that.
        """
        with self._lock:
            attempt, sources = self._attempt, entry.sources
            if sources is None or attempt is None or self._running.get(entry.pending.checkpoint_id) is None:
                return None
            entry.finalizing = True
            return attempt.spark, sources

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
        self, entry: RunningCheckpoint, reason: CheckpointFailureReason, error: PystateError, *, leaves_files: bool
    ) -> Callable[[PystateError], None] | None:
        """Let a checkpoint go that was aborted; return what ends the attempt, where it must end for that.

        Args:
            entry: Which.
            reason: Why.
            error: The same for people.
            leaves_files: Whether what lies at its location is to be deleted, also what comes late.
        """
        pending = entry.pending
        with self._lock:
            self._running.remove(entry)
            if leaves_files:
                self._failed.add(pending.checkpoint_id, entry.location)
            counts = not pending.is_savepoint and self._attempt is not None
            decision = self._failures.handle_failure(pending.checkpoint_id, reason, is_savepoint=pending.is_savepoint)
            self._statistics.tracker.report_failed(pending, reason, error.message)
            # without its checkpoint an epoch that carries a barrier could not be run again
            if isinstance(error, DriverReplacedError) or (self._settings.every_epoch and counts):
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

    def savepoint_progress(self) -> tuple[int, int, int]:
        """Return of the savepoint in progress: subtasks that acknowledged, all subtasks, bytes so far."""
        with self._lock:
            pending = self._running.savepoint()
            if pending is not None:
                return pending.acknowledged_count, pending.total_count, pending.state_size
            return 0, len(self._subtasks()), 0

    # -- under the lock

    def _subtasks(self) -> list[SubtaskId]:
        return [(task.uid, index) for task in self._tasks for index in range(task.parallelism)]

    def _live(self) -> LiveAttempt:
        if self._attempt is None:
            message = "The execution attempt is over."
            raise AttemptOverError(message)
        return self._attempt

    def _held(self) -> bool:
        """Whether a savepoint is under way or complete behind which no epoch may begin."""
        return self._stopped or self._running.hold_epochs

    def _overtakes(self) -> bool:
        """Whether an epoch that is to carry a barrier would overtake the barrier before, or one that is being triggered."""
        placed = self._triggering or self._running.rider is not None
        return self._settings.every_epoch and (placed or self._running.for_recovery)

    def _snapshot_request(self, entry: RunningCheckpoint, epoch: int) -> SnapshotRequest:
        target = self._points.shared.target(entry.pending.checkpoint_id)
        if entry.confirmed is None and target[0] is not None and not entry.pending.is_savepoint:
            entry.confirmed = self._confirmed.barrier()  # once: all subtasks get the same answer
        return entry.snapshot_request(epoch, target, self._settings.inline_threshold(entry.location))

    def _next_step(self) -> CoordinatorStep | None:
        now = self._clock()
        for entry in self._running:
            step = self._next_step_for(entry, now)
            if step is not None:
                return step
        late = self._failed.take_late()
        if late:
            return DiscardLateParts(late)
        if self._attempt is None or self._beginning:
            return None
        rider = self._running.rider
        if rider is not None:
            between = self._attempt.tracker.running is None and not self._syncing
            return SnapshotBetweenEpochs(rider) if between else None
        request = self._decider.next_request(len(self._running))
        if request is None:
            return None
        self._triggering = True
        return TriggerCheckpoint(request)

    def _next_step_for(self, entry: RunningCheckpoint, now: float) -> CoordinatorStep | None:
        if entry.error is not None:
            return FailCheckpoint(entry, CheckpointFailureReason.CHECKPOINT_DECLINED, entry.error)
        if now >= entry.deadline:
            expired = CheckpointFailedError(f"The checkpoint did not complete within {self._settings.timeout_s:g} s.")
            return FailCheckpoint(entry, CheckpointFailureReason.CHECKPOINT_EXPIRED, expired)
        if entry.sources is None or self._attempt is None or not entry.pending.is_fully_acknowledged:
            return None
        # the commit of the cut's epoch comes after its sinks; until then the checkpoint must not be restored from
        return CompleteCheckpoint(entry) if self._attempt.spark.is_committed(entry.sources.batch) else None

    def _wait_s(self) -> float:
        if any(entry.pending.is_fully_acknowledged and entry.sources is not None for entry in self._running):
            return _COMMIT_POLL_S
        if self._attempt is None or self._running.rider is not None:
            return _IDLE_WAIT_S
        wait_ms = self._decider.wait_ms(len(self._running))
        return _IDLE_WAIT_S if wait_ms is None else min(_IDLE_WAIT_S, wait_ms / 1000)


def _capture(entry: RunningCheckpoint, spark: SparkCheckpointDirectory, batch: int) -> None:
    """Copy Spark's logs at the cut, before the next epoch adds to them."""
    try:
        entry.sources = SourceFiles(batch, spark.capture(batch))
    except SnapshotError as error:
        entry.error = error
