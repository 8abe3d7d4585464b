"""The micro-batch engine: one Spark streaming query, each batch of which is an epoch."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ControlError, JobExecutionError, PystateError
from pystate.common.text.bounded_text import bounded_text, first_line
from pystate.common.text.java_errors import java_hint
from pystate.common.time import current_time_ms
from pystate.common.user_code.user_frames import user_stack_trace
from pystate.core.api.transformations import SinkKind
from pystate.core.metrics.sample import MetricSample
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.engines.micro_batch.driver.attempt_epochs import AttemptEpochs
from pystate.runtime.engines.micro_batch.driver.ended_sources import EndedSources
from pystate.runtime.engines.micro_batch.driver.epoch_coordinator import EpochCoordinator
from pystate.runtime.engines.micro_batch.driver.epoch_failures import stage_failure
from pystate.runtime.engines.micro_batch.driver.epoch_metrics import EpochMetrics
from pystate.runtime.engines.micro_batch.driver.epoch_slots import EpochSlots
from pystate.runtime.engines.micro_batch.driver.epochs_without_rows import EpochsWithoutRows
from pystate.runtime.engines.micro_batch.driver.held_results import CollectedResults
from pystate.runtime.engines.micro_batch.driver.rehearsal import Rehearsal
from pystate.runtime.engines.micro_batch.driver.source_restore import RestoredSources
from pystate.runtime.engines.micro_batch.driver.stream_ends import StreamEnds
from pystate.runtime.engines.micro_batch.slot.micro_batch_slot_engine import MicroBatchSlotEngineFactory
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch, SubtaskId
from pystate.runtime.engines.micro_batch.spark.determinism import non_determinism
from pystate.runtime.engines.micro_batch.spark.epoch_proof import EpochProof
from pystate.runtime.engines.micro_batch.spark.epoch_timeline import EpochTimeline
from pystate.runtime.engines.micro_batch.spark.exchange import CLOCK_PROPERTY, EPOCH_PROPERTY, SlotDirectory, fetch_output
from pystate.runtime.engines.micro_batch.spark.output_frame import output_frame
from pystate.runtime.engines.micro_batch.spark.source_backlog import pending_rows, position_samples, source_reports
from pystate.runtime.engines.micro_batch.spark.source_checks import OUR_QUERIES, spark_sources
from pystate.runtime.engines.micro_batch.spark.source_shuffles import source_shuffles
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory
from pystate.runtime.engines.micro_batch.spark.stage_store import StageStore
from pystate.runtime.engines.micro_batch.spark.stage_times import alignment_ms
from pystate.runtime.engines.micro_batch.spark.translator import (
    frame_of_levels,
    staged_frame,
    streaming_frame,
)
from pystate.runtime.execution.engine import EngineEvents
from pystate.runtime.execution.frame_sink_failure import failure_of_frame_sink
from pystate.runtime.execution.slots.slot_pool import SlotPool
from pystate.runtime.plan.end_of_input import hears_of_the_end
from pystate.runtime.plan.job_plan import JobPlan, SinkPlan
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.plan.task_output import LINE_FIELD
from pystate.runtime.plan.time_steps import waits_for_time
from pystate.runtime.spark.local_uri import local_uri
from pystate.runtime.spark.sessions.block_manager import LocalBlockManager

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ADAPTIVE = "spark.sql.adaptive.enabled"
_STOP_TIMEOUT_S = 10.0
_LONGEST_LINE_FOR_SPARK = 200


class MicroBatchEngine:
    """Runs the query of one attempt.

    Args:
        spark: The Spark session.
        plan: The job's plan.
        frames: The streaming DataFrames of the plan's sources.
        environment: The job, as subtasks see it.
        restored: The position from which the query continues.
        epochs: Creates the attempt's epochs.
        scratch: A directory used by this attempt only.
        trigger_interval_ms: The minimum time between the starts of two epochs.
        metrics: Receives the metrics of epochs and sources.
        collected: Receives results for the program; None if it takes none.
        ends: The end offsets of streams whose connector finds them.
        rehearse: Whether Spark has run no epoch of the job in this driver, so that the first one would take long.
    """

    def __init__(
        self,
        spark: SparkSession,
        plan: JobPlan,
        frames: list[DataFrame],
        environment: JobEnvironment,
        restored: RestoredSources,
        epochs: EpochCoordinator,
        scratch: Path,
        *,
        trigger_interval_ms: int,
        metrics: EpochMetrics,
        collected: CollectedResults | None = None,
        ends: StreamEnds | None = None,
        rehearse: bool = False,
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._frames = frames
        self._environment = environment
        self._restored = restored
        self._job_epochs = epochs
        self._epochs: AttemptEpochs | None = None
        self._trigger_interval_ms = trigger_interval_ms
        self._metrics = metrics
        self._collected = collected
        self._ends = ends or StreamEnds()
        self._logs = SparkCheckpointDirectory(scratch / "spark-checkpoint", spark_sources(plan, frames))
        self._ended = EndedSources(plan, self._logs.sources, self._logs.offsets, self._ends)
        self._stages = StageStore(spark.sparkContext)
        self._block_manager = LocalBlockManager(spark.sparkContext)
        repeatable = not any(non_determinism(frame).expressions for frame in frames)
        shuffles = [source_shuffles(frame) for frame in frames]  # traverses the plan in the JVM
        proven = any(one.can_be_proven for one in shuffles) and not any(one.others for one in shuffles)
        self._proof = EpochProof(self._stages, repeatable=repeatable, source_shuffles=proven)
        self._query: StreamingQuery | None = None
        self._timeline = EpochTimeline()
        self._pool: EpochSlots | None = None
        self._slots: SlotDirectory | None = None
        self._events: EngineEvents | None = None
        self._without_rows: EpochsWithoutRows | None = None
        self._rehearses = rehearse and restored.with_state and not plan.batch
        self._rehearsal = Rehearsal(spark, plan, frames, environment)

    @property
    def slot_engine(self) -> MicroBatchSlotEngineFactory:
        """The factory of the engine's slot side, at the restored epoch."""
        return MicroBatchSlotEngineFactory(self._restored.epoch)

    def prepare(self) -> None:
        """Rehearse the first epoch after a snapshot: a user who resumes a job may ask for the next one at once."""
        if self._rehearses:
            self._rehearsal.start()

    def start(self, pool: SlotPool, events: EngineEvents) -> None:
        """Start the query after the restored epoch."""
        restored, slots = self._restored, pool.description
        self._pool, self._events = EpochSlots(pool), events
        self._slots = SlotDirectory(slots.job_id, slots.attempt, slots.secret, pool.addresses)
        self._logs.rebuild(restored.spark_files, keep_query_id=restored.keep_query_id)
        plan, environment = self._plan, self._environment
        own = bool(plan.own_sources)
        has_timers = (own or waits_for_time(plan)) and not plan.batch
        overdue = current_time_ms() if has_timers and (own or restored.with_state) else None  # the first epoch reports more
        began, at, failed = self._job_epochs.attempt_started, (restored.epoch, restored.batch_id), events.checkpoints_failed
        self._epochs = began(pool, self._logs, *at, failed, overdue, rows_first=restored.again)
        of_job = (self._spark, plan, self._frames, environment, self._slots, self._epochs, self._stages)
        self._without_rows = EpochsWithoutRows(*of_job, self._run_without_rows, self._fail)
        if restored.clock is not None:
            self._without_rows.run_again(restored.clock)
        if self._frames:
            self._start_query()
        if has_timers:
            self._without_rows.start_clock(self._trigger_interval_ms, self._rehearsal.wait)

    def _start_query(self) -> None:
        plan, environment, sources, slots = self._plan, self._environment, self._metrics.sources, self._slots
        assert slots is not None  # noqa: S101 - `start` has set them
        self._ends.query_starts()
        if plan.batch:  # Spark doesn't sort streams, so the levels come after it, in the only epoch
            frame = staged_frame(plan, self._frames, environment, sources)
        else:
            frame = streaming_frame(plan, self._frames, slots, environment, sources)
        writer = frame.writeStream.foreachBatch(self._run_epoch).option("checkpointLocation", local_uri(self._logs.path))
        writer = writer.queryName(f"{OUR_QUERIES}{self._environment.job_id}-{self._environment.attempt}")
        if plan.batch:
            writer = writer.trigger(once=True)
        elif plan.bounded:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self._trigger_interval_ms} milliseconds")
        self._query = _started(self._spark, writer)
        self._metrics.query_started(self._positions)

    def _alignment(self, uid: str, stage: int, triggered: int) -> int | None:
        if any(task.uid == uid for task in self._plan.own_sources):
            return 0  # a source has nothing to align
        return alignment_ms(self._stages.ends(stage - 1), triggered)

    def look(self) -> None:
        """Report to the attempt if the query and the sources in slots have ended."""
        query, events, own = self._query, self._events, self._plan.own_sources
        if events is None or (query is None and not own) or (query is not None and query.isActive):
            return
        error = None if query is None else query.exception()
        if error is not None:
            failure = JobExecutionError(f"The query failed: {first_line(error)}", hint=java_hint(str(error)))
            events.engine_failed(failure, str(error))
        elif not self._ends.reached:
            self._ends.start_again(self._start_query)
        elif own and not self._plan.batch and not self._live().sources_ended:
            return
        elif not own and not (waits_for_time(self._plan) or hears_of_the_end(self._plan)):
            events.sources_read()
        elif self._plan.batch and query is not None:
            events.sources_read()
        elif self._without_rows is not None and self._without_rows.end_event_time():
            events.sources_read()

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a subtask's call about its epochs.

        Raises:
            ControlError: The call is unknown, or that epoch isn't running.
        """
        if op == "epoch_prepared":
            prepared = PreparedEpoch.from_plain(arguments["prepared"])
            return self._live().subtask_prepared(arguments["uid"], arguments["subtask"], prepared)
        if op == "input_available":
            return self._live().input_available()
        if op == "source_messages" and self._pool is not None:
            return self._pool.source_messages(arguments)
        if op == "task_outcome":
            return self._stages.outcome(arguments["stage_id"], arguments["task_attempt_id"]).value
        message = f"The driver does not know the op {op!r}."
        raise ControlError(message)

    def running_in(self, slot: int) -> str:
        """Return a phrase that names the epoch a slot runs, for the end of a sentence."""
        return "" if self._epochs is None else self._epochs.running_in(slot)

    def backlog(self) -> int | None:
        """Return how many rows the sources had not delivered at the end of the last epoch; None if they don't report it."""
        return pending_rows(self._reports())

    def _reports(self) -> list[dict[str, Any]]:
        return [] if self._query is None else source_reports(self._query)

    def _positions(self) -> Mapping[str, list[MetricSample]]:
        return position_samples(self._reports(), list({one.log: one.uid for one in self._logs.sources}.values()))

    def timeline(self) -> list[dict[str, int]]:
        """Return what each part of the last epochs took, see `EpochTimeline`."""
        return self._timeline.look(self._query)

    def stop(self) -> None:
        """Stop the query and the epochs outside of its batches; wait for running work up to a timeout."""
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        self._rehearsal.stop()
        if self._collected is not None:
            self._collected.attempt_over()
        if self._query is not None:
            # stop() waits for the running batch; a user function may block it, and the attempt must end all the same
            stopper = threading.Thread(target=self._stop_query, name="query-stop", daemon=True)
            stopper.start()
            stopper.join(_STOP_TIMEOUT_S)
        if self._without_rows is not None:
            self._without_rows.stop(deadline)

    def _stop_query(self) -> None:
        with contextlib.suppress(Exception):  # it has failed or ended already
            if self._query is not None:
                self._query.stop()

    def _run_epoch(self, frame: DataFrame, batch_id: int) -> None:
        """Run as the query's `foreachBatch` function; give Spark only one line of an error.

        Spark searches the text with a pattern whose recursion overflows its stack (`StreamExecution`), for its own errors,
        which have been reported already.
        """
        try:
            self._run_batch(frame, batch_id)
        except Exception as error:
            message = bounded_text(first_line(error), _LONGEST_LINE_FOR_SPARK)
            raise JobExecutionError(message) from None

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Run one epoch."""
        restored = self._restored
        self._rehearsal.wait()
        with self._failing():
            begun = self._live().begin_epoch(batch_id, restored.rows_clock if batch_id == restored.batch_id + 1 else None)
        if begun.clock is not None:
            self._spark.sparkContext.setLocalProperty(CLOCK_PROPERTY, str(begun.clock))
        epoch, group = begun.epoch, "" if self._query is None else str(self._query.runId)
        self._run(epoch, batch_id, lambda: self._whole(frame), lambda prepared: self._proof.check(epoch, prepared, group))

    def _whole(self, frame: DataFrame) -> DataFrame:
        """Return the DataFrame that takes a batch through all tasks."""
        if not self._plan.batch:
            return frame
        assert self._slots is not None  # noqa: S101 - epochs run after start
        return frame_of_levels(self._plan, frame, replace(self._slots, end_of_input=True), self._environment)

    def drain(self, savepoint: CheckpointRequest | None = None) -> None:
        """Accept no more batches, and run the epoch after all rows, in which event time ends.

        Args:
            savepoint: Taken after the epoch; None for none.

        Raises:
            Exception: The epoch could not begin, and the job continues; or it failed, and the attempt has been notified.
        """
        self._live()
        assert self._without_rows is not None  # noqa: S101 - there are epochs, so the query has started
        self._without_rows.drain(savepoint)

    def _run(
        self,
        epoch: int,
        batch_id: int,
        frame: Callable[[], DataFrame],
        prove: Callable[[Mapping[SubtaskId, PreparedEpoch]], None],
    ) -> None:
        """Run an epoch that has begun.

        Args:
            epoch: The epoch number.
            batch_id: Spark's number of the last batch that the sources have read at its end.
            frame: Returns the DataFrame whose evaluation runs the epoch.
            prove: Checks that the epoch is complete.
        """
        epochs, pool = self._live(), self._pool
        assert pool is not None  # noqa: S101 - epochs run after start
        with self._failing():
            self._metrics.epoch_begun()
            self._spark.sparkContext.setLocalProperty(EPOCH_PROPERTY, str(epoch))
            self._ended.tell(self._spark.sparkContext, batch_id, self._query)
            frame().write.format("noop").mode("overwrite").save()
            prepared = epochs.check_all_prepared(epoch)
            prove(prepared)
            for source in self._plan.sources:
                if source.step.identity is not None:
                    source.step.identity.check_still()
            pool.finish_epoch(epoch, prepared, epochs.decide(epoch), epochs.slot_finished)
            epochs.subtasks_finished(epoch)
            epochs.measure_alignment(epoch, self._alignment)
            self._block_manager.look()
            for sink in self._plan.sinks:
                epochs.check_live()  # the previous sink may have blocked this thread past the attempt's end
                self._deliver(sink, epoch, prepared)
            epochs.finish_epoch(epoch, batch_id)
            self._metrics.epoch_finished(epoch)

    def _run_without_rows(
        self,
        epoch: int,
        batch_id: int,
        frame: Callable[[], DataFrame],
        prove: Callable[[Mapping[SubtaskId, PreparedEpoch]], None],
    ) -> None:
        """Run an epoch that is no batch of Spark's, which has no report of it."""
        began, clock = current_time_ms(), time.monotonic()
        self._run(epoch, batch_id, frame, prove)
        self._timeline.ran(began, int((time.monotonic() - clock) * 1000))

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Have the attempt fail if an epoch does."""
        try:
            yield
        except AttemptOverError:
            raise
        except PystateError as error:
            self._fail(error, traceback.format_exc())
            raise
        except Exception as error:
            self._fail(stage_failure(error, self._plan), str(error))
            raise

    def _live(self) -> AttemptEpochs:
        if self._epochs is None:
            message = "No execution attempt has begun."
            raise AttemptOverError(message)
        return self._epochs

    def _deliver(self, sink: SinkPlan, epoch: int, prepared: Mapping[SubtaskId, PreparedEpoch]) -> None:
        assert self._slots is not None  # noqa: S101 - epochs run after start
        if sink.step.kind is SinkKind.PRINT:
            for subtask in range(self._plan.task(sink.task_uid).parallelism):
                for batch in fetch_output(self._slots, sink.task_uid, sink.tag, epoch, subtask):
                    sys.stdout.writelines(f"{line}\n" for line in batch.column(LINE_FIELD).to_pylist())
            sys.stdout.flush()
            return
        if sink.step.kind is SinkKind.COLLECT:
            assert self._collected is not None  # noqa: S101 - the job's engine makes it for such sinks
            subtasks = range(self._plan.task(sink.task_uid).parallelism)
            batches = (fetch_output(self._slots, sink.task_uid, sink.tag, epoch, subtask) for subtask in subtasks)
            self._collected.deliver(sink, epoch, itertools.chain.from_iterable(batches))
            return
        function = sink.step.function
        assert function is not None  # noqa: S101 - for_each_batch() takes no less
        frame = output_frame(self._spark, self._plan, sink, self._slots, epoch, prepared)
        self._block_manager.restore()  # the epoch may have lost shuffle files, and the function needs results
        try:
            function(frame, epoch)
        except BaseException as error:  # sys.exit() would end the thread that Spark calls, and Spark would wait for ever
            wrapped = failure_of_frame_sink(sink.step, error)
            self._fail(wrapped, user_stack_trace(error))
            raise wrapped from error

    def _fail(self, error: PystateError, stack_trace: str) -> None:
        if self._events is not None:
            self._events.engine_failed(error, stack_trace)


def _started(spark: SparkSession, writer: DataStreamWriter) -> StreamingQuery:
    """Start the query without adaptive execution, which would run all stages but the last before `foreachBatch`.

    An epoch would then run before it has begun. The query copies the settings, so the job's own queries keep the user's.
    """
    settings = spark.conf
    before = settings.get(_ADAPTIVE, None)
    settings.set(_ADAPTIVE, "false")
    try:
        return writer.start()
    finally:
        if before is None:
            settings.unset(_ADAPTIVE)
        else:
            settings.set(_ADAPTIVE, before)
