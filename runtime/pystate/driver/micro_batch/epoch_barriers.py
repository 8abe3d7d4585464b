"""Where barriers stand among the epochs of one attempt.

A checkpoint that is triggered while an epoch runs rides on that epoch, unless its subtasks are told already to finish it.
Between epochs it is taken at once at the last finished epoch, and the next epoch begins when the synchronous part is over.
So an idle stream never delays a savepoint. After the savepoint of a stop or a cancel no epoch begins, unless it fails.
"""

from __future__ import annotations

from collections.abc import Callable

from pystate.checkpoint.checkpoints_under_way import CheckpointsUnderWay
from pystate.checkpoint.live_attempt import AttemptOverError
from pystate.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.common.errors import CheckpointFailedError, PystateError
from pystate.driver.micro_batch.epoch_tracker import EpochTracker
from pystate.driver.slot_pool import SlotPool
from pystate.plan.task import TaskSpec
from pystate.slot.micro_batch.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.snapshot.barrier import CheckpointBarrier
from pystate.spark.micro_batch.source_cut import SparkSourceCut
from pystate.spark.micro_batch.spark_checkpoint import SparkCheckpointDirectory


class EpochBarriers:
    """The epochs of one attempt, and the barriers among them. Its steps are taken under the coordinator's lock.

    Args:
        checkpoints: Those under way.
        pool: The attempt's slots.
        spark: Spark's logs.
        tasks: The job's.
        epoch: Where the restored state stands.
        batch: Spark's number of that epoch.
        every_epoch: Whether each epoch carries a barrier.
        clock: Monotonic seconds.

    Attributes:
        spark: Spark's logs.
    """

    def __init__(
        self,
        checkpoints: CheckpointsUnderWay,
        pool: SlotPool,
        spark: SparkCheckpointDirectory,
        tasks: list[TaskSpec],
        epoch: int,
        batch: int,
        *,
        every_epoch: bool,
        clock: Callable[[], float],
    ) -> None:
        self.spark = spark
        self._checkpoints = checkpoints
        self._lock = checkpoints.lock
        self._pool = pool
        self._tasks = tasks
        self._subtasks = [(task.uid, index) for task in tasks for index in range(task.parallelism)]
        self._tracker = EpochTracker(self._subtasks, epoch, batch)
        self._every_epoch = every_epoch
        self._clock = clock
        self._over = False
        self._epoch_begun = 0.0  # by the clock, of the running epoch
        self._beginning = False  # an epoch is about to begin: no barrier may be placed in front of it any more
        self._rider: PendingCheckpoint | None = None  # its place among the epochs is still open
        self._syncing: PendingCheckpoint | None = None  # between two epochs

    # -- where the next barrier goes: `BarrierPlacement`

    @property
    def is_open(self) -> bool:
        """Whether no barrier waits for its place."""
        return self._rider is None

    @property
    def brings_own(self) -> bool:
        """Whether an epoch is about to begin that brings a barrier of its own."""
        return self._beginning and self._every_epoch

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
        epoch, batch = self._tracker.finished, self._tracker.finished_batch
        self._rider = None
        self._syncing = checkpoint
        self._checkpoints.let_time_run(checkpoint)
        checkpoint.alignment = {task.uid: 0 for task in self._tasks}  # no row is under way that could be waited for
        checkpoint.epoch = epoch
        barrier = self._checkpoints.barrier(checkpoint, epoch)
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

    def _ask_slots(self, checkpoint: PendingCheckpoint, barrier: CheckpointBarrier, batch: int) -> None:
        error: PystateError | None = None
        checkpoint.capture(lambda: SparkSourceCut.behind(self.spark, batch))  # no epoch begins meanwhile
        try:
            self._pool.snapshot(barrier)
        except PystateError as declined:
            error = declined
        except Exception as broken:  # whatever it was: no epoch would begin again
            error = CheckpointFailedError(f"The slots could not be asked for their part: {broken!r}")
        with self._lock:
            if error is not None:
                checkpoint.give_up(error)
            if self._syncing is checkpoint:
                self._syncing = None
            self._lock.notify_all()

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
            self._lock.wait_for(lambda: self._over or not (self._syncing or self._checkpoints.hold or self._overtakes()))
            self._check_live()
            self._beginning = True
        try:
            reserve()  # not under the lock: the storage may hang
        except BaseException:
            self.turn_over()
            raise

    def begin_epoch(self, epoch: int, barrier: PendingCheckpoint | None) -> None:
        """Begin an epoch whose turn it is.

        Args:
            epoch: Which.
            barrier: The checkpoint that rides on it from the start, or None.

        Raises:
            ControlError: Another one runs, or it is not behind the last one; AttemptOverError if the attempt has ended.
        """
        self._checkpoints.settle_cuts()  # Spark has committed the epoch before, and keeps commits for a while
        with self._lock:
            self._check_live()
            if barrier is not None and barrier.is_aborted:
                message = f"Checkpoint {barrier.checkpoint_id}, which epoch {epoch} was to carry, has failed."
                raise AttemptOverError(message)
            self._tracker.begin(epoch)
            self._epoch_begun = self._clock()
            if barrier is not None:
                self._checkpoints.take(barrier)
                self._rider = barrier
            self._wait_for_epoch()

    def turn_over(self) -> None:
        """Take note that the epoch whose turn it was has begun, or failed to."""
        with self._lock:
            self._beginning = False
            self._lock.notify_all()

    def subtask_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Take note that a subtask has got all rows of the running epoch.

        Raises:
            ControlError: That epoch doesn't run; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._check_live()
            self._tracker.prepare((uid, subtask), prepared)

    def unprepared(self) -> list[SubtaskId]:
        """Return the subtasks that have not got all rows of the running epoch."""
        with self._lock:
            self._check_live()
            return self._tracker.unprepared()

    def prepared_subtasks(self) -> dict[SubtaskId, PreparedEpoch]:
        """Return what each subtask that has got all rows of the running epoch has told of them."""
        with self._lock:
            self._check_live()
            return dict(self._tracker.prepared)

    def decide(self, epoch: int) -> CheckpointBarrier | None:
        """Return the barrier that an epoch carries, None where it carries none; the same each time.

        Raises:
            ControlError: The epoch isn't at its end; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._check_live()
            first = self._tracker.decide(epoch)
            rider = self._rider
            if first and rider is not None:
                rider.epoch = epoch
            if rider is None or rider.epoch != epoch:
                return None
            if first:
                rider.handed_out = dict.fromkeys(self._subtasks, self._clock())
            return self._checkpoints.barrier(rider, epoch)

    def slot_finished(self, slot: int) -> None:
        """Take note that a slot's subtasks have finished the epoch that is decided, and hang in no barrier of it."""
        self._checkpoints.subtasks_answered(slot)

    def subtasks_finished(self, epoch: int) -> dict[SubtaskId, PreparedEpoch]:
        """Take note that the changes of an epoch are in all subtasks' backends.

        Returns:
            What each subtask has told of it; nothing where that is known already.
        """
        with self._lock:
            self._check_live()
            return dict(self._tracker.prepared) if self._tracker.subtasks_finished(epoch) else {}

    def stages_of_barrier(self, epoch: int) -> tuple[dict[str, int], int]:
        """Return what is to be measured for the barrier on an epoch: the stage of each task's exchange, the trigger time.

        No stages where it carries none.
        """
        with self._lock:
            riding = self._checkpoints.of_epoch(epoch)
            if not riding:
                return {}, 0
            self._check_live()
            prepared = self._tracker.prepared
            return {uid: share.stage_id for (uid, _), share in prepared.items()}, riding[0].trigger_timestamp

    def report_alignment(self, epoch: int, milliseconds: dict[str, int | None]) -> None:
        """Take note, by task, how long the epoch's upstream partitions were apart at their ends."""
        with self._lock:
            for entry in self._checkpoints.of_epoch(epoch):
                entry.alignment = milliseconds

    def finish_epoch(self, epoch: int, batch: int) -> None:
        """End an epoch: all subtasks have run it and all sinks have its output. Spark commits it next."""
        for entry in self._checkpoints.of_epoch(epoch):  # none is added: the barrier of this epoch is decided
            entry.capture(lambda: SparkSourceCut.behind(self.spark, batch))
        with self._lock:
            self._check_live()
            self._tracker.finish(epoch, batch)
            for entry in self._checkpoints.of_epoch(epoch):
                if self._rider is entry:
                    self._rider = None
                self._checkpoints.let_time_run(entry)
            if self._rider is not None:
                self._checkpoints.let_time_run(self._rider)
            self._lock.notify_all()

    # -- how far they are

    @property
    def finished(self) -> int | None:
        """The last finished epoch; None where the attempt is over."""
        with self._lock:
            return None if self._over else self._tracker.finished

    def running_in(self, slot: int) -> str:
        """Say which epoch a slot runs, and in which operators it had not ended; nothing between two epochs."""
        with self._lock:
            tracker = self._tracker
            if self._over or tracker.running is None:
                return ""
            missing = tracker.unprepared() or tracker.missing()
            left = [repr(task.uid) for task in self._tasks if (task.uid, slot) in missing]
            return f", while epoch {tracker.running} ran" + (f" in {', '.join(left)}" if left else "")

    # -- under the lock

    def _check_live(self) -> None:
        if self._over:
            message = "The execution attempt is over."
            raise AttemptOverError(message)

    def _overtakes(self) -> bool:
        """Whether an epoch that is to carry a barrier would overtake the barrier before, or one that is being triggered."""
        placed = self._checkpoints.is_triggering or self._rider is not None
        return self._every_epoch and (placed or self._checkpoints.has_checkpoint)

    def _wait_for_epoch(self) -> None:
        """Let the time of a barrier without a place stand still while an epoch runs, whose end it waits for."""
        rider, epoch = self._rider, self._tracker.running
        if rider is None:
            return
        if epoch is None:
            self._checkpoints.let_time_run(rider)
        else:
            self._checkpoints.let_time_stand(rider, epoch)
