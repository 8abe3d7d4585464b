"""Epochs that belong to no Spark batch: those that fire processing-time timers, and the last one, which ends event time.

Each runs as a Spark job of its own over the same stages, whose sources have no rows, and counts as any other epoch: it takes
the next number, it may carry a barrier, and its output goes to the sinks. Spark's query doesn't know it, so the query's
offsets stay those of the previous batch.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pystate.common.errors import PystateError
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.engines.micro_batch.driver.attempt_epochs import AttemptEpochs, BegunEpoch
from pystate.runtime.engines.micro_batch.driver.epoch_failures import stage_failure
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.runtime.engines.micro_batch.spark.epoch_proof import EpochProof
from pystate.runtime.engines.micro_batch.spark.exchange import CLOCK_PROPERTY, SlotDirectory
from pystate.runtime.engines.micro_batch.spark.stage_store import StageStore
from pystate.runtime.engines.micro_batch.spark.translator import frame_without_rows
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import JobEnvironment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAUSE = 1.1
"""A timer epoch begins at least this many epoch intervals after the last epoch, so that epochs with rows come first."""

_Proof = Callable[[Mapping[SubtaskId, PreparedEpoch]], None]
RunEpoch = Callable[[int, int, Callable[[], "DataFrame"], _Proof], None]
"""Runs an epoch that has begun: its number, the last Spark batch before it, its evaluation, its proof of completeness."""


class EpochsWithoutRows:
    """Runs the epochs without rows of one attempt.

    Args:
        spark: The Spark session.
        plan: The job's plan.
        frames: The DataFrames of the plan's sources.
        environment: The job's environment.
        slots: The addresses of the slots.
        epochs: The attempt's epochs.
        stages: What Spark reports about stages.
        run: Runs an epoch; reports a failure to the attempt itself.
        fail: Reports to the attempt that an epoch could not begin.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: JobPlan,
        frames: list[DataFrame],
        environment: JobEnvironment,
        slots: SlotDirectory,
        epochs: AttemptEpochs,
        stages: StageStore,
        run: RunEpoch,
        fail: Callable[[PystateError, str], None],
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._frames = frames
        self._environment = environment
        self._slots = slots
        self._epochs = epochs
        self._proof = EpochProof(stages, repeatable=True)
        self._run_begun = run
        self._fail = fail
        self._frame: DataFrame | None = None  # of the timer epochs
        self._group = f"pystate-{environment.job_id}-{environment.attempt}-without-rows"
        self._running: set[threading.Thread] = set()
        self._last_epoch: threading.Thread | None = None
        self._event_time_ended = False

    def stop(self, deadline: float) -> None:
        """Cancel the Spark jobs of the running epoch and wait for its end: a sink may be writing its output.

        Args:
            deadline: Monotonic seconds; a sink that takes longer is abandoned.
        """
        running = self._running - {threading.current_thread()}
        if not running:
            return
        canceller = threading.Thread(target=self._cancel_jobs, name="epoch-cancel", daemon=True)  # Spark may hang, too
        canceller.start()
        for thread in (canceller, *running):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _cancel_jobs(self) -> None:
        with contextlib.suppress(Exception):  # Spark may have stopped
            self._spark.sparkContext.cancelJobGroup(self._group)

    # -- timer epochs

    def start_clock(self, interval_ms: int, await_first: Callable[[], object]) -> None:
        """Start a thread that runs an epoch whenever processing-time timers are due and no epoch with rows fires them.

        Args:
            interval_ms: The minimum time between the starts of two epochs.
            await_first: Waits until the first epoch may begin.
        """
        pause_s = PAUSE * interval_ms / 1000

        def bring_about() -> None:
            await_first()
            while True:
                self._run_by_clock(self._epochs.begin_due(pause_s))

        threading.Thread(target=self._told, args=(bring_about,), name="epoch-clock", daemon=True).start()

    def run_again(self, clock: int) -> None:
        """Rerun the timer epoch that ran when the previous attempt ended, with the same timers.

        Args:
            clock: The time up to which timers fire, ms since 1970.

        Raises:
            Exception: It failed.
        """
        self._run_by_clock(self._epochs.begin_again(clock))

    def _run_by_clock(self, begun: BegunEpoch) -> None:
        context = self._spark.sparkContext
        context.setLocalProperty(CLOCK_PROPERTY, str(begun.clock))
        try:
            self._run(begun.epoch, begun.batch, self._frame_of_clock)
        finally:
            context.setLocalProperty(CLOCK_PROPERTY, None)  # type: ignore[arg-type] # takes it away

    def _frame_of_clock(self) -> DataFrame:
        if self._frame is None:
            self._frame = self._without_rows(self._slots)
        return self._frame

    # -- the last epoch

    def drain(self, savepoint: CheckpointRequest | None = None) -> None:
        """Accept no more batches, and run the epoch after all rows, in which event time ends.

        Args:
            savepoint: Taken after the epoch; None for none.

        Raises:
            Exception: The epoch could not begin, and the job continues; or it failed, and the attempt has been notified.
        """
        epoch, batch = self._epochs.begin_last(savepoint)
        self._run(epoch, batch, lambda: self._without_rows(replace(self._slots, end_of_input=True)))

    def end_event_time(self) -> bool:
        """Run the last epoch on its own thread; return whether it has ended. Call it until it has."""
        if self._last_epoch is None:
            self._last_epoch = threading.Thread(target=self._told, args=(self._drained,), name="last-epoch", daemon=True)
            self._last_epoch.start()
        return self._event_time_ended

    def _drained(self) -> None:
        self.drain()
        self._event_time_ended = True

    def _run(self, epoch: int, batch: int, frame: Callable[[], DataFrame]) -> None:
        thread = threading.current_thread()
        self._spark.sparkContext.setJobGroup(self._group, f"epoch {epoch}, which has no rows")
        self._running.add(thread)
        try:
            self._run_begun(epoch, batch, frame, lambda prepared: self._proof.check(epoch, prepared))
        finally:
            self._running.discard(thread)

    def _without_rows(self, slots: SlotDirectory) -> DataFrame:
        return frame_without_rows(self._spark, self._plan, self._frames, slots, self._environment)

    def _told(self, run: Callable[[], None]) -> None:
        """Run the body of a thread, and report its failure to the attempt."""
        try:
            run()
        except AttemptOverError:
            return
        except PystateError as error:
            self._fail(error, traceback.format_exc())
        except Exception as error:
            self._fail(stage_failure(error), str(error))
