"""The epochs of one attempt, from beginning to end of each: what must be sure before one counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystate.common.errors import ControlError, PystateError
from pystate.common.time import current_time_ms
from pystate.core.snapshot.barrier import CheckpointBarrier
from pystate.core.snapshot.metadata import CheckpointType
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.runtime.engines.micro_batch.driver.epoch_barriers import EpochBarriers
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.driver.epoch_tracker import EpochTracker
from pystate.runtime.engines.micro_batch.driver.record_counts import RecordCounter
from pystate.runtime.engines.micro_batch.driver.running_epoch import RunningEpoch, RunningEpochStore
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory


@dataclass(frozen=True)
class BegunEpoch:
    """An epoch of rows, or one that the clock brings about, which has none.

    Attributes:
        epoch: Its number.
        batch: Spark's number of the batch whose rows it has, or of the one in front of it, up to which the sources are read.
        clock: Up to when timers by the clock fire in it, ms since 1970; None for the slots' own clocks.
    """

    epoch: int
    batch: int
    clock: int | None


class AttemptEpochs:
    """Lets the epochs of an attempt begin and end, in step with the checkpoints.

    Args:
        coordinator: The job's checkpoints.
        barriers: Those among these epochs.
        tracker: Where the epochs stand.
        spark: Spark's logs.
        numbers: The epoch numbers of the job.
        running_epochs: Where an epoch is written down that is to be run again after a failure; None where none is.
        records: Counts them.
    """

    def __init__(
        self,
        coordinator: CheckpointCoordinator,
        barriers: EpochBarriers,
        tracker: EpochTracker,
        spark: SparkCheckpointDirectory,
        numbers: EpochNumbers,
        running_epochs: RunningEpochStore | None,
        records: RecordCounter,
    ) -> None:
        self._coordinator = coordinator
        self._lock = coordinator.pending.lock
        self._barriers = barriers
        self._tracker = tracker
        self._spark = spark
        self._numbers = numbers
        self._running_epochs = running_epochs
        self._records = records

    # -- the beginning of an epoch

    def begin_epoch(self, batch: int, clock: int | None = None) -> BegunEpoch:
        """Begin the epoch of a batch of Spark's, once nothing stands against it, in front of its first task.

        The term is read only where something is written that the next driver reads: a bound of epoch numbers, the epoch that
        is run again. Else an epoch of a driver that was replaced is work in its own slots, whose state nobody restores from,
        until `check_all_prepared` stops it.

        Args:
            batch: Spark's number of it.
            clock: Up to when timers by the clock fire, of an epoch that is run again.

        Returns:
            With its own number, one above that of the epoch before, whatever brought that about.

        Raises:
            AttemptOverError: The attempt ends instead.
            DriverReplacedError: Something is to be written, and the job is another driver's.
            PystateError: The barrier that every epoch is to carry can't be prepared.
        """
        self._barriers.await_turn(self._reserve)
        return self._begin_turn(batch, clock, has_rows=True)

    def begin_due(self, pause_s: float) -> BegunEpoch:
        """Begin the epoch that fires timers by the clock, once one is due and no other epoch runs; wait until then.

        Args:
            pause_s: How long after the beginning of another epoch it begins at the earliest, so that epochs of rows, which
                fire timers too, come first.

        Raises:
            AttemptOverError: The attempt ends instead.
            PystateError: See `begin_epoch`.
        """
        tracker = self._tracker

        def wait_s(since: float) -> float | None:
            timer = tracker.next_timer
            return None if timer is None else max((timer - current_time_ms()) / 1000, pause_s - since)

        self._barriers.await_due_turn(wait_s, self._reserve)
        return self._begin_turn(tracker.finished_batch, current_time_ms())

    def begin_again(self, clock: int) -> BegunEpoch:
        """Begin an epoch of the clock that ran when the attempt before ended, under its number.

        Args:
            clock: Up to when timers fire in it, ms since 1970.

        Raises:
            AttemptOverError, PystateError: See `begin_epoch`.
        """
        self._barriers.await_turn(self._reserve)
        return self._begin_turn(self._tracker.finished_batch, clock)

    def input_available(self) -> None:
        """Have an epoch take what a source has, as soon as none runs."""
        with self._lock:
            self._tracker.input_available = True
            if self._tracker.running is None:
                self._tracker.next_timer, self._tracker.input_available = 0, False
            self._lock.notify_all()

    def _reserve(self) -> None:
        """Reserve the number of the next epoch."""
        self._numbers.reserve(self._tracker.finished + 1)

    def _begin_turn(self, batch: int, clock: int | None, *, has_rows: bool = False) -> BegunEpoch:
        """Begin the next epoch, whose turn it is.

        One of rows that may be run again has the driver's clock, not the slots': that can be written down.
        """
        if clock is None and self._running_epochs is not None:
            clock = current_time_ms()
        begun = BegunEpoch(self._tracker.finished + 1, batch, clock)  # what has begun ends before another one begins
        barrier: PendingCheckpoint | None = None
        try:
            if self._running_epochs is not None:
                self._write_down(begun, self._running_epochs, has_rows=has_rows)
                barrier = self._coordinator.prepare(CheckpointRequest(CheckpointType.CHECKPOINT))
            self.begin(begun.epoch, barrier)
            return begun
        except PystateError as error:
            if barrier is not None:
                self._coordinator.give_up(barrier, error)
            raise
        finally:
            self._barriers.turn_over()

    def begin_last(self, savepoint: CheckpointRequest | None = None) -> tuple[int, int]:
        """Begin the epoch behind all others, which no batch of Spark's makes, once none runs.

        Args:
            savepoint: Rides on it, and the job ends behind it; None where any barrier may.

        Returns:
            Its number, and Spark's number of the batch in front of it.

        Raises:
            AttemptOverError: The attempt ends instead.
            PystateError: The savepoint can't be prepared. Nothing has changed, other epochs may begin again.
        """
        tracker = self._tracker
        brings_barrier = savepoint is not None
        self._barriers.await_last_turn(self._reserve, brings_barrier=brings_barrier)
        barrier: PendingCheckpoint | None = None
        try:
            if savepoint is not None:
                barrier = self._coordinator.prepare(savepoint)
            epoch, batch = tracker.finished + 1, tracker.finished_batch
            self.begin(epoch, barrier)
        except BaseException as error:
            if barrier is not None and isinstance(error, PystateError):
                self._coordinator.give_up(barrier, error)
            self._barriers.last_given_up()
            raise
        self._barriers.turn_over()
        return epoch, batch

    def _write_down(self, begun: BegunEpoch, store: RunningEpochStore, *, has_rows: bool) -> None:
        """Write down the epoch that is about to run, so that the next attempt, or driver, runs the same one again."""
        base = self._coordinator.latest_snapshot()
        self._coordinator.check_term()
        uri = None if base is None else base.location.uri
        files = self._spark.capture_running(begun.batch) if has_rows else {}
        clocks = {"rows_clock" if has_rows else "clock": begun.clock}
        store.write(RunningEpoch(begun.epoch, begun.batch, uri, files, **clocks))

    def begin(self, epoch: int, barrier: PendingCheckpoint | None) -> None:
        """Begin an epoch whose turn it is.

        Args:
            epoch: Which.
            barrier: The checkpoint that rides on it from the start, or None.

        Raises:
            ControlError: Another one runs, or it is not behind the last one; AttemptOverError if the attempt has ended.
        """
        self._coordinator.pending.settle_cuts()  # Spark has committed the epoch before, and keeps commits for a while
        with self._lock:
            self._barriers.check_live()
            if barrier is not None and barrier.is_aborted:
                message = f"Checkpoint {barrier.checkpoint_id}, which epoch {epoch} was to carry, has failed."
                raise AttemptOverError(message)
            self._tracker.begin(epoch)
            self._barriers.epoch_begun(barrier)

    # -- its rows

    def subtask_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Take note that a subtask has got all rows of the running epoch.

        Raises:
            ControlError: That epoch doesn't run; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._barriers.check_live()
            self._tracker.prepare((uid, subtask), prepared)

    def check_all_prepared(self, epoch: int) -> dict[SubtaskId, PreparedEpoch]:
        """Make sure, before anything of it counts, that every subtask has got the epoch's rows: Spark's word is not enough.

        The term is read once per epoch, and here: a driver may be stopped in the midst of an epoch for as long as it takes
        to replace it, so that what was read at its beginning proves nothing to its sinks.

        Returns:
            What each subtask has told of them.

        Raises:
            ControlError: One hasn't; AttemptOverError if the attempt has ended.
            DriverReplacedError: The job is another driver's.
        """
        self._coordinator.check_term()
        with self._lock:
            self._barriers.check_live()
            missing = self._tracker.unprepared()
            if missing:
                message = f"Spark ended epoch {epoch}, but these subtasks never ran it: {missing}."
                raise ControlError(message)
            return dict(self._tracker.prepared)

    # -- its end

    def decide(self, epoch: int) -> CheckpointBarrier | None:
        """Return the barrier that an epoch carries, None where it carries none; the same each time.

        Raises:
            ControlError: The epoch isn't at its end; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._barriers.check_live()
            return self._barriers.at_end_of(epoch, first=self._tracker.decide(epoch))

    def slot_finished(self, slot: int) -> None:
        """Take note that a slot's subtasks have finished the epoch that is decided, and hang in no barrier of it."""
        self._coordinator.pending.slot_answered(slot)

    def subtasks_finished(self, epoch: int) -> None:
        """Take note that the changes of an epoch are in all subtasks' backends, and count its records."""
        with self._lock:
            self._barriers.check_live()
            finished = dict(self._tracker.prepared) if self._tracker.subtasks_finished(epoch) else {}
        for (uid, _), share in finished.items():
            self._records.add(uid, share.rows_in, share.rows_out)

    def measure_alignment(self, epoch: int, measure: Callable[[str, int, int], int | None]) -> None:
        """Note for the barrier on an epoch how long its upstream partitions were apart at their ends.

        Args:
            epoch: Which; nothing is measured where it carries none.
            measure: Called with a task's uid, its stage and the trigger's time, ms since 1970; returns ms, None for unknown.
        """
        with self._lock:
            riding = self._barriers.behind(epoch)
            if not riding:
                return
            self._barriers.check_live()
            stages = {uid: share.stage_id for (uid, _), share in self._tracker.prepared.items()}
        measured = {uid: measure(uid, stage, riding[0].trigger_timestamp) for uid, stage in stages.items()}
        with self._lock:
            for checkpoint in riding:
                checkpoint.alignment = measured

    def check_live(self) -> None:
        """Make sure that the attempt isn't over, in front of something that nothing takes back.

        Raises:
            AttemptOverError: It is.
        """
        with self._lock:
            self._barriers.check_live()

    def finish_epoch(self, epoch: int, batch: int) -> None:
        """End an epoch: all subtasks have run it and all sinks have its output. Spark commits it next.

        Raises:
            AttemptOverError: The attempt has ended meanwhile.
        """
        self._barriers.capture(epoch, batch)
        with self._lock:
            self._barriers.check_live()
            self._tracker.finish(epoch, batch)
            self._barriers.epoch_finished(epoch)

    # -- how far they are

    @property
    def sources_ended(self) -> bool:
        """Whether a finished epoch took the last of all sources in slots."""
        with self._lock:
            return self._tracker.sources_ended

    @property
    def finished(self) -> int | None:
        """The last finished epoch; None where the attempt is over."""
        with self._lock:
            return None if self._barriers.over else self._tracker.finished

    def running_in(self, slot: int) -> str:
        """Say which epoch a slot runs, and in which operators it had not ended; nothing between two epochs."""
        with self._lock:
            tracker = self._tracker
            if self._barriers.over or tracker.running is None:
                return ""
            left = [repr(uid) for uid in tracker.left_in(slot)]
            return f", while epoch {tracker.running} ran" + (f" in {', '.join(left)}" if left else "")
