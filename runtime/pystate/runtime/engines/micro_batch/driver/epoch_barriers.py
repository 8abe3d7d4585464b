"""Places checkpoint barriers among the epochs of one attempt.

A checkpoint triggered while an epoch runs is carried by that epoch, unless its subtasks have already been told to finish it.
Between epochs the checkpoint is taken at once, at the last finished epoch, and the next epoch begins after the synchronous
part. So an idle stream never delays a savepoint. After the savepoint of a stop or a cancel no epoch begins, unless the
savepoint fails.
"""

from __future__ import annotations

from collections.abc import Callable

from pystate.common.errors import CheckpointFailedError, PystateError
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.engines.micro_batch.driver.epoch_slots import EpochSlots
from pystate.runtime.engines.micro_batch.driver.epoch_tracker import EpochTracker
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory
from pystate.runtime.engines.micro_batch.spark.spark_source_cut import SparkSourceCut
from pystate.runtime.plan.task import TaskSpec

_LONGEST_WAIT_S = 3600.0  # a lock's timeout can't be as long as the time to a timer may be


class EpochBarriers:
    """The `BarrierPlacement` of an attempt; its methods run under the coordinator's lock.

    Args:
        pending: The pending checkpoints.
        slots: The attempt's slots.
        spark: Spark's logs.
        tasks: The job's tasks.
        tracker: The state of the attempt's epochs.
        every_epoch: Whether each epoch carries a barrier.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        pending: PendingCheckpoints,
        slots: EpochSlots,
        spark: SparkCheckpointDirectory,
        tasks: list[TaskSpec],
        tracker: EpochTracker,
        *,
        every_epoch: bool,
        clock: Callable[[], float],
    ) -> None:
        self._pending = pending
        self._lock = pending.lock
        self._slots = slots
        self._spark = spark
        self._tasks = tasks
        self._tracker = tracker
        self._every_epoch = every_epoch
        self._clock = clock
        self._over = False
        self._drains = False  # the last epoch has been requested
        self._closed = False  # the last epoch carries the barrier after which the job ends; no other barrier is accepted
        self._epoch_begun = 0.0  # when the running epoch began, in seconds of the clock
        self._beginning = False  # an epoch is about to begin: no barrier may be placed before it any more
        self._rider: PendingCheckpoint | None = None  # the checkpoint whose place among the epochs is still open
        self._syncing: PendingCheckpoint | None = None  # the checkpoint that is taken between two epochs

    # -- called by the coordinator

    @property
    def is_open(self) -> bool:
        """Whether no barrier waits for its place and another one may be added."""
        return self._rider is None and not self._closed

    @property
    def takes_next(self) -> bool:
        """Whether no barrier waits for its place, so that the next one can be placed."""
        return self.is_open

    @property
    def brings_own(self) -> bool:
        """Whether an epoch that carries its own barrier is about to begin."""
        return self._beginning and (self._every_epoch or self._closed)

    def wait_for_place(self, checkpoint: PendingCheckpoint) -> None:
        """Have a barrier carried by the running epoch, or placed after it."""
        self._rider = checkpoint
        self._wait_for_epoch()

    def due(self) -> PendingCheckpoint | None:
        """Return the barrier that can be placed after the last finished epoch."""
        between = self._tracker.running is None and not self._beginning and self._syncing is None
        return self._rider if between else None

    def place(self, checkpoint: PendingCheckpoint) -> Callable[[], None] | None:
        """Place a barrier after the last finished epoch, and let no epoch begin until all slots have taken it.

        Returns:
            The call that asks the slots; None if an epoch that has begun, or is about to, carries the barrier.
        """
        if self._over or self.due() is not checkpoint:
            return None
        batch = self._tracker.finished_batch
        self._rider = None
        self._syncing = checkpoint
        self._pending.resume_timeout(checkpoint)
        checkpoint.alignment = {task.uid: 0 for task in self._tasks}  # no rows are in flight that alignment could wait for
        checkpoint.epoch = self._tracker.finished
        barrier = self._pending.barrier(checkpoint)
        return lambda: self._ask_slots(checkpoint, barrier, batch)

    def is_placing(self, checkpoint: PendingCheckpoint) -> bool:
        """Whether the slots are taking the checkpoint between two epochs."""
        return self._syncing is checkpoint

    def withdraw(self, checkpoint: PendingCheckpoint) -> None:
        """Forget a checkpoint that has ended."""
        if self._rider is checkpoint:
            self._rider = None
        if self._syncing is checkpoint:
            self._syncing = None

    def waits(self) -> dict[str, int]:
        """Return `waits_for_epoch` and `epoch_running`, the running epoch's duration in ms; empty if none runs."""
        epoch = self._tracker.running
        if epoch is None:
            return {}
        return {"waits_for_epoch": epoch, "epoch_running": int((self._clock() - self._epoch_begun) * 1000)}

    def end(self) -> None:
        """End the attempt: waiting callers get AttemptOverError."""
        self._over = True
        self._rider = self._syncing = None

    # -- called by the epochs

    @property
    def over(self) -> bool:
        """Whether the attempt is over."""
        return self._over

    def check_live(self) -> None:
        """Check that the attempt isn't over.

        Raises:
            AttemptOverError: It is.
        """
        if self._over:
            message = "The execution attempt is over."
            raise AttemptOverError(message)

    def await_turn(self, reserve: Callable[[], None]) -> None:
        """Wait until the next epoch may begin; barriers are then carried by it, until `turn_over`.

        Args:
            reserve: Reserves the epoch number; called once it is the epoch's turn, so that no barrier comes between.

        Raises:
            AttemptOverError: The attempt ends instead.
            PystateError: The number can't be reserved; the turn is given up.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._over or not (self._is_busy() or self._stands_against()))
            self.check_live()
            self._beginning = True
        self._reserve(reserve)

    def await_due_turn(self, wait_s: Callable[[float], float | None], reserve: Callable[[], None]) -> None:
        """Wait until a processing-time timer is due, no epoch runs and one may begin; see `await_turn`.

        Args:
            wait_s: Called with the seconds since the last epoch began; returns the remaining wait, or None for no limit.
            reserve: Reserves the epoch number.

        Raises:
            AttemptOverError: The attempt ends instead.
        """
        with self._lock:
            while True:
                self.check_live()
                wait = wait_s(self._clock() - self._epoch_begun)
                if wait is not None and wait <= 0:
                    if not (self._is_busy() or self._stands_against() or self._tracker.rows_first):
                        break
                    wait = None  # whatever blocks the epoch notifies when it is over
                self._lock.wait(None if wait is None else min(wait, _LONGEST_WAIT_S))
            self._beginning = True
        self._reserve(reserve)

    def _reserve(self, reserve: Callable[[], None]) -> None:
        try:
            reserve()  # not under the lock: the storage may hang
        except BaseException:
            self.turn_over()
            raise

    def await_last_turn(self, reserve: Callable[[], None], *, brings_barrier: bool) -> None:
        """Wait until no epoch runs, then let only the caller's epoch begin.

        Args:
            reserve: Reserves the epoch number.
            brings_barrier: Whether the epoch carries the barrier after which the job ends. No other barrier is placed on it
                or after it: if the last one fails, the job would resume from the other one, at the end of event time.

        Raises:
            AttemptOverError: The attempt ends instead.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._over or not self._tracker.rows_first)
            self._drains, self._closed = True, brings_barrier
            self._lock.wait_for(lambda: self._over or not (self._is_busy() or self._is_ahead_of_last()))
            self.check_live()
            self._beginning = True
        try:
            reserve()
        except BaseException:
            self.last_given_up()
            raise

    def last_given_up(self) -> None:
        """Record that the last epoch can't begin, so that others may again."""
        with self._lock:
            self._drains = self._closed = False
            self.turn_over()

    def turn_over(self) -> None:
        """Record that the epoch whose turn it was has begun, or failed to begin."""
        with self._lock:
            self._beginning = False
            self._lock.notify_all()

    def epoch_begun(self, barrier: PendingCheckpoint | None) -> None:
        """Record that an epoch has begun, with the barrier it carries from the start, or None."""
        self._epoch_begun = self._clock()
        if barrier is not None:
            self._rider = barrier
        self._wait_for_epoch()

    def at_end_of(self, epoch: int, *, first: bool) -> CheckpointBarrier | None:
        """Return the barrier of an epoch that has all its rows, or None; repeated calls return the same.

        Args:
            epoch: The epoch number.
            first: Whether this is the first call for the epoch: a later barrier is placed after the epoch.
        """
        rider = self._rider
        if first and rider is not None:
            rider.epoch = epoch
            rider.hand_out(self._clock())
        return None if rider is None or rider.epoch != epoch else self._pending.barrier(rider)

    def after(self, epoch: int) -> list[PendingCheckpoint]:
        """Return the pending checkpoints that are taken at the end of that epoch.

        Empty if the attempt is over: checkpoints pending then belong to another attempt, whose epochs may have the same
        numbers.
        """
        if self._over:
            return []
        return [checkpoint for checkpoint in self._pending if checkpoint.epoch == epoch]

    def capture(self, epoch: int, batch: int) -> None:
        """Capture the source offsets in the checkpoints of an epoch. Reads files, so it doesn't hold the lock."""
        with self._lock:
            riding = self.after(epoch)  # no other is added: the barrier of this epoch is decided
        for checkpoint in riding:
            checkpoint.capture(lambda: SparkSourceCut.after(self._spark, batch))

    def epoch_finished(self, epoch: int) -> None:
        """Record that an epoch has ended: its barrier has its place, and another barrier can be placed."""
        for checkpoint in self.after(epoch):
            if self._rider is checkpoint:
                self._rider = None
            self._pending.resume_timeout(checkpoint)
        if self._rider is not None:
            self._pending.resume_timeout(self._rider)
        self._lock.notify_all()

    # -- between two epochs

    def _ask_slots(self, checkpoint: PendingCheckpoint, barrier: CheckpointBarrier, batch: int) -> None:
        failure: tuple[CheckpointFailureReason, PystateError] | None = None
        checkpoint.capture(lambda: SparkSourceCut.after(self._spark, batch))  # no epoch begins meanwhile
        try:
            self._slots.snapshot(barrier)
        except PystateError as declined:
            failure = CheckpointFailureReason.CHECKPOINT_DECLINED, declined
        except Exception as broken:  # any error: otherwise no epoch would begin again
            error = CheckpointFailedError(f"The slots could not be asked for their part: {broken!r}")
            failure = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, error
        with self._lock:
            if failure is not None:
                checkpoint.give_up(*failure)
            if self._syncing is checkpoint:
                self._syncing = None
            self._lock.notify_all()

    def _is_busy(self) -> bool:
        """Whether an epoch begins or runs, or slots take their part of a snapshot between two epochs."""
        return self._beginning or self._tracker.running is not None or self._syncing is not None

    def _is_ahead_of_last(self) -> bool:
        """Whether a barrier is to be taken before the last epoch begins."""
        own = self._closed and (self._pending.is_triggering or self._rider is not None or self._pending.hold)
        return own or (self._every_epoch and self._pending.has_checkpoint)

    def _stands_against(self) -> bool:
        """Whether something keeps the next epoch from beginning."""
        return bool(self._drains or self._syncing or self._pending.hold or self._overtakes())

    def _overtakes(self) -> bool:
        """Whether an epoch with its own barrier would overtake the previous barrier, or one that is being triggered."""
        placed = self._pending.is_triggering or self._rider is not None
        return self._every_epoch and (placed or self._pending.has_checkpoint)

    def _wait_for_epoch(self) -> None:
        """Suspend the timeout of a barrier without a place while it waits for the end of the running epoch."""
        rider, epoch = self._rider, self._tracker.running
        if rider is None:
            return
        if epoch is None:
            self._pending.resume_timeout(rider)
        else:
            self._pending.pause_timeout(rider, epoch)
