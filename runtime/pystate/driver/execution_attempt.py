"""One execution attempt: slots, query and coordinator from start to end. A failure ends the attempt, never the job."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pystate.api.job_graph import SinkKind
from pystate.common.bounded_text import bounded_text
from pystate.common.configuration import Configuration
from pystate.common.control import new_secret
from pystate.common.errors import (
    JobExecutionError,
    PystateError,
    RecordError,
    StateError,
    SubtaskHangsError,
    UserFunctionError,
    error_from_dict,
)
from pystate.common.execution_target import local_threads
from pystate.common.options import CheckpointingOptions, PystateOptions
from pystate.driver.checkpoint_coordinator import CheckpointCoordinator
from pystate.driver.epoch_tracker import AttemptOverError
from pystate.driver.job_metrics import JobMetrics
from pystate.driver.restored_state import RestoredState
from pystate.driver.slot_calls import answer_slot_call
from pystate.driver.slot_pool import SlotPool
from pystate.plan.job_plan import JobPlan, SinkPlan
from pystate.plan.output import LINE_FIELD
from pystate.plan.task import JobEnvironment
from pystate.slot.process import Deployment, folder_prefix
from pystate.spark.application import CoreWatch, SparkExecutors, driver_address
from pystate.spark.determinism import non_determinism
from pystate.spark.epoch_proof import EpochProof
from pystate.spark.exchange import SlotDirectory, fetch_output
from pystate.spark.lost_slot import lost_slot_sentence, place_of_slot
from pystate.spark.session import least_cores
from pystate.spark.slot_job import SlotJob
from pystate.spark.source_backlog import backlog_rows
from pystate.spark.source_checks import OUR_QUERIES, spark_sources
from pystate.spark.source_shuffles import source_shuffles
from pystate.spark.spark_checkpoint import SparkCheckpointDirectory
from pystate.spark.stage_store import StageStore
from pystate.spark.stage_times import alignment_ms
from pystate.spark.translator import kept_frame, streaming_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ADAPTIVE = "spark.sql.adaptive.enabled"
_STOP_TIMEOUT_S = 10.0
_HEARSAY_S = 2.0
"""How long Spark may take to hear of the end of a slot's process."""
_LONGEST_LINE_FOR_SPARK = 200
_FINAL_CHECKPOINT_TIMEOUT_S = 3600.0


class AttemptOutcome(Enum):
    """How an attempt ended."""

    FINISHED = "finished"  # the sources are read, or the job was stopped with a savepoint
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass
class AttemptEnd:
    """The end of an attempt; the error where it failed."""

    outcome: AttemptOutcome
    error: PystateError | None = None
    stack_trace: str = ""


