"""The epochs of one execution attempt, and what must hold before each begins, commits and ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pystate.common.errors import ControlError, PystateError
from pystate.common.time import current_time_ms
from pystate.core.snapshot.metadata import CheckpointType
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
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
    """An epoch that has begun: either with the rows of a Spark batch, or without rows, to fire processing-time timers.

    Attributes:
        epoch: The epoch number.
        batch: Spark's number of the batch whose rows the epoch has; without rows, that of the last batch before it.
        clock: The epoch fires processing-time timers up to this time, ms since 1970; None for the slots' own clocks.
    """

    epoch: int
    batch: int
    clock: int | None


class AttemptEpochs:
    """Begins and ends the epochs of an attempt, in step with the checkpoints.

    Args:
        coordinator: The job's checkpoint coordinator.
        barriers: Places checkpoint barriers among these epochs.
        tracker: The state of the epochs.
        spark: Spark's logs.
        numbers: The epoch numbers of the job.
        running_epochs: Stores the running epoch so that it can be rerun after a failure; None if epochs are not rerun.
        records: Counts the epochs' records.
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
        """Begin the epoch of a Spark batch before its first task starts, once nothing blocks it.

        The term is read only where something is written that the next driver reads: a bound of epoch numbers, or the epoch
        to rerun. Otherwise an epoch of a replaced driver only changes its own slots, whose state is never restored, until
        `check_all_prepared` stops it.

        Args:
            batch: Spark's batch number.
            clock: For a rerun epoch, the time up to which processing-time timers fire.

        Returns:
            The epoch, numbered one above the previous epoch of either kind.

        Raises:
            AttemptOverError: The attempt ends instead.
            DriverReplacedError: Something must be written, but another driver runs the job.
            PystateError: The barrier that every epoch carries can't be prepared.
        """
        self._barriers.await_turn(self._reserve)
        return self._begin_turn(batch, clock, has_rows=True)

    def begin_due(self, pause_s: float) -> BegunEpoch:
        """Wait until a processing-time timer is due and no epoch runs, then begin an epoch that fires it.

        Args:
            pause_s: The minimum time since the last epoch began, so that epochs with rows, which fire timers too, come
                first.

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
        """Begin again, under the same number, the timer epoch that ran when the previous attempt ended.

        Args:
            clock: The time up to which timers fire, ms since 1970.

        Raises:
            AttemptOverError, PystateError: See `begin_epoch`.
        """
        self._barriers.await_turn(self._reserve)
        return self._begin_turn(self._tracker.finished_batch, clock)

    def input_available(self) -> None:
        """Have an epoch read the available source input as soon as no epoch runs."""
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

        An epoch with rows that may be rerun uses the driver's clock, which can be recorded, not the clocks of the slots.
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
        """Begin the last epoch, which belongs to no Spark batch, once no other epoch runs.

        Args:
            savepoint: Carried by the epoch; the job ends after it. None if the epoch may carry any barrier.

        Returns:
            The epoch number, and Spark's number of the last batch before it.

        Raises:
            AttemptOverError: The attempt ends instead.
            PystateError: The savepoint can't be prepared. Nothing has changed, and other epochs may begin again.
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
        """Record the epoch that is about to run, so that the next attempt or driver can rerun it."""
        base = self._coordinator.latest_snapshot()
        self._coordinator.check_term()
        uri = None if base is None else base.location.uri
        files = self._spark.capture_running(begun.batch) if has_rows else {}
        clocks = {"rows_clock" if has_rows else "clock": begun.clock}
        store.write(RunningEpoch(begun.epoch, begun.batch, uri, files, **clocks))

    def begin(self, epoch: int, barrier: PendingCheckpoint | None) -> None:
        """Begin an epoch whose turn it is.

        Args:
            epoch: The epoch number.
            barrier: The checkpoint that the epoch carries from the start, or None.

        Raises:
            ControlError: Another epoch runs, or this one doesn't follow the last one; AttemptOverError if the attempt has
                ended.
        """
        self._coordinator.pending.settle_cuts()  # Spark has committed the previous epoch, and keeps commits for a while
        with self._lock:
            self._barriers.check_live()
            if barrier is not None and barrier.is_aborted:
                message = f"Checkpoint {barrier.checkpoint_id}, which epoch {epoch} was to carry, has failed."
                raise AttemptOverError(message)
            self._tracker.begin(epoch)
            self._barriers.epoch_begun(barrier)

    # -- its rows

    def subtask_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Record that a subtask has received all rows of the running epoch.

        Raises:
            ControlError: That epoch isn't running; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._barriers.check_live()
            self._tracker.prepare((uid, subtask), prepared)

    def check_all_prepared(self, epoch: int) -> dict[SubtaskId, PreparedEpoch]:
        """Check that every subtask has received all rows of the epoch, before any of its results count.

        Spark's report alone doesn't prove it. The term is read once per epoch, and here: a driver may be suspended during an
        epoch long enough to be replaced, so a term read at the beginning of the epoch proves nothing to its sinks.

        Returns:
            What each subtask has reported about the epoch.

        Raises:
            ControlError: A subtask hasn't received them; AttemptOverError if the attempt has ended.
            DriverReplacedError: Another driver runs the job.
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
        """Return the barrier that an epoch carries, or None; repeated calls return the same.

        Raises:
            ControlError: The epoch isn't at its end; AttemptOverError if the attempt has ended.
        """
        with self._lock:
            self._barriers.check_live()
            return self._barriers.at_end_of(epoch, first=self._tracker.decide(epoch))

    def slot_finished(self, slot: int) -> None:
        """Record that a slot's subtasks have finished the decided epoch, and so don't delay its barrier."""
        self._coordinator.pending.slot_answered(slot)

    def subtasks_finished(self, epoch: int) -> None:
        """Record that all subtasks' backends hold the epoch's changes, and count its records."""
        with self._lock:
            self._barriers.check_live()
            finished = dict(self._tracker.prepared) if self._tracker.subtasks_finished(epoch) else {}
        for (uid, _), share in finished.items():
            self._records.add(uid, share.rows_in, share.rows_out)

    def measure_alignment(self, epoch: int, measure: Callable[[str, int, int], int | None]) -> None:
        """Measure, for the barrier of an epoch, how far apart in time its upstream partitions ended.

        Args:
            epoch: The epoch number; nothing is measured if the epoch carries no barrier.
            measure: Called with a task's uid, its stage and the trigger time, ms since 1970; returns ms, or None if unknown.
        """
        with self._lock:
            riding = self._barriers.after(epoch)
            if not riding:
                return
            self._barriers.check_live()
            stages = {uid: share.stage_id for (uid, _), share in self._tracker.prepared.items()}
        measured = {uid: measure(uid, stage, riding[0].trigger_timestamp) for uid, stage in stages.items()}
        with self._lock:
            for checkpoint in riding:
                checkpoint.alignment = measured

    def check_live(self) -> None:
        """Check that the attempt isn't over, before a step that can't be undone.

        Raises:
            AttemptOverError: It is.
        """
        with self._lock:
            self._barriers.check_live()

    def finish_epoch(self, epoch: int, batch: int) -> None:
        """End an epoch that all subtasks have run and whose output all sinks have; Spark commits it next.

        Raises:
            AttemptOverError: The attempt has ended meanwhile.
        """
        self._barriers.capture(epoch, batch)
        with self._lock:
            self._barriers.check_live()
            self._tracker.finish(epoch, batch)
            self._barriers.epoch_finished(epoch)

    # -- progress

    @property
    def sources_ended(self) -> bool:
        """Whether a finished epoch has read the last element of every source in slots."""
        with self._lock:
            return self._tracker.sources_ended

    @property
    def finished(self) -> int | None:
        """The last finished epoch; None if the attempt is over."""
        with self._lock:
            return None if self._barriers.over else self._tracker.finished

    def running_in(self, slot: int) -> str:
        """Return a phrase that names the epoch a slot runs and its unfinished operators; empty between two epochs."""
        with self._lock:
            tracker = self._tracker
            if self._barriers.over or tracker.running is None:
                return ""
            left = [repr(uid) for uid in tracker.left_in(slot)]
            return f", while epoch {tracker.running} ran" + (f" in {', '.join(left)}" if left else "")
