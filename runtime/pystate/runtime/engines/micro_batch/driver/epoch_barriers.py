"""Where barriers stand among the epochs of one attempt.

A checkpoint that is triggered while an epoch runs rides on that epoch, unless its subtasks are told already to finish it.
Between epochs it is taken at once at the last finished epoch, and the next epoch begins when the synchronous part is over.
So an idle stream never delays a savepoint. After the savepoint of a stop or a cancel no epoch begins, unless it fails.
"""

from __future__ import annotations

from collections.abc import Callable

from pystate.common.errors import CheckpointFailedError, PystateError
from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.checkpoint.pending_checkpoints import PendingCheckpoints
from pystate.runtime.engines.micro_batch.driver.epoch_slots import EpochSlots
from pystate.runtime.engines.micro_batch.driver.epoch_tracker import EpochTracker
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory
from pystate.runtime.engines.micro_batch.spark.spark_source_cut import SparkSourceCut
from pystate.runtime.plan.task import TaskSpec

_LONGEST_WAIT_S = 3600.0  # a lock takes no time that is as far off as timers may be


class EpochBarriers:
    """The `BarrierPlacement` of an attempt. Its steps are taken under the coordinator's lock.

    Args:
        pending: The checkpoints under way.
        slots: The attempt's.
        spark: Spark's logs.
        tasks: The job's.
        tracker: Where the epochs of the attempt stand.
        every_epoch: Whether each epoch carries a barrier.
        clock: Monotonic seconds.
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
        self._drains = False  # the last epoch is asked for
        self._closed = False  # it brings the barrier behind which the job ends, and no other one may come any more
        self._epoch_begun = 0.0  # by the clock, of the running epoch
        self._beginning = False  # an epoch is about to begin: no barrier may be placed in front of it any more
        self._rider: PendingCheckpoint | None = None  # its place among the epochs is still open
        self._syncing: PendingCheckpoint | None = None  # between two epochs

    # -- the coordinator's side

    @property
    def is_open(self) -> bool:
        """Whether no barrier waits for its place, and another one may have one."""
        return self._rider is None and not self._closed

    @property
    def takes_next(self) -> bool:
        """Whether no barrier waits for its place: behind one there is room for the next."""
        return self.is_open

    @property
    def brings_own(self) -> bool:
        """Whether an epoch is about to begin that brings a barrier of its own."""
        return self._beginning and (self._every_epoch or self._closed)

    def wait_for_place(self, checkpoint: PendingCheckpoint) -> None:
        """Let a barrier ride on the epoch that runs, or stand behind it."""
        self._rider = checkpoint
        self._wait_for_epoch()

    def due(self) -> PendingCheckpoint | None:
        """Return the barrier that can stand behind the last finished epoch."""
        between = self._tracker.running is None and not self._beginning and self._syncing is None
        return self._rider if between else None

    def place(self, checkpoint: PendingCheckpoint) -> Callable[[], None] | None:
        """Place a barrier behind the last finished epoch, and let no epoch begin until all have taken it.

        Returns:
            What asks the slots; None where an epoch that began, or is about to, takes the barrier along.
        """
        if self._over or self.due() is not checkpoint:
            return None
        batch = self._tracker.finished_batch
        self._rider = None
        self._syncing = checkpoint
        self._pending.resume_timeout(checkpoint)
        checkpoint.alignment = {task.uid: 0 for task in self._tasks}  # no row is under way that could be waited for
        checkpoint.epoch = self._tracker.finished
        barrier = self._pending.barrier(checkpoint)
        return lambda: self._ask_slots(checkpoint, barrier, batch)

    def is_placing(self, checkpoint: PendingCheckpoint) -> bool:
        """Whether the slots are being asked for it between two epochs."""
        return self._syncing is checkpoint

    def withdraw(self, checkpoint: PendingCheckpoint) -> None:
        """Forget a checkpoint that has ended."""
        if self._rider is checkpoint:
            self._rider = None
        if self._syncing is checkpoint:
            self._syncing = None

    def waits(self) -> dict[str, int]:
        """Return `waits_for_epoch` while an epoch runs, which has done so for `epoch_running` ms."""
        epoch = self._tracker.running
        if epoch is None:
            return {}
        return {"waits_for_epoch": epoch, "epoch_running": int((self._clock() - self._epoch_begun) * 1000)}

    def end(self) -> None:
        """The attempt is over: whoever waits gets AttemptOverError."""
        self._over = True
        self._rider = self._syncing = None

    # -- the side of epochs

    @property
    def over(self) -> bool:
        """Whether the attempt is over."""
        return self._over

    def check_live(self) -> None:
        """Make sure that the attempt isn't over.

        Raises:
            AttemptOverError: It is.
        """
        if self._over:
            message = "The execution attempt is over."
            raise AttemptOverError(message)

    def await_turn(self, reserve: Callable[[], None]) -> None:
        """Wait until nothing stands against the next epoch; from then on barriers ride on it, until `turn_over`.

        Args:
            reserve: Reserves its number; called once it is its turn, so that no barrier comes between.

        Raises:
            AttemptOverError: The attempt ends instead.
            PystateError: The number can't be reserved; it is nobody's turn then.
        """
        with self._lock:
            self._lock.wait_for(lambda: self._over or not (self._is_busy() or self._stands_against()))
            self.check_live()
            self._beginning = True
        self._reserve(reserve)

    def await_due_turn(self, wait_s: Callable[[float], float | None], reserve: Callable[[], None]) -> None:
        """Wait until something is due by the clock, no epoch runs, and nothing stands against one; see `await_turn`.

        Args:
            wait_s: Called with the seconds since an epoch began; returns how long there is to wait yet, None for ever.
            reserve: Reserves its number.

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
                    wait = None  # whatever it is tells when it is over
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
        """Wait until no epoch runs, and let none begin any more but the one that the caller begins now.

        Args:
            reserve: Reserves its number.
            brings_barrier: Whether it carries the barrier behind which the job ends. No other one is placed then, on it or
                behind it: the job would go on from there, at the end of event time, if that one fails.

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
        """Take note that the last epoch can't begin: others may again."""
        with self._lock:
            self._drains = self._closed = False
            self.turn_over()

    def turn_over(self) -> None:
        """Take note that the epoch whose turn it was has begun, or failed to."""
        with self._lock:
            self._beginning = False
            self._lock.notify_all()

    def epoch_begun(self, barrier: PendingCheckpoint | None) -> None:
        """Take note that an epoch has begun, with a barrier that rides on it from the start, or None."""
        self._epoch_begun = self._clock()
        if barrier is not None:
            self._rider = barrier
        self._wait_for_epoch()

    def at_end_of(self, epoch: int, *, first: bool) -> CheckpointBarrier | None:
        """Return the barrier that an epoch carries whose rows are all in, None where it carries none; the same each time.

        Args:
            epoch: Which.
            first: Whether nobody has asked before: a barrier that comes later stands behind the epoch.
        """
        rider = self._rider
        if first and rider is not None:
            rider.epoch = epoch
            rider.hand_out(self._clock())
        return None if rider is None or rider.epoch != epoch else self._pending.barrier(rider)

    def behind(self, epoch: int) -> list[PendingCheckpoint]:
        """Return the checkpoints under way whose barrier stands behind that epoch.

        None where the attempt is over: those under way then are another one's, whose epochs may have the same numbers.
        """
        if self._over:
            return []
        return [checkpoint for checkpoint in self._pending if checkpoint.epoch == epoch]

    def capture(self, epoch: int, batch: int) -> None:
        """Have the checkpoints behind an epoch take in how far the sources were read. Reads files, so not under the lock."""
        with self._lock:
            riding = self.behind(epoch)  # none is added: the barrier of this epoch is decided
        for checkpoint in riding:
            checkpoint.capture(lambda: SparkSourceCut.behind(self._spark, batch))

    def epoch_finished(self, epoch: int) -> None:
        """Take note that an epoch has ended: the barrier behind it has its place, and another one can have one."""
        for checkpoint in self.behind(epoch):
            if self._rider is checkpoint:
                self._rider = None
            self._pending.resume_timeout(checkpoint)
        if self._rider is not None:
            self._pending.resume_timeout(self._rider)
        self._lock.notify_all()

    # -- between two epochs

    def _ask_slots(self, checkpoint: PendingCheckpoint, barrier: CheckpointBarrier, batch: int) -> None:
        failure: tuple[CheckpointFailureReason, PystateError] | None = None
        checkpoint.capture(lambda: SparkSourceCut.behind(self._spark, batch))  # no epoch begins meanwhile
        try:
            self._slots.snapshot(barrier)
        except PystateError as declined:
            failure = CheckpointFailureReason.CHECKPOINT_DECLINED, declined
        except Exception as broken:  # whatever it was: no epoch would begin again
            error = CheckpointFailedError(f"The slots could not be asked for their part: {broken!r}")
            failure = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE, error
        with self._lock:
            if failure is not None:
                checkpoint.give_up(*failure)
            if self._syncing is checkpoint:
                self._syncing = None
            self._lock.notify_all()

    def _is_busy(self) -> bool:
        """Whether an epoch begins or runs, or slots are asked for their part of a snapshot between two."""
        return self._beginning or self._tracker.running is not None or self._syncing is not None

    def _is_ahead_of_last(self) -> bool:
        """Whether a barrier comes in front of the last epoch."""
        own = self._closed and (self._pending.is_triggering or self._rider is not None or self._pending.hold)
        return own or (self._every_epoch and self._pending.has_checkpoint)

    def _stands_against(self) -> bool:
        """Whether no epoch may begin."""
        return bool(self._drains or self._syncing or self._pending.hold or self._overtakes())

    def _overtakes(self) -> bool:
        """Whether an epoch that is to carry a barrier would overtake the barrier before, or one that is being triggered."""
        placed = self._pending.is_triggering or self._rider is not None
        return self._every_epoch and (placed or self._pending.has_checkpoint)

    def _wait_for_epoch(self) -> None:
        """Let the time of a barrier without a place stand still while an epoch runs, whose end it waits for."""
        rider, epoch = self._rider, self._tracker.running
        if rider is None:
            return
        if epoch is None:
            self._pending.resume_timeout(rider)
        else:
            self._pending.pause_timeout(rider, epoch)