class ExecutionAttempt:
    """Runs the job once, from a restored state until it ends or something fails.

    Args:
        number: The attempt's number, from 0.
        spark: The session.
        plan: What to run.
        frames: The streaming DataFrames of the plan's sources.
        environment: The job, as subtasks see it.
        restored: Where to start.
        coordinator: Makes checkpoints; told of epochs.
        scratch: A folder of this attempt alone.
        startup_timeout_s: How long slots may take to register.
        trigger_interval_ms: The least time between two epochs' starts.
        metrics: Takes what slots and stages measure.
        waits: Takes a sentence for people: what is waited for.
    """

    def __init__(
        self,
        number: int,
        spark: SparkSession,
        plan: JobPlan,
        frames: list[DataFrame],
        environment: JobEnvironment,
        restored: RestoredState,
        coordinator: CheckpointCoordinator,
        scratch: Path,
        *,
        startup_timeout_s: float,
        trigger_interval_ms: int,
        metrics: JobMetrics,
        waits: Callable[[str], object],
    ) -> None:
        self._spark = spark
        self._plan = plan
        self._frames = frames
        self._environment = environment
        self._restored = restored
        self._coordinator = coordinator
        self._scratch = scratch
        self._startup_timeout_s = startup_timeout_s
        self._trigger_interval_ms = trigger_interval_ms
        self._metrics = metrics
        self._waits = waits
        self._slot_count = plan.width
        one_machine = local_threads(str(spark.sparkContext.master)) is not None
        self._one_machine = one_machine
        self._pool = SlotPool(
            environment.job_id,
            number,
            self._slot_count,
            new_secret(),
            self,
            host="127.0.0.1" if one_machine else driver_address(spark),
            ports=Configuration(environment.configuration).get(PystateOptions.SLOT_PORTS),
            unix_sockets=one_machine,
            call_timeout_s=Configuration(environment.configuration).get(CheckpointingOptions.CHECKPOINTING_TIMEOUT) / 1000,
        )
        self._slot_job = SlotJob(spark.sparkContext, self._pool.description, self._slot_count, self._slots_ended)
        self.spark_checkpoint = SparkCheckpointDirectory(scratch / "spark-checkpoint", spark_sources(plan, frames))
        self._stages = StageStore(spark.sparkContext)
        repeatable = not any(non_determinism(frame).expressions for frame in frames)
        shuffles = [source_shuffles(frame) for frame in frames]  # a walk through the plan in the JVM
        proven = any(one.can_be_proven for one in shuffles) and not any(one.others for one in shuffles)
        self._proof = EpochProof(self._stages, repeatable=repeatable, source_shuffles=proven)
        self._end: AttemptEnd | None = None
        self._lost_slot: tuple[int, str, str] | None = None
        self._ended = threading.Condition()
        self._query: StreamingQuery | None = None
        self._slots: SlotDirectory | None = None

    @property
    def slot_pids(self) -> dict[int, int]:
        """The process id of each slot that has registered, by index."""
        return self._pool.pids

    @property
    def restored_bytes(self) -> int:
        """How much of the old keyed state the slots have read."""
        return self._pool.restored_bytes

    def run(self, on_deploying: Callable[[], object], on_running: Callable[[], object]) -> AttemptEnd:
        """Run until the end of the attempt, and clean up after it.

        Args:
            on_deploying: Called once all slots are there.
            on_running: Called once all state is restored and the query has started.
        """
        try:
            self._start(on_deploying, on_running)
            self._watch()
        except PystateError as error:
            self.end(AttemptEnd(AttemptOutcome.FAILED, error, traceback.format_exc()))
        except Exception as error:  # Spark's errors come in many classes; each of them ends the attempt only
            wrapped = JobExecutionError(f"{type(error).__name__}: {_first_line(error)}")
            self.end(AttemptEnd(AttemptOutcome.FAILED, wrapped, traceback.format_exc()))
        finally:
            self._clean_up()
        assert self._end is not None  # noqa: S101 - every path above sets it
        if self._lost_slot is not None:
            # asked only now: Spark hears of an executor's end later than we of the slot's
            slot, seen, during = self._lost_slot
            place = place_of_slot(self._spark.sparkContext, self._slot_job.group, slot, _HEARSAY_S)
            self._end.error = JobExecutionError(lost_slot_sentence(slot, seen, place, during))
        return self._end

    def end(self, end: AttemptEnd) -> None:
        """End the attempt; the first caller says how."""
        with self._ended:
            if self._end is None:
                self._end = end
            self._ended.notify_all()
        if end.outcome is not AttemptOutcome.FINISHED:
            self._coordinator.attempt_over(self._pool, job_ends=self._job_ends)
        self._pool.fail("the attempt ended")

    def handle_slot_call(self, op: str, arguments: dict[str, Any]) -> Any:
        """Answer a call from a subtask."""
        if op == "task_failed":
            error = error_from_dict(arguments["error"])
            self.end(AttemptEnd(AttemptOutcome.FAILED, error, arguments["stack_trace"]))
            return None
        if op == "task_outcome":
            return self._stages.outcome(arguments["stage_id"], arguments["task_attempt_id"]).value
        return answer_slot_call(self._coordinator, op, arguments)

    def slot_lost(self, slot: int, reason: str) -> None:
        """End the attempt: a slot's state is gone with it."""
        during = self._coordinator.state.running_in(slot)
        with self._ended:
            if self._end is None:
                self._lost_slot = slot, reason, during
        message = lost_slot_sentence(slot, reason, None, during)
        self.end(AttemptEnd(AttemptOutcome.FAILED, JobExecutionError(message)))

    def slot_died(self, slot: int, cause: str) -> None:
        """End the attempt: user code has ended a slot's process."""
        message = f"The process of slot {slot} ended itself: {cause}{self._coordinator.state.running_in(slot)}."
        hint = "look at that line, and at native code below it; an exception would tell more"
        self.end(AttemptEnd(AttemptOutcome.FAILED, UserFunctionError(message, hint=hint)))

    def slots_hang(self, slots: list[int], call: str, timeout_s: float) -> None:
        """End the attempt: a function that hangs holds up all later epochs."""
        named = ", ".join(f"{slot} (process {self._pool.pids.get(slot)})" for slot in slots)
        message = f"Not all slots did {call} within {timeout_s:g} s. Missing: {named}."
        hint = f"look where their functions wait, or raise {CheckpointingOptions.CHECKPOINTING_TIMEOUT.key}"
        self.end(AttemptEnd(AttemptOutcome.FAILED, SubtaskHangsError(message, hint=hint)))

    def slot_metrics(self, report: dict[str, Any]) -> None:
        """Take what a slot has measured."""
        self._metrics.slots.report(self._environment.attempt, report)

    def _start(self, on_deploying: Callable[[], object], on_running: Callable[[], object]) -> None:
        watch = self._core_watch()
        if watch is not None:
            watch.wait(lambda: self._end is not None)
        self._scratch.mkdir(parents=True)
        self._metrics.slots.begin_attempt(self._environment.attempt)
        self._pool.start()
        self._slot_job.start()
        restored = self._restored
        shift = restored.epoch - restored.batch_id
        # executors that Spark still counts may be gone already
        watch = self._core_watch()
        slots = self._pool.wait_registered(self._startup_timeout_s, lambda: watch is None or watch.enough())
        on_deploying()
        self._slots = dataclasses.replace(slots, epoch_shift=shift)
        environment = vars(self._environment)
        self._pool.deploy(
            [
                Deployment(
                    environment,
                    self._plan.hosted_by(index),
                    restored.operators[index],
                    restored.epoch,
                    restored.checkpoint_id,
                )
                for index in range(self._slot_count)
            ]
        )
        self.spark_checkpoint.rebuild(restored.spark_files, keep_query_id=restored.keep_query_id)
        self._coordinator.attempt_started(
            self._pool, self.spark_checkpoint, restored.epoch, restored.batch_id, self._checkpoints_failed
        )
        frame = streaming_frame(self._plan, self._frames, self._slots, self._environment, self._metrics.sources)
        writer = frame.writeStream.foreachBatch(self._run_epoch).option(
            "checkpointLocation", str(self.spark_checkpoint.path)
        )
        writer = writer.queryName(f"{OUR_QUERIES}{self._environment.job_id}-{self._environment.attempt}")
        if self._plan.bounded:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self._trigger_interval_ms} milliseconds")
        self._query = self._started(writer)
        on_running()

    def _core_watch(self) -> CoreWatch | None:
        """Return what looks after the executors of a cluster, some of which may be gone with the attempt before."""
        if self._one_machine:
            return None
        # with fewer cores than at first the job is slower; without one to spare for an epoch it would stand still
        least = least_cores(self._slot_count)
        patience_s, restart = self._startup_timeout_s, self._environment.attempt > 0
        executors = SparkExecutors(self._spark)
        return CoreWatch(executors, self._slot_count, least, patience_s, restart=restart, say=self._waits)

    def _started(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start the query without adaptive execution, which would run all stages but the last in front of `foreachBatch`.

        An epoch would then run before it has begun. The query keeps a copy of the settings, so the job's own queries keep
        the user's.
        """
        settings = self._spark.conf
        before = settings.get(_ADAPTIVE, None)
        settings.set(_ADAPTIVE, "false")
        try:
            return writer.start()
        finally:
            if before is None:
                settings.unset(_ADAPTIVE)
            else:
                settings.set(_ADAPTIVE, before)

    def _checkpoints_failed(self, error: PystateError) -> None:
        if isinstance(error, SubtaskHangsError):
            self.end(AttemptEnd(AttemptOutcome.FAILED, error))
            return
        message = f"Exceeded checkpoint tolerable failure threshold. The latest checkpoint failed due to: {error.message}"
        self.end(AttemptEnd(AttemptOutcome.FAILED, JobExecutionError(message, where=error.where, hint=error.hint)))

    def _watch(self) -> None:
        query = self._query
        assert query is not None  # noqa: S101 - set by _start
        while True:
            with self._ended:
                if self._end is None:
                    self._ended.wait(0.1)
                if self._end is not None:
                    return
            silent = self._pool.silent_slot()
            if silent is not None:
                self.slot_lost(silent, "it has not been heard of for too long")
            elif not query.isActive:
                self._query_ended(query)

    def backlog(self) -> int | None:
        """Return how many rows the sources had not delivered yet at the end of the last epoch; None where they don't say."""
        query = self._query
        return None if query is None else backlog_rows(query)

    def _query_ended(self, query: StreamingQuery) -> None:
        error = query.exception()
        if error is None:
            self._coordinator.final_checkpoint(_FINAL_CHECKPOINT_TIMEOUT_S)
            self.end(AttemptEnd(AttemptOutcome.FINISHED))
            return
        text = str(error)
        self.end(AttemptEnd(AttemptOutcome.FAILED, JobExecutionError(f"The query failed: {_first_line(error)}"), text))

    def _run_epoch(self, frame: DataFrame, batch_id: int) -> None:
        """Be the body of the query's `foreachBatch`, which gives Spark no more than a line of what fails in it.

        Spark looks through the text with a pattern whose recursion overflows its stack (`StreamExecution`), and what it
        would find there are its own errors, told already.
        """
        try:
            self._run_batch(frame, batch_id)
        except Exception as error:
            message = bounded_text(_first_line(error), _LONGEST_LINE_FOR_SPARK)
            raise JobExecutionError(message) from None

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Run one epoch."""
        epoch = batch_id + self._restored.epoch - self._restored.batch_id
        try:
            self._coordinator.begin_epoch(epoch, batch_id)
            self._metrics.epoch_begun()
            frame.write.format("noop").mode("overwrite").save()
            prepared = self._coordinator.check_all_prepared(epoch)
            query = self._query
            self._proof.check(epoch, prepared, "" if query is None else str(query.runId))
            state = self._coordinator.state
            self._pool.finish_epoch(epoch, prepared, state.decide(epoch), state.slot_finished)
            state.subtasks_finished(epoch)
            self._measure_alignment(epoch)
            for sink in self._plan.sinks:
                self._deliver(sink, epoch)
            self._coordinator.state.finish_epoch(epoch, batch_id)
            self._metrics.epoch_finished(epoch)
        except AttemptOverError:
            raise
        except PystateError as error:
            self.end(AttemptEnd(AttemptOutcome.FAILED, error, traceback.format_exc()))
            raise
        except Exception as error:
            self.end(AttemptEnd(AttemptOutcome.FAILED, stage_failure(error), str(error)))
            raise

    def _measure_alignment(self, epoch: int) -> None:
        stages, triggered = self._coordinator.state.stages_of_barrier(epoch)
        if stages:
            measured = {uid: alignment_ms(self._stages.ends(stage - 1), triggered) for uid, stage in stages.items()}
            self._coordinator.state.report_alignment(epoch, measured)

    def _deliver(self, sink: SinkPlan, epoch: int) -> None:
        assert self._slots is not None  # noqa: S101 - epochs run after _start
        if sink.step.kind is SinkKind.PRINT:
            for subtask in range(self._plan.task(sink.task_uid).parallelism):
                for batch in fetch_output(self._slots, sink.task_uid, sink.tag, epoch, subtask):
                    sys.stdout.writelines(f"{line}\n" for line in batch.column(LINE_FIELD).to_pylist())
            sys.stdout.flush()
            return
        function = sink.step.function
        assert function is not None  # noqa: S101 - for_each_batch() takes no less
        frame = kept_frame(self._spark, self._plan, sink, self._slots, epoch)
        try:
            function(frame, epoch)
        except BaseException as error:  # sys.exit() would end the thread that Spark calls, and Spark would wait for ever
            wrapped = UserFunctionError(f"{type(error).__name__}: {_first_line(error)}", where=f"sink {sink.step.name}")
            self.end(AttemptEnd(AttemptOutcome.FAILED, wrapped, traceback.format_exc()))
            raise wrapped from error

    def _slots_ended(self, reason: str | None) -> None:
        if self._end is None:
            detail = reason or "the slot job ended"
            self._pool.fail(detail)
            self.end(AttemptEnd(AttemptOutcome.FAILED, JobExecutionError(f"The slots were lost: {detail}")))

    @property
    def _job_ends(self) -> bool:
        return self._end is not None and self._end.outcome is not AttemptOutcome.FAILED

    def _clean_up(self) -> None:
        self._coordinator.attempt_over(self._pool, job_ends=self._job_ends)
        if self._query is not None:
            # stop() waits for the running batch; a user's function may hold it, and the attempt must end all the same
            stopper = threading.Thread(target=self._stop_query, name="query-stop", daemon=True)
            stopper.start()
            stopper.join(_STOP_TIMEOUT_S)
        self._pool.close(final=self._job_ends)
        self._slot_job.cancel(_STOP_TIMEOUT_S / 2)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _stop_query(self) -> None:
        with contextlib.suppress(Exception):  # it has failed or ended already
            if self._query is not None:
                self._query.stop()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return bounded_text(lines[0]) if lines else type(error).__name__


def _root_cause(text: str) -> str:
    """Return the innermost cause of a JVM's exception, as py4j tells it: its first line names only the call."""
    told = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in told if line.startswith("Caused by: ")]
    thrown = [line.removeprefix(": ") for line in told if line.startswith(": ")]
    return (causes[-1:] or thrown[:1] or told[:1] or ["no reason was told"])[0]


