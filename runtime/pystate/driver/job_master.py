"""One job from start to end: restore, attempts, restarts, stop, cancel."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pystate
from pystate.api.job_graph import StreamGraph
from pystate.checkpoint.checkpoint_config import checkpoint_config
from pystate.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.checkpoint.checkpoint_notices import checkpoint_notices
from pystate.checkpoint.checkpoint_recovery import DurableCheckpointIds
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.checkpoint.snapshot_metadata import JobDescription
from pystate.common.configuration import Configuration
from pystate.common.errors import (
    CorruptSnapshotError,
    DriverReplacedError,
    JobCancelledError,
    JobExecutionError,
    PystateError,
    SparkLostError,
)
from pystate.common.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.common.options import CoreOptions, PystateOptions, StateRecoveryOptions
from pystate.common.state_settings import StateSettings
from pystate.common.user_frames import add_user_frame
from pystate.driver.code_fingerprint import code_fingerprint
from pystate.driver.execution_attempt import AttemptEnd, AttemptOutcome, ExecutionAttempt, scratch_folder
from pystate.driver.execution_failure_handler import OF_USER_CODE, ExecutionFailureHandler
from pystate.driver.job_metrics import JobMetrics
from pystate.driver.job_planning import plan_job
from pystate.driver.micro_batch.engine import MicroBatchEngine
from pystate.driver.micro_batch.epoch_coordinator import EpochCoordinator
from pystate.driver.micro_batch.epoch_numbers import EpochNumbers
from pystate.driver.restore import RestorePlan, starting_snapshot
from pystate.driver.restore_report import RestoreReport
from pystate.driver.restored_job import RestoredJob
from pystate.driver.status import JobStatusStore, failure_dict
from pystate.job_folder.driver_term import DriverTerm
from pystate.job_folder.failure_history import bounded_trace
from pystate.job_folder.restart_strategy import restart_warnings
from pystate.metrics.last_metrics import write_last_metrics
from pystate.metrics.store import DriverMetrics
from pystate.plan.job_plan import JobPlan
from pystate.plan.plan_nodes import plan_nodes
from pystate.plan.task import JobEnvironment
from pystate.slot.local_backup import local_roots
from pystate.slot.process import remove_dead_folders
from pystate.snapshot.local_copies import remove_local_copies
from pystate.snapshot.metadata import SavepointFormatType
from pystate.snapshot.snapshot import Snapshot
from pystate.spark.application import is_alive, is_forgotten
from pystate.spark.micro_batch.source_checks import spark_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class JobMaster:
    """Runs one job.

    Args:
        job_id: 32 hex digits.
        name: What people see.
        graph: The program.
        configuration: The options in force.
        spark: The session.
        directory: The job's files.
        status: Where the job stands; an attempt number above 0 means that another driver has run the job before.
        job_runs: Whether a job of this installation has not ended; None for one that it doesn't know.
        supervised: Whether a job manager starts another driver when this one has to give up.
        say: Takes a sentence for people: warnings, restarts.
    """

    def __init__(
        self,
        job_id: str,
        name: str,
        graph: StreamGraph,
        configuration: Configuration,
        spark: SparkSession,
        directory: JobDirectory,
        status: JobStatusStore,
        *,
        job_runs: Callable[[str], bool | None],
        supervised: bool = False,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    ) -> None:
        self._job_id = job_id
        self._name = name
        self._graph = graph
        self._configuration = configuration
        self._spark = spark
        self._directory = directory
        self._status = status
        self._term = DriverTerm.of_this_process(directory.term)
        self._job_runs = job_runs
        self._supervised = supervised
        self._say = say
        self._epoch_numbers = EpochNumbers(directory.epochs, self._term.check)
        self._attempt: ExecutionAttempt | None = None
        self._restore: RestoreReport | None = None
        self._stop_state: JobStatus | None = None
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        self._number = status.attempt
        self._started_behind = -1  # the last batch of the snapshot that the job was started from
        self._failures = ExecutionFailureHandler(configuration, directory, self._saved_batch)
        self._state_settings = StateSettings.of(configuration)
        self._metrics = JobMetrics(spark.sparkContext)
        parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
        self.coordinator = CheckpointCoordinator(
            JobDescription(
                job_id=job_id,
                name=name,
                parallelism=parallelism,
                configuration=configuration.to_dict(),
                pystate_version=pystate.__version__,
                spark_version=spark.version,
                code_fingerprint=code_fingerprint(),
            ),
            configuration,
            directory.checkpoints,
            ids=DurableCheckpointIds(directory.checkpoint_ids, directory.checkpoint_ids_reserve),
            check_term=self._term.check,
        )
        self.epochs = EpochCoordinator(self.coordinator, self._epoch_numbers)

    def run(self) -> int:
        """Run the job to its end; return its run time in ms.

        Raises:
            JobCancelledError: It was cancelled.
            SparkLostError: Spark is gone, and the job is to go on in another driver.
            DriverReplacedError: It goes on in another driver already.
            PystateError: It failed.
        """
        self._term.begin()
        self._status.runs_in(str(self._spark.sparkContext.applicationId))
        taken_over = self._number > 0
        self._failures.begin(taken_over=taken_over)
        while True:
            try:
                plan, frames, restore = self._prepare(taken_over=taken_over)
                break
            except DriverReplacedError:
                raise
            except PystateError as error:
                if not taken_over:
                    self._status.update(JobStatus.FAILED, failure=failure_dict(error, traceback.format_exc()))
                    raise
                self._check_spark(error)
                # the storage may be out of reach for a while
                self._wait_for_restart(error, traceback.format_exc())
                if self._cancelled.is_set():
                    return self._finish(AttemptEnd(AttemptOutcome.CANCELLED))
        try:
            return self._run_attempts(plan, frames, restore)
        finally:
            self.coordinator.close(self._status.state)
            self.epochs.close(self._status.state)
            if self._status.state.is_terminal:
                remove_local_copies(local_roots(self._configuration), self._job_id)

    def cancel(self) -> None:
        """Cancel the job; returns at once."""
        with self._lock:
            self._status.update(JobStatus.CANCELLING)
            self._cancelled.set()
            attempt = self._attempt
        if attempt is not None:
            attempt.end(AttemptEnd(AttemptOutcome.CANCELLED))

    def restore_progress(self) -> dict[str, Any] | None:
        """Return how far the restore of an attempt is: `checkpoint_id`, `bytes`, `total`; None where none is under way."""
        restore, attempt = self._restore, self._attempt
        return None if restore is None or attempt is None else restore.progress(attempt.restored_bytes)

    def metrics(self) -> DriverMetrics:
        """Return what is measured of the job."""
        return self._metrics.collect(self.coordinator.tracker)

    def epoch_progress(self) -> dict[str, Any]:
        """Return how long the last epochs took, see `JobMetrics.epoch_times`, and `backlog`: rows not read yet, if known."""
        attempt = self._attempt
        return {**self._metrics.epoch_times(), "backlog": None if attempt is None else attempt.backlog()}

    def io_metrics(self, uid: str) -> dict[str, int]:
        """Return bytes and times of a task's subtasks in all, see `JobMetrics.io`."""
        return self._metrics.io(uid)

    def savepoint(
        self,
        target_directory: str | None,
        *,
        stop: bool,
        cancel: bool,
        message: str | None = None,
        format: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> Future[CompletedCheckpoint]:
        """Take a savepoint; with `stop` or `cancel` the job ends behind it, and goes on if it fails.

        Args:
            target_directory: Where; None for the configured directory.
            stop: The job ends as FINISHED.
            cancel: The job ends as CANCELED.
            message: What the savepoint says about itself.
            format: How keyed state is written.
        """
        future = self.coordinator.trigger_savepoint(target_directory, hold=stop or cancel, message=message, format=format)
        if stop or cancel:
            end_state = JobStatus.FINISHED if stop else JobStatus.CANCELED
            outer: Future[CompletedCheckpoint] = Future()
            future.add_done_callback(lambda done: self._end_behind(done, end_state, outer))
            return outer
        return future

    def _end_behind(self, done: Future[CompletedCheckpoint], state: JobStatus, outer: Future[CompletedCheckpoint]) -> None:
        error = done.exception()
        if error is not None:
            outer.set_exception(error)
            return
        try:
            self._failures.job_ends(state)
        except OSError as failure:
            self._say(f"WARNING: {self._directory.recovery} can't be written: {failure}")
        with self._lock:
            self._stop_state = state
            attempt = self._attempt
        try:
            if attempt is not None:
                outcome = AttemptOutcome.FINISHED if state is JobStatus.FINISHED else AttemptOutcome.CANCELLED
                attempt.end(AttemptEnd(outcome))
        finally:
            outer.set_result(done.result())  # the savepoint is there, however the job ends

    def _prepare(self, *, taken_over: bool) -> tuple[JobPlan, list[DataFrame], RestorePlan]:
        configuration = self._configuration
        plan, frames = plan_job(self._graph, configuration, self._spark, self._say, self._waits, restart=taken_over)
        if taken_over:
            self._term.check()  # what this deletes may be a checkpoint that another driver writes
            self.coordinator.recover(self._say)
        snapshot = self.coordinator.latest_snapshot()
        mode = configuration.get(StateRecoveryOptions.RESTORE_MODE)
        path = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
        starting = starting_snapshot(path, mode, self.coordinator.has_claimed, needed=snapshot is None)
        snapshot = snapshot or starting
        restore = RestorePlan(
            plan,
            spark_sources(plan, frames),
            allow_non_restored=configuration.get(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE),
            mode=mode,
        )
        if snapshot is not None:
            restore.adopt_max_parallelism(snapshot)
        if starting is not None:
            self._started_behind = read_up_to(starting)
        restore.check_parallelism()
        warnings = [
            *self._graph.notices,
            *configuration.notices(),
            *plan.warnings,
            *self._state_settings.notices,
            *checkpoint_notices(configuration),
            *restart_warnings(configuration),
        ]
        checkpointing = checkpoint_config(configuration).to_plain()
        self._status.describe_plan(self._name, plan.tasks, plan_nodes(plan), warnings, checkpointing)
        self._metrics.describe(plan)
        self.epochs.describe(plan.tasks)
        self.coordinator.start(plan.tasks, starting, mode, self._job_runs)
        return plan, frames, restore

    def _run_attempts(self, plan: JobPlan, frames: list[DataFrame], restore: RestorePlan) -> int:
        configuration = self._configuration
        environment = JobEnvironment(
            job_id=self._job_id,
            job_name=self._name,
            attempt=0,
            configuration=configuration.to_dict(),
            state_backend=self._state_settings.backend,
            kept_output_bytes=configuration.get(PystateOptions.OUTPUT_MEMORY_SIZE),
            working_directory="",
        )
        scratch = scratch_folder(self._job_id)
        try:
            while True:
                end = self._run_attempt(plan, frames, restore, environment, scratch)
                self._term.check_when_told(self._say)  # else a storage that is away for a moment would end the job for good
                # behind the savepoint of a stop or a cancel the job has ended, whatever befalls the attempt
                if end.outcome is not AttemptOutcome.FAILED or self._cancelled.is_set() or self._stop_state is not None:
                    return self._finish(end)
                error = end.error or JobExecutionError("The attempt failed.")
                self._check_spark(error)
                self._wait_for_restart(error, end.stack_trace)
                if self._cancelled.is_set():
                    return self._finish(AttemptEnd(AttemptOutcome.CANCELLED))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            remove_dead_folders(self._job_id, self._number + 1)

    def _wait_for_restart(self, error: PystateError, stack_trace: str) -> None:
        """Wait until the next attempt may begin, or the job is cancelled.

        Raises:
            PystateError: The error; there is no next attempt.
        """
        if isinstance(error, OF_USER_CODE):
            add_user_frame(error, stack_trace)
        self._say(f"Attempt {self._number} failed: {error}\n{bounded_trace(stack_trace)}")
        failure = failure_dict(error, stack_trace)
        if isinstance(error, CorruptSnapshotError) and self.coordinator.give_up_latest():
            self._say("The job goes back to the checkpoint before.")
            delay_ms: int | None = 0
        else:
            delay_ms = self._failures.delay_ms(error, stack_trace)
        if delay_ms is None:
            self._say(f"Recovery is suppressed: {self._failures.describe()}.")
            self._end(JobStatus.FAILED, failure=failure)
            raise error
        self._number += 1
        self._say(f"Attempt {self._number} starts in {delay_ms} ms ({self._failures.describe()}).")
        self._status.update(JobStatus.RESTARTING, failure=failure, attempt=self._number)
        self._cancelled.wait(delay_ms / 1000)

    def _saved_batch(self) -> int | None:
        """Return the last batch whose rows a checkpoint of the job holds; one can complete before the first epoch, too."""
        snapshot = self.coordinator.latest_snapshot()
        if snapshot is None or snapshot.starting or read_up_to(snapshot) <= self._started_behind:
            return None
        return read_up_to(snapshot)

    def _check_spark(self, error: PystateError) -> None:
        """End this driver's part of the job if its Spark application is gone, of which a failure may be the first sign.

        A second application in the same process would not do: the DataFrames that the program has made belong to the first.

        Raises:
            SparkLostError: It is; where a job manager watches this process, it starts another one with a Spark of its own.
        """
        lost: PystateError = error
        if not isinstance(error, SparkLostError):
            if not is_alive(self._spark):
                how = "is gone"
            elif is_forgotten(self._spark):
                how = "is not known to the Spark master any more (spark.deploy.recoveryMode)"
            else:
                return
            lost = SparkLostError(f"The job's Spark application {how}: {error.message}", where=error.where)
        if self._supervised:
            self._say(f"Attempt {self._number} failed: {lost}\nThis driver ends, the next one starts another application.")
            self._status.report_failure(failure_dict(lost, ""))
        else:
            self._end(JobStatus.FAILED, failure=failure_dict(lost, ""))
        raise lost

    def _run_attempt(
        self,
        plan: JobPlan,
        frames: list[DataFrame],
        restore: RestorePlan,
        environment: JobEnvironment,
        scratch: Path,
    ) -> AttemptEnd:
        try:
            self._term.check()  # the wait for a restart may have been long, and this attempt writes the job's status
            restored = self._restored(restore)
        except PystateError as error:
            return AttemptEnd(AttemptOutcome.FAILED, error, traceback.format_exc())
        number = self._number
        environment, folder = dataclasses.replace(environment, attempt=number), scratch / str(number)
        engine = MicroBatchEngine(
            self._spark,
            plan,
            frames,
            environment,
            restored,
            self.epochs,
            folder,
            trigger_interval_ms=self._configuration.get(PystateOptions.EPOCH_INTERVAL),
            metrics=self._metrics,
        )
        attempt = ExecutionAttempt(
            number,
            self._spark,
            plan,
            environment,
            restored,
            self.coordinator,
            engine,
            folder,
            startup_timeout_s=self._configuration.get(PystateOptions.SLOT_STARTUP_TIMEOUT) / 1000,
            metrics=self._metrics.slots,
            waits=self._waits,
        )
        with self._lock:
            self._attempt = attempt
            if self._cancelled.is_set():
                return AttemptEnd(AttemptOutcome.CANCELLED)
        if number == 0:  # one after it is RESTARTING for as long as it waits for its slots
            self._status.update(JobStatus.CREATED)
        self._failures.attempt_created()
        if restored.checkpoint_id is not None:
            self._restore = RestoreReport(restored.checkpoint_id, restored.keyed_bytes(plan.tasks))
        end = attempt.run(self._is_deploying, self._is_running)
        self._metrics.attempt_over()
        with self._lock:
            self._attempt = None
        self._restore = None
        return end

    def _waits(self, sentence: str) -> None:
        self._say(sentence)
        self._status.waits(sentence)

    def _is_deploying(self) -> None:
        self._status.update(JobStatus.CREATED)

    def _is_running(self) -> None:
        self._failures.attempt_runs()
        self._status.update(JobStatus.RUNNING)
        restore, self._restore = self._restore, None
        if restore is not None:
            self._say(restore.sentence(self._number))

    def _restored(self, restore: RestorePlan) -> RestoredJob:
        """Return the state to start from: the latest checkpoint, else the savepoint the job was started from, else none."""
        snapshot = self.coordinator.latest_snapshot()
        if self._number > 0:
            start = _describe_start(snapshot, in_memory=self._state_settings.in_memory_only)
            self._say(f"Attempt {self._number} starts {start}.")
        running = self.epochs.running_epoch(snapshot)
        if running is not None:
            self._say(f"Epoch {running.epoch} is run again, with the same rows.")
        if snapshot is None:
            return restore.nothing(self._epoch_numbers.resume_above(-1), running)
        above = self._epoch_numbers.resume_above(snapshot.metadata.epoch)
        restored = restore.from_snapshot(snapshot, above, self._job_id, running)
        self.coordinator.report_restored(snapshot)
        return restored

    def _end(self, state: JobStatus, **changes: Any) -> None:
        # who reads the status finds the metrics
        write_last_metrics(self._directory.last_metrics, self.metrics)
        self._status.update(state, **changes)

    def _finish(self, end: AttemptEnd) -> int:
        state = self._stop_state
        if state is None:
            state = JobStatus.FINISHED if end.outcome is AttemptOutcome.FINISHED else JobStatus.CANCELED
        self._end(state)
        final = self._status.snapshot()
        if state is JobStatus.CANCELED:
            message = "The job was cancelled."
            raise JobCancelledError(message)
        return int(final["end_time"]) - int(final["start_time"])


def read_up_to(snapshot: Snapshot) -> int:
    """Return Spark's number of the last batch that a snapshot holds the rows of; -1 for none."""
    position = snapshot.metadata.source_position
    return -1 if position is None else position.epoch


def _describe_start(snapshot: Snapshot | None, *, in_memory: bool) -> str:
    # checkpoints in memory may have completed in a driver that is gone
    none = "this driver has no checkpoint in memory" if in_memory else "no checkpoint has completed"
    if snapshot is None:
        return f"from nothing: {none}, and the job was started without a savepoint"
    number = snapshot.metadata.checkpoint_id
    if snapshot.starting:
        return f"from the savepoint the job was started from: {none} ({snapshot.location.uri})"
    return f"from checkpoint {number} ({snapshot.location.uri})"
