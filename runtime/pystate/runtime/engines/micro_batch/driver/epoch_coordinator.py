"""The epochs of a job over all its attempts: their numbers, the epoch to rerun, and their progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from pystate.common.errors import PystateError
from pystate.common.job_status import JobStatus
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.engines.micro_batch.driver.attempt_epochs import AttemptEpochs
from pystate.runtime.engines.micro_batch.driver.epoch_barriers import EpochBarriers
from pystate.runtime.engines.micro_batch.driver.epoch_numbers import EpochNumbers
from pystate.runtime.engines.micro_batch.driver.epoch_slots import EpochSlots
from pystate.runtime.engines.micro_batch.driver.epoch_tracker import EpochTracker
from pystate.runtime.engines.micro_batch.driver.record_counts import RecordCounter
from pystate.runtime.engines.micro_batch.driver.running_epoch import RunningEpoch, RunningEpochStore
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.plan.task import TaskSpec


class EpochCoordinator:
    """Creates the epochs of each attempt.

    Args:
        coordinator: The job's checkpoint coordinator.
        numbers: The epoch numbers of the job.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self, coordinator: CheckpointCoordinator, numbers: EpochNumbers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._coordinator = coordinator
        self._numbers = numbers
        self._clock = clock
        self._tasks: list[TaskSpec] = []
        self._records = RecordCounter()
        self._attempt: AttemptEpochs | None = None
        self._running: RunningEpochStore | None = None
        if coordinator.engine_triggers:
            self._running = RunningEpochStore(coordinator.task_owned_location)

    def describe(self, tasks: list[TaskSpec]) -> None:
        """Record the job's tasks."""
        self._tasks = tasks

    def close(self, status: JobStatus) -> None:
        """Delete what a finished job no longer needs; call it after its checkpoints are closed."""
        if self._running is not None and status.is_terminal:
            try:
                self._running.clear()
            except PystateError as error:
                sys.stderr.write(f"WARNING: {error}\n")

    def running_epoch(self, base: Snapshot | None) -> RunningEpoch | None:
        """Return the epoch that ran when the last attempt ended, if it is to be rerun after `base`.

        Raises:
            CorruptSnapshotError: The stored epoch is damaged.
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
        next_timer: int | None = None,
        *,
        rows_first: bool = False,
    ) -> AttemptEpochs:
        """Start epochs and checkpoints of an attempt; return its epochs.

        Args:
            pool: The attempt's slots.
            spark: Spark's logs.
            epoch: The epoch number of the restored state.
            batch: Spark's batch number of that epoch.
            on_intolerable: Called when more checkpoints in a row have failed than are tolerated.
            next_timer: When the first processing-time timer is due, ms since 1970, as far as known; None for none.
            rows_first: See `EpochTracker`.
        """
        coordinator, tasks = self._coordinator, self._tasks
        subtasks = ((task.uid, index) for task in tasks for index in range(task.parallelism))
        tracker = EpochTracker(subtasks, epoch, batch, next_timer, rows_first=rows_first)
        every_epoch = coordinator.engine_triggers
        barriers = EpochBarriers(
            coordinator.pending, EpochSlots(pool), spark, tasks, tracker, every_epoch=every_epoch, clock=self._clock
        )
        self._attempt = AttemptEpochs(coordinator, barriers, tracker, spark, self._numbers, self._running, self._records)
        coordinator.attempt_started(pool, barriers, on_intolerable)
        return self._attempt

    def progress(self) -> dict[str, Any]:
        """Return the job's progress: the last finished epoch, records read, and records written by the last task.

        Records that are read again after a restart are counted again.
        """
        epoch = None if self._attempt is None else self._attempt.finished
        sources = {task.uid for task in self._tasks if task.is_own_source}
        return {"epoch": epoch, **self._records.to_plain([task.uid for task in self._tasks], sources)}