def stage_failure(error: Exception) -> PystateError:
    """Return what went wrong in an epoch's Spark job: a Python worker's own last line where there is one."""
    text = str(error)
    marker = "Traceback (most recent call last):"
    if marker not in text:
        return JobExecutionError(f"The epoch's Spark job failed: {bounded_text(_root_cause(text))}")
    trace = text[text.rindex(marker) :].splitlines()
    for index, line in enumerate(trace[1:], 2):
        if line and not line.startswith((" ", "\t")):
            return _of_wrong_data(line, trace[index:]) or UserFunctionError(line.strip())
    return UserFunctionError(_first_line(error))


def _of_wrong_data(last: str, following: list[str]) -> PystateError | None:
    """Return the error of a Python worker in which data doesn't fit its type, as it was raised; None for any other."""
    name, _, message = last.strip().partition(": ")
    module, _, said = name.rpartition(".")
    if module != PystateError.__module__ or said not in (RecordError.__name__, StateError.__name__):
        return None
    told = [line.strip().partition(": ") for line in following[:2]]
    place = {name: text for name, _, text in told if name in ("at", "try")}
    return error_from_dict({"class": said, "message": message, "where": place.get("at"), "hint": place.get("try")})


def scratch_folder(job_id: str) -> Path:
    """Return a folder for Spark's logs: memory-backed where the machine has such a place.

    Those that dead drivers of the job have left are removed.
    """
    memory = Path("/dev/shm")  # noqa: S108 - a folder below it is made with a random name and mode 0700
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    prefix = f"{folder_prefix(job_id)}logs-"
    for left in base.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=base))
