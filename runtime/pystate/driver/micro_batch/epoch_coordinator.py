"""The epochs of a job over all its attempts: their numbers, their beginning, what must be sure before one counts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from pystate.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.checkpoint.checkpoint_request import CheckpointRequest
from pystate.checkpoint.failure_reason import CheckpointFailureReason
from pystate.checkpoint.live_attempt import AttemptOverError
from pystate.checkpoint.pending_checkpoint import PendingCheckpoint
from pystate.common.errors import ControlError, PystateError
from pystate.common.job_status import JobStatus
from pystate.driver.micro_batch.epoch_barriers import EpochBarriers
from pystate.driver.micro_batch.epoch_numbers import EpochNumbers
from pystate.driver.micro_batch.record_counts import RecordCounter
from pystate.driver.micro_batch.running_epoch import RunningEpoch, RunningEpochStore
from pystate.driver.slot_pool import SlotPool
from pystate.plan.task import TaskSpec
from pystate.slot.micro_batch.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.snapshot.barrier import CheckpointBarrier
from pystate.snapshot.metadata import CheckpointType
from pystate.snapshot.snapshot import Snapshot
from pystate.spark.micro_batch.spark_checkpoint import SparkCheckpointDirectory


class EpochCoordinator:
    """Lets epochs begin and end, in step with the checkpoints.

    Args:
        coordinator: The job's checkpoints.
        numbers: The epoch numbers of the job.
        clock: Monotonic seconds.
    """

    def __init__(
        self, coordinator: CheckpointCoordinator, numbers: EpochNumbers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._coordinator = coordinator
        self._numbers = numbers
        self._clock = clock
        self._tasks: list[TaskSpec] = []
        self._records = RecordCounter()
        self._barriers: EpochBarriers | None = None
        self._running: RunningEpochStore | None = None
        if coordinator.engine_triggers:
            self._running = RunningEpochStore(coordinator.task_owned_location)

    def describe(self, tasks: list[TaskSpec]) -> None:
        """Take note of the job's tasks."""
        self._tasks = tasks

    def close(self, status: JobStatus) -> None:
        """Delete what a job that has ended needs no more; to be called behind the end of its checkpoints."""
        if self._running is not None and status.is_terminal:
            try:
                self._running.clear()
            except PystateError as error:
                sys.stderr.write(f"WARNING: {error}\n")

    def running_epoch(self, base: Snapshot | None) -> RunningEpoch | None:
        """Return the epoch that ran when the last attempt ended, if it is to be run again behind `base`.

        Raises:
            CorruptSnapshotError: It is damaged.
            SnapshotError: The storage can't be read.
        """
        running = None if self._running is None else self._running.read()
        uri = None if base is None else base.location.uri
        return running if running is not None and running.base == uri else None

    def attempt_started(
        self,
        pool: SlotPool,
        spark: SparkCheckpointDirectory,
        epoch: int,
        batch: int,
        on_intolerable: Callable[[PystateError], None],
    ) -> None:
        """Begin to take epochs and checkpoints of an attempt.

        Args:
            pool: Its slots.
            spark: Spark's logs.
            epoch: Where the restored state stands.
            batch: Spark's number of that epoch.
            on_intolerable: Called when more checkpoints failed in a row than is tolerated.
        """
        self._barriers = EpochBarriers(
            self._coordinator.checkpoints,
            pool,
            spark,
            self._tasks,
            epoch,
            batch,
            every_epoch=self._coordinator.engine_triggers,
            clock=self._clock,
        )
        self._coordinator.attempt_started(pool, self._barriers, on_intolerable)

    def begin_epoch(self, epoch: int, batch: int) -> None:
        """Begin an epoch, once nothing stands against it. Called at the start of the micro-batch, before any of its tasks.

        The term is read only where something is written that the next driver reads: a bound of epoch numbers, the epoch that
        is run again. Else an epoch of a driver that was replaced is work in its own slots, whose state nobody restores from,
        until `check_all_prepared` stops it.

        Args:
            epoch: Which.
            batch: Spark's number of it.

        Raises:
            AttemptOverError: The attempt ends instead.
            DriverReplacedError: Something is to be written, and the job is another driver's.
            PystateError: The barrier that every epoch is to carry can't be prepared.
        """
        barriers = self._live()
        barriers.await_turn(lambda: self._numbers.reserve(epoch))
        barrier: PendingCheckpoint | None = None
        try:
            if self._running is not None:
                barrier = self._barrier_of(epoch, batch, barriers, self._running)
            barriers.begin_epoch(epoch, barrier)
        except PystateError as error:
            if barrier is not None:
                self._coordinator.fail(barrier, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, error)
            raise
        finally:
            barriers.turn_over()

    def _barrier_of(self, epoch: int, batch: int, barriers: EpochBarriers, store: RunningEpochStore) -> PendingCheckpoint:
        """Write down the epoch that is about to run, and prepare the checkpoint that rides on it."""
        base = self._coordinator.latest_snapshot()
        self._coordinator.check_term()  # the next driver runs the epoch again that is written down here
        uri = None if base is None else base.location.uri
        store.write(RunningEpoch(epoch, batch, uri, barriers.spark.capture_running(batch)))
        return self._coordinator.prepare(CheckpointRequest(CheckpointType.CHECKPOINT))

    def check_all_prepared(self, epoch: int) -> dict[SubtaskId, PreparedEpoch]:
        """Make sure, before anything of it counts, that every subtask has got the epoch's rows: Spark's word is not enough.

        The term is read once per epoch, and here: a driver may be stopped in the midst of an epoch for as long as it takes
        to replace it, so that what was read at its beginning proves nothing to its sinks.

        Returns:
            What each subtask has told of them.

        Raises:
            ControlError: One hasn't.
            DriverReplacedError: The job is another driver's.
        """
        self._coordinator.check_term()
        barriers = self._live()
        missing = barriers.unprepared()
        if missing:
            message = f"Spark ended epoch {epoch}, but these subtasks never ran it: {missing}."
            raise ControlError(message)
        return barriers.prepared_subtasks()

    def decide(self, epoch: int) -> CheckpointBarrier | None:
        """Return the barrier that an epoch carries, see `EpochBarriers.decide`."""
        return self._live().decide(epoch)

    def subtask_prepared(self, uid: str, subtask: int, prepared: PreparedEpoch) -> None:
        """Take note that a subtask has got all rows of the running epoch, see `EpochBarriers.subtask_prepared`."""
        self._live().subtask_prepared(uid, subtask, prepared)

    def slot_finished(self, slot: int) -> None:
        """Take note that a slot's subtasks have finished the epoch that is decided."""
        self._coordinator.checkpoints.subtasks_answered(slot)

    def subtasks_finished(self, epoch: int) -> None:
        """Take note that the changes of an epoch are in all subtasks' backends, and count its records."""
        for (uid, _), share in self._live().subtasks_finished(epoch).items():
            self._records.add(uid, share.rows_in, share.rows_out)

    def measure_alignment(self, epoch: int, measure: Callable[[int, int], int | None]) -> None:
        """Note for the barrier on an epoch how long its upstream partitions were apart at their ends.

        Args:
            epoch: Which; nothing is measured where it carries none.
            measure: Called with a task's stage and the trigger's time, ms since 1970; returns ms, None for unknown.
        """
        barriers = self._live()
        stages, triggered = barriers.stages_of_barrier(epoch)
        if stages:
            barriers.report_alignment(epoch, {uid: measure(stage, triggered) for uid, stage in stages.items()})

    def finish_epoch(self, epoch: int, batch: int) -> None:
        """End an epoch: all subtasks have run it and all sinks have its output. Spark commits it next."""
        self._live().finish_epoch(epoch, batch)

    def running_in(self, slot: int) -> str:
        """Say which epoch a slot runs, see `EpochBarriers.running_in`."""
        return "" if self._barriers is None else self._barriers.running_in(slot)

    def progress(self) -> dict[str, Any]:
        """Return how far the job is: the last finished epoch, records read by the first and written by the last task.

        Records that are read again after a restart count again.
        """
        epoch = None if self._barriers is None else self._barriers.finished
        return {"epoch": epoch, **self._records.to_plain(task.uid for task in self._tasks)}

    def _live(self) -> EpochBarriers:
        if self._barriers is None:
            message = "No execution attempt has begun."
            raise AttemptOverError(message)
        return self._barriers
