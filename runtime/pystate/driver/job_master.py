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
from typing import TYPE_CHECKING

import pystate
from pystate.api.job_graph import StreamGraph
from pystate.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.common.configuration import Configuration
from pystate.common.errors import JobCancelledError, JobExecutionError, PystateError
from pystate.common.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.common.key_groups import default_max_parallelism
from pystate.common.options import (
    CoreOptions,
    PipelineOptions,
    PystateOptions,
    StateBackendOptions,
    StateRecoveryOptions,
)
from pystate.driver.checkpoint_coordinator import CheckpointCoordinator
from pystate.driver.epoch_numbers import EpochNumbers
from pystate.driver.execution_attempt import AttemptEnd, AttemptOutcome, ExecutionAttempt, scratch_folder
from pystate.driver.restart_strategy import restart_strategy
from pystate.driver.restore import RestorePlan, load_snapshot
from pystate.driver.restored_state import RestoredState
from pystate.driver.snapshot_metadata import JobDescription
from pystate.driver.status import JobStatusStore, failure_dict
from pystate.slot.task import JobEnvironment
from pystate.spark.job_plan import JobPlan, JobPlanner, check_column_names
from pystate.spark.translator import source_type

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
        status: Where the job stands.
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
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    ) -> None:
        self._job_id = job_id
        self._name = name
        self._graph = graph
        self._configuration = configuration
        self._spark = spark
        self._directory = directory
        self._status = status
        self._say = say
        self._epochs = EpochNumbers(directory.epochs)
        self._attempt: ExecutionAttempt | None = None
        self._stop_state: JobStatus | None = None
        self._cancelled = threading.Event()
        self._lock = threading.Lock()
        parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
        self.coordinator = CheckpointCoordinator(
            JobDescription(
                job_id=job_id,
                name=name,
                parallelism=parallelism,
                configuration=configuration.to_dict(),
                pystate_version=pystate.__version__,
                spark_version=spark.version,
            ),
            configuration,
            self._epochs,
            directory.checkpoints,
        )

    def run(self) -> int:
        """Run the job to its end; return its run time in ms.

        Raises:
            JobCancelledError: It was cancelled.
            PystateError: It failed.
        """
        try:
            plan, frame, restore = self._prepare()
        except PystateError as error:
            self._status.update(JobStatus.FAILED, failure=failure_dict(error, traceback.format_exc()))
            raise
        try:
            return self._run_attempts(plan, frame, restore)
        finally:
            self.coordinator.close(self._status.state)

    def cancel(self) -> None:
        """Cancel the job; returns at once."""
        with self._lock:
            self._status.update(JobStatus.CANCELLING)
            self._cancelled.set()
            attempt = self._attempt
        if attempt is not None:
            attempt.end(AttemptEnd(AttemptOutcome.CANCELLED))

    def savepoint(self, target_directory: str | None, *, stop: bool, cancel: bool) -> Future[CompletedCheckpoint]:
        """Take a savepoint; with `stop` or `cancel` the job ends behind it, and goes on if it fails."""
        future = self.coordinator.trigger_savepoint(target_directory, hold=stop or cancel)
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
        with self._lock:
            self._stop_state = state
            attempt = self._attempt
        if attempt is not None:
            outcome = AttemptOutcome.FINISHED if state is JobStatus.FINISHED else AttemptOutcome.CANCELLED
            attempt.end(AttemptEnd(outcome))
        outer.set_result(done.result())

    def _prepare(self) -> tuple[JobPlan, DataFrame, RestorePlan]:
        configuration = self._configuration
        parallelism = configuration.get(CoreOptions.DEFAULT_PARALLELISM)
        explicit = configuration.get(PipelineOptions.MAX_PARALLELISM)
        uids = self._graph.assign_uids(auto=configuration.get(PipelineOptions.AUTO_GENERATE_UIDS))
        default_max = explicit if explicit > 0 else default_max_parallelism(parallelism)
        if not self._graph.sources:
            message = "The job has no source."
            raise JobExecutionError(message)
        make_frame = self._graph.sources[0].frame
        assert make_frame is not None  # noqa: S101 - the environment always sets it
        frame: DataFrame = make_frame()
        elements = source_type(self._graph.sources[0], frame)
        check_column_names(elements, self._graph.sources[0].name)
        plan = JobPlanner(self._graph, uids, parallelism, {}, default_max).plan(elements)
        for warning in plan.warnings:
            self._say(f"WARNING: {warning}")
        path = configuration.get(StateRecoveryOptions.SAVEPOINT_PATH)
        snapshot = None if path is None else load_snapshot(path)
        restore = RestorePlan(
            plan,
            explicit if explicit > 0 else None,
            allow_non_restored=configuration.get(StateRecoveryOptions.SAVEPOINT_IGNORE_UNCLAIMED_STATE),
        )
        if snapshot is not None:
            restore.adopt_max_parallelism(snapshot)
        restore.check_parallelism()
        self._status.describe_plan(self._name, plan.tasks, plan.warnings)
        self.coordinator.start(plan.tasks, snapshot)
        return plan, frame, restore

    def _run_attempts(self, plan: JobPlan, frame: DataFrame, restore: RestorePlan) -> int:
        configuration = self._configuration
        strategy = restart_strategy(configuration)
        environment = JobEnvironment(
            job_id=self._job_id,
            job_name=self._name,
            attempt=0,
            configuration=configuration.to_dict(),
            state_backend=configuration.get(StateBackendOptions.STATE_BACKEND).value,
            kept_output_bytes=configuration.get(PystateOptions.OUTPUT_MEMORY_SIZE),
            working_directory="",
        )
        scratch = scratch_folder(self._job_id)
        number = 0
        try:
            while True:
                end = self._run_attempt(number, plan, frame, restore, environment, scratch)
                if end.outcome is not AttemptOutcome.FAILED or self._cancelled.is_set():
                    return self._finish(end)
                error = end.error or JobExecutionError("The attempt failed.")
                self._say(f"Attempt {number} failed: {error}\n{end.stack_trace}")
                delay_ms = strategy.next_delay_ms(number, error)
                failure = failure_dict(error, end.stack_trace)
                if delay_ms is None:
                    self._status.update(JobStatus.FAILED, failure=failure)
                    raise error
                number += 1
                self._status.update(JobStatus.RESTARTING, failure=failure, attempt=number)
                if self._cancelled.wait(delay_ms / 1000):
                    return self._finish(AttemptEnd(AttemptOutcome.CANCELLED))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _run_attempt(
        self,
        number: int,
        plan: JobPlan,
        frame: DataFrame,
        restore: RestorePlan,
        environment: JobEnvironment,
        scratch: Path,
    ) -> AttemptEnd:
        try:
            restored = self._restored(restore)
        except PystateError as error:
            return AttemptEnd(AttemptOutcome.FAILED, error, traceback.format_exc())
        attempt = ExecutionAttempt(
            number,
            self._spark,
            plan,
            frame,
            dataclasses.replace(environment, attempt=number),
            restored,
            self.coordinator,
            scratch / str(number),
            startup_timeout_s=self._configuration.get(PystateOptions.SLOT_STARTUP_TIMEOUT) / 1000,
            trigger_interval_ms=self._configuration.get(PystateOptions.EPOCH_INTERVAL),
        )
        with self._lock:
            self._attempt = attempt
            if self._cancelled.is_set():
                return AttemptEnd(AttemptOutcome.CANCELLED)
        self._status.update(JobStatus.CREATED)
        end = attempt.run(lambda: self._status.update(JobStatus.RUNNING))
        with self._lock:
            self._attempt = None
        return end

    def _restored(self, restore: RestorePlan) -> RestoredState:
        """Return the state to start from: the latest checkpoint, else the savepoint the job was started from, else none."""
        snapshot = self.coordinator.latest_snapshot()
        if snapshot is None:
            return restore.nothing(self._epochs.resume_above(-1))
        restored = restore.from_snapshot(snapshot, self._epochs.resume_above(snapshot.metadata.epoch), self._job_id)
        self.coordinator.report_restored(snapshot)
        return restored

    def _finish(self, end: AttemptEnd) -> int:
        state = self._stop_state
        if state is None:
            state = JobStatus.FINISHED if end.outcome is AttemptOutcome.FINISHED else JobStatus.CANCELED
        self._status.update(state)
        final = self._status.snapshot()
        if state is JobStatus.CANCELED:
            message = "The job was cancelled."
            raise JobCancelledError(message)
        return int(final["end_time"]) - int(final["start_time"])
