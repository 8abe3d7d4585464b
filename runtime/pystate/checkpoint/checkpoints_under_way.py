"""Which checkpoints are asked for, under way and ended: what the coordinator decides on, behind one lock.

Decisions only. Each method is one step that no other thread sees half done; slots, futures and the storage of checkpoints
are the coordinator's, which acts on what a step returns and holds no lock meanwhile. Where a barrier stands among the
records is decided by the attempt's engine (`BarrierPlacement`), under the same lock.

When a checkpoint expires: its time runs while nothing stands between it and its cut. A subtask that has its barrier has as
much time for its synchronous part; one that needs more hangs, and the attempt ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pystate.checkpoint.barrier_placement import BarrierPlacement
from pystate.checkpoint.checkpoint_request import CheckpointRequest
from pystate.checkpoint.checkpoint_settings import CheckpointSettings
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.confirmed_checkpoints import ConfirmedCheckpoints
from pystate.checkpoint.coordinator_steps import (
    CompleteCheckpoint,
    CoordinatorStep,
    DiscardLateParts,
    FailCheckpoint,
    GiveUpStorageStep,
    PlaceBarrier,
    StorageStep,
    TriggerCheckpoint,
)
from pystate.checkpoint.failure_manager import CheckpointFailureDecision, CheckpointFailureManager
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.live_attempt import AttemptOverError, CheckpointSlots, LeftByAttempt, LiveAttempt, Subsumed
from pystate.checkpoint.pending_checkpoint import AckResult, PendingCheckpoint
from pystate.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.checkpoint.request_decider import CheckpointRequestDecider
from pystate.checkpoint.restore_points import RestorePoints
from pystate.checkpoint.snapshot_disposal import FailedCheckpoints
from pystate.checkpoint.stats.file import StatisticsFile
from pystate.common.errors import DriverReplacedError, PystateError
from pystate.snapshot.barrier import CheckpointBarrier
from pystate.snapshot.metadata import CheckpointMetadata, CheckpointType, TaskState
from pystate.snapshot.snapshot import Snapshot
from pystate.snapshot.source_cut import SourceCut
from pystate.snapshot.storage import SnapshotLocation
from pystate.snapshot.subtask_metrics import SubtaskCheckpointMetrics

_COMMIT_POLL_S = 0.01
_IDLE_WAIT_S = 1.0


class CheckpointsUnderWay:
    """The checkpoints under way, and those that someone waits for.

    Args:
        settings: The options of checkpointing.
        points: What an attempt can start from; its decisions are made under this lock, its effects are the coordinator's.
        statistics: Told in step with what happens here.
        clock: Monotonic seconds.

    Attributes:
        lock: Held around each step, and by engines around theirs.
    """

    def __init__(
        self, settings: CheckpointSettings, points: RestorePoints, statistics: StatisticsFile, clock: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._points = points
        self._statistics = statistics
        self._clock = clock
        self.lock = threading.Condition()
        self._decider: CheckpointRequestDecider[CheckpointRequest] = CheckpointRequestDecider(
            lambda: int(clock() * 1000),
            lambda: CheckpointRequest(CheckpointType.CHECKPOINT),
            interval_ms=settings.interval_ms,
            min_pause_ms=settings.min_pause_ms,
            max_concurrent=settings.max_concurrent,
        )
        self._failures = CheckpointFailureManager(settings.tolerable_failures)
        self._running = PendingCheckpoints()
        self._failed = FailedCheckpoints()
        self._confirmed = ConfirmedCheckpoints()
        self._subtasks = 0
        self._attempt: LiveAttempt | None = None  # None between attempts
        self._had_attempt = False
        self._on_intolerable: Callable[[PystateError], None] = lambda _: None
        self._storage_step: StorageStep | None = None  # under way on a thread of its own, as it may hang
        self._storage_deadline = 0.0
        self._stopped = False  # a savepoint is complete behind which no epoch may begin
        self._job_ends = False
        self._closed = False

    # -- the job and its attempts

    def start(self, subtasks: int) -> None:
        """Take note of how many subtasks the job has."""
        with self.lock:
            self._subtasks = subtasks

    def begin_attempt(
        self,
        pool: CheckpointSlots,
        barriers: BarrierPlacement,
        on_intolerable: Callable[[PystateError], None],
    ) -> None:
        """Begin an attempt; see `CheckpointCoordinator.attempt_started`."""
        with self.lock:
            self._attempt = LiveAttempt(pool, barriers)
            self._had_attempt = True
            self._on_intolerable = on_intolerable
            self._failures.reset()
            self._confirmed.restart()
            self._decider.restart()
            self.lock.notify_all()

    def end_attempt(self, pool: CheckpointSlots | None, *, job_ends: bool = False) -> LeftByAttempt:
        """End the attempt: whoever waits in it gets AttemptOverError.

        Args:
            pool: Its slots; nothing is done where another attempt has begun since. None for whichever attempt runs.
            job_ends: Nobody wants the checkpoints any more that are under way.
        """
        with self.lock:
            if pool is not None and self._attempt is not None and pool is not self._attempt.pool:
                return LeftByAttempt([], [])
            if self._attempt is not None:
                self._attempt.barriers.end()
            self._attempt = None
            self._job_ends = self._job_ends or job_ends
            self._stopped = False
            # one whose metadata is being written is whole: it is completed, and the next attempt starts from it
            entries = [entry for entry in self._running if not entry.finalizing]
            requests = self._decider.stop()
            self.lock.notify_all()
            return LeftByAttempt(entries, requests)

    @property
    def job_ends(self) -> bool:
        """Whether the job was stopped or cancelled, or has finished: no attempt begins any more."""
        with self.lock:
            return self._job_ends

    @property
    def pool(self) -> CheckpointSlots | None:
        """The slots of the attempt that runs; None where none does."""
        with self.lock:
            return None if self._attempt is None else self._attempt.pool

    def close(self) -> None:
        """End `await_step`: there is nothing to do any more."""
        with self.lock:
            self._closed = True
            self.lock.notify_all()

    def latest_snapshot(self) -> Snapshot | None:
        """Return what a new attempt starts from, see `RestorePoints.latest`.

        Waits for a checkpoint whose metadata is being written, so that it isn't completed behind the new attempt's back.
        """
        with self.lock:
            self.lock.wait_for(lambda: not self._running.finalizing)
            return self._points.latest()

    def give_up_latest(self) -> bool:
        """Forget the latest checkpoint, which is damaged; return whether an older one of the job is there to restore."""
        with self.lock:
            return self._points.give_up_latest()

    # -- the protocol with the subtasks

    def acknowledge(
        self, checkpoint_id: int, uid: str, subtask: int, state: TaskState, metrics: SubtaskCheckpointMetrics
    ) -> AckResult:
        """Take a subtask's part of a checkpoint."""
        with self.lock:
            entry = self._running.get(checkpoint_id)
            if entry is None:
                result = AckResult.UNKNOWN
                self._failed.report_late(checkpoint_id)
            else:
                result = entry.acknowledge(uid, subtask, state)
                entry.handed_out.pop((uid, subtask), None)
                if result is AckResult.SUCCESS:
                    self._statistics.tracker.report_ack(checkpoint_id, uid, subtask, metrics)
                    too_large = self._settings.check_size(entry.location, entry.state_size)
                    if too_large is not None:
                        entry.give_up(too_large)
            self.lock.notify_all()
        return result

    def decline(
        self,
        checkpoint_id: int,
        error: PystateError,
        reason: CheckpointFailureReason = CheckpointFailureReason.CHECKPOINT_DECLINED,
    ) -> None:
        """Take note that a subtask's part of a checkpoint failed."""
        with self.lock:
            entry = self._running.get(checkpoint_id)
            if entry is not None:
                entry.give_up(error, reason)
            else:
                self._failed.report_late(checkpoint_id)
            self.lock.notify_all()

    # -- checkpoints

    def submit(self, request: CheckpointRequest) -> CheckpointRequest | None:
        """Let a request wait for its turn; return one that has no room, this one or another.

        Raises:
            AttemptOverError: No attempt runs; says what the job does instead, and when to ask again.
        """
        with self.lock:
            if self._attempt is None:
                raise self._not_running()
            rejected = self._decider.submit(request)
            self.lock.notify_all()
        return rejected

    def await_step(self) -> CoordinatorStep | None:
        """Wait for something to be done, and return it; None after `close`."""
        while True:
            self.settle_cuts()
            with self.lock:
                if self._closed:
                    return None
                step = self._next_step()
                if step is not None:
                    return step
                self.lock.wait(self._wait_s())

    def triggering(self, entry: PendingCheckpoint) -> bool:
        """Take in a checkpoint whose directory is about to be made; return whether the attempt still runs."""
        with self.lock:
            in_time = self._attempt is not None
            if in_time:
                self._running.add(entry)
            self.lock.notify_all()
        return in_time

    def triggered(self, entry: PendingCheckpoint | None) -> bool:
        """Let a checkpoint that was triggered wait for its place, None for one that couldn't be.

        Returns:
            Whether it is still wanted: it hasn't failed meanwhile, no other one has taken its place while the storage hung,
            and the attempt hasn't ended.
        """
        with self.lock:
            barriers = self._barriers
            in_time = barriers is not None and barriers.is_open
            in_time = in_time and not (entry is not None and entry.is_aborted)
            if barriers is not None and entry is not None and in_time:
                self._running.add(entry)
                barriers.wait_for_place(entry)
            self.lock.notify_all()
        return in_time

    def storage_done(self, step: StorageStep) -> None:
        """Take note that a step is over, so that the next one may begin; nothing where it was given up."""
        with self.lock:
            if self._storage_step is step:
                self._storage_step = None
            self.lock.notify_all()

    def await_storage(self, timeout_s: float) -> dict[int, SnapshotLocation]:
        """Wait, behind `close`, for the step that is under way; return what is still to be deleted, by checkpoint."""
        with self.lock:
            self.lock.wait_for(lambda: self._storage_step is None, timeout_s)
            return self._failed.take_late()

    def place(self, entry: PendingCheckpoint) -> Callable[[], None] | None:
        """Have the engine place a barrier, see `BarrierPlacement.place`; None where that is not possible any more."""
        with self.lock:
            barriers = self._barriers
            return None if barriers is None else barriers.place(entry)

    def let_time_run(self, entry: PendingCheckpoint) -> None:
        """Let a checkpoint's time run from now on: its barrier is placed, or can be."""
        with self.lock:
            entry.deadline = self._clock() + self._settings.timeout_s
            self._statistics.tracker.report_waiting(entry.checkpoint_id, None)

    def let_time_stand(self, entry: PendingCheckpoint, epoch: int) -> None:
        """Let a checkpoint's time stand still while an epoch runs, whose end its barrier waits for."""
        with self.lock:
            entry.deadline = None
            self._statistics.tracker.report_waiting(entry.checkpoint_id, epoch)

    def take(self, entry: PendingCheckpoint) -> None:
        """Take in a checkpoint whose barrier the engine places by itself."""
        with self.lock:
            self._running.add(entry)

    def settle_cuts(self) -> None:
        """Take note which cuts can be restored from by now. Reads files, so not under the lock."""
        with self.lock:
            open_cuts = [] if self._attempt is None else [entry for entry in self._running if not entry.committed]
        for entry in open_cuts:
            entry.settle_cut()

    def of_epoch(self, epoch: int) -> list[PendingCheckpoint]:
        """Return those whose barrier stands behind that epoch."""
        with self.lock:
            return self._running.of_epoch(epoch)

    def subtasks_answered(self, index: int) -> None:
        """Take note that the subtasks of that index hang in no barrier."""
        with self.lock:
            for entry in self._running:
                entry.handed_out = {subtask: since for subtask, since in entry.handed_out.items() if subtask[1] != index}

    def barrier(self, entry: PendingCheckpoint, epoch: int | None = None) -> CheckpointBarrier:
        """Return the barrier of a checkpoint, the same each time.

        Args:
            entry: Which.
            epoch: Behind which epoch it stands, for an engine that has epochs.
        """
        with self.lock:
            target = self._points.shared.target(entry.checkpoint_id)
            if entry.confirmed is None and target[0] is not None and not entry.is_savepoint:
                entry.confirmed = self._confirmed.barrier()  # once: all subtasks get the same answer
            return entry.barrier(epoch, target, self._settings.inline_threshold(entry.location))

    @property
    def hold(self) -> bool:
        """Whether a savepoint is under way or complete behind which nothing may come."""
        with self.lock:
            return self._stopped or self._running.hold_epochs

    @property
    def is_triggering(self) -> bool:
        """Whether a checkpoint is being triggered, whose place is not open yet."""
        with self.lock:
            return isinstance(self._storage_step, TriggerCheckpoint)

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is one under way that is no savepoint."""
        with self.lock:
            return self._running.for_recovery

    def begin_finalizing(self, entry: PendingCheckpoint) -> SourceCut | None:
        """Let a checkpoint outlive its attempt from now on: its metadata is about to be written.

        Returns:
            How far the sources were read; None where it is too late for that.
        """
        with self.lock:
            cut = entry.cut
            if cut is None or self._attempt is None or entry.is_aborted:
                return None
            entry.finalizing = True
            return cut

    def settle(
        self, entry: PendingCheckpoint, metadata: CheckpointMetadata, completion_timestamp: int
    ) -> CompletedCheckpoint | None:
        """Decide that a checkpoint whose metadata is written has ended well; None where it expired meanwhile."""
        with self.lock:
            return None if entry.is_aborted else entry.complete(metadata, completion_timestamp)

    def abort(self, entry: PendingCheckpoint, reason: CheckpointFailureReason) -> bool:
        """Decide that a checkpoint has failed; return whether it hadn't ended before. `fail` has to be called behind it."""
        with self.lock:
            return entry.abort(reason)

    def complete(self, entry: PendingCheckpoint, completed: CompletedCheckpoint) -> Subsumed:
        """Take in a checkpoint whose metadata is written; return those it subsumes."""
        tracker = self._statistics.tracker
        with self.lock:
            self._let_go(entry)
            self._stopped = self._stopped or (entry.request.hold and self._attempt is not None)
            subsumed = self._points.add(completed)
            self._failures.handle_success()
            if not entry.is_savepoint:
                self._confirmed.add(entry.checkpoint_id, entry.confirmed)
            self._decider.report_completed(entry.checkpoint_type)
            tracker.report_alignment(entry.checkpoint_id, entry.alignment)
            tracker.report_completed(completed)
            overtaken = [] if entry.is_savepoint else self._running.older_than(entry.checkpoint_id)
            lowest_base = self._running.lowest_base(besides=overtaken)
            self.lock.notify_all()
        return Subsumed(subsumed, overtaken, lowest_base)

    def fail(
        self,
        entry: PendingCheckpoint,
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
        with self.lock:
            self._let_go(entry)
            if leaves_files:
                self._failed.add(entry.checkpoint_id, entry.location)
                if not entry.finalizing:  # else it is deleted behind the write of its metadata
                    self._failed.report_late(entry.checkpoint_id)
            counts = not entry.is_savepoint and self._attempt is not None
            decision = self._failures.handle_failure(entry.checkpoint_id, reason, is_savepoint=entry.is_savepoint)
            if self._job_ends and not entry.is_savepoint:
                self._statistics.tracker.withdraw(entry.checkpoint_id)
            else:
                self._statistics.tracker.report_failed(entry, reason, error.message)
            # an engine that brings its checkpoints itself can't repeat what follows the one before
            if fails_attempt or isinstance(error, DriverReplacedError) or (self._settings.engine_triggers and counts):
                decision = CheckpointFailureDecision.FAIL_JOB
            on_intolerable = self._on_intolerable
            self.lock.notify_all()
        return on_intolerable if decision is CheckpointFailureDecision.FAIL_JOB else None

    # -- how far things are

    def savepoint_progress(self) -> dict[str, int]:
        """Return of the savepoint in progress: `acknowledged` subtasks, the `total` of them, `bytes` so far.

        With what its barrier waits for, see `BarrierPlacement.waits`; `waits_since` is then when it was triggered, ms since
        1970.
        """
        with self.lock:
            entry, barriers = self._running.savepoint(), self._barriers
            waits = {} if barriers is None or (entry is not None and entry.cut is not None) else barriers.waits()
            if entry is None:
                return {"acknowledged": 0, "total": self._subtasks, "bytes": 0, **waits}
            if waits:
                waits["waits_since"] = entry.trigger_timestamp
            counts = {"acknowledged": entry.acknowledged_count, "total": entry.total_count}
            return {**counts, "bytes": entry.state_size, **waits}

    # -- under the lock

    @property
    def _barriers(self) -> BarrierPlacement | None:
        return None if self._attempt is None else self._attempt.barriers

    def _let_go(self, entry: PendingCheckpoint) -> None:
        self._running.remove(entry)
        if self._attempt is not None:
            self._attempt.barriers.withdraw(entry)

    def _not_running(self) -> AttemptOverError:
        if self._job_ends:
            return AttemptOverError("The job is ending: it takes no checkpoint or savepoint any more.")
        does = "restarting" if self._had_attempt else "starting"
        hint = f"try again in a moment, or wait for it: pystate wait {self._settings.storage.job_id} --for running"
        return AttemptOverError(f"The job is {does}: it can take no checkpoint or savepoint yet.", hint=hint)

    def _next_step(self) -> CoordinatorStep | None:
        now = self._clock()
        barriers = self._barriers
        for entry in self._running:
            syncing = barriers is not None and barriers.is_placing(entry)
            failure = entry.failure(now, self._settings.timeout_s, syncing=syncing)
            if failure is not None:
                return FailCheckpoint(entry, *failure)
        due = None if barriers is None else barriers.due()
        if due is not None:
            return PlaceBarrier(due)
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
            whole = entry.committed and entry.is_fully_acknowledged
            if whole and self._attempt is not None and not entry.finalizing:
                return CompleteCheckpoint(entry)
        late = self._failed.take_late()
        if late:
            return DiscardLateParts(late)
        barriers = self._barriers
        if barriers is None or not barriers.is_open or barriers.brings_own:
            return None
        request = self._decider.next_request(len(self._running))
        return None if request is None else TriggerCheckpoint(request)

    def _wait_s(self) -> float:
        if any(entry.cut is not None and not entry.committed for entry in self._running):
            return _COMMIT_POLL_S
        times = [at for entry in self._running for at in entry.deadlines(self._settings.timeout_s)]
        if self._storage_step is not None:
            times.append(self._storage_deadline)
        wait_s = max(0.0, min([_IDLE_WAIT_S, *(at - self._clock() for at in times)]))
        barriers = self._barriers
        if barriers is None or not barriers.is_open or self._storage_step is not None:
            return wait_s
        wait_ms = self._decider.wait_ms(len(self._running))
        return wait_s if wait_ms is None else min(wait_s, wait_ms / 1000)
