"""Runs the attempts of a planned job, one after the other: restore, run, fail, wait, restart."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from pystate.common.configuration.groups.pystate_options import PystateOptions
from pystate.common.configuration.state_settings import StateSettings
from pystate.common.errors import JobExecutionError, PystateError, SparkLostError
from pystate.common.job_status import JobStatus
from pystate.common.text.bounded_text import first_line
from pystate.common.text.java_errors import java_hint
from pystate.common.user_code.program_classes import ProgramClasses
from pystate.common.user_code.user_frames import add_user_frame
from pystate.core.metrics.last_metrics import write_last_metrics
from pystate.core.snapshot.starting_snapshot import Snapshot
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.completed_checkpoint import CompletedCheckpoint
from pystate.runtime.driver.failures.execution_failure_handler import OF_USER_CODE, ExecutionFailureHandler
from pystate.runtime.driver.failures.uncommitted_advice import advise_on_uncommitted
from pystate.runtime.driver.job_metrics import JobMetrics
from pystate.runtime.driver.older_checkpoints import OlderCheckpoints
from pystate.runtime.driver.restore_report import RestoreReport
from pystate.runtime.driver.scratch_folder import scratch_folder
from pystate.runtime.execution.execution_attempt import AttemptEnd, AttemptOutcome, ExecutionAttempt, unheard
from pystate.runtime.execution.job_context import JobContext
from pystate.runtime.execution.job_engine import JobEngine
from pystate.runtime.execution.restore import RestorePlan
from pystate.runtime.execution.slots.resource_manager import ResourceManager
from pystate.runtime.execution.status import failure_dict
from pystate.runtime.job_folder.failing_record import FailingRecord, RecordOutcome, keep_failing_record
from pystate.runtime.job_folder.failure_history import bounded_trace
from pystate.runtime.plan.end_of_input import commits
from pystate.runtime.plan.job_plan import JobPlan
from pystate.runtime.plan.task import JobEnvironment
from pystate.runtime.slot.process import remove_dead_folders

_BROKEN = re.compile(r"(ConnectionRefused|ConnectionReset|Connection|Py4JNetwork|Py4J)Error|.*Connection refused")
"""The errors of py4j if its JVM is gone."""
_END_KNOWN_S = 60.0
"""How long an attempt that only commits waits until it is known how the job ends: the stop or cancel request tells."""


class Scheduler:
    """Runs the attempts of one job.

    Args:
        job: The job.
        engine: Its engine.
        resources: Where its slots run.
        metrics: Receives their metrics.
        supervised: Whether a job manager starts another driver if this one gives up.
    """

    def __init__(
        self,
        job: JobContext,
        engine: JobEngine,
        resources: ResourceManager,
        metrics: JobMetrics,
        *,
        supervised: bool,
    ) -> None:
        self._job = job
        self._engine = engine
        self._resources = resources
        self._metrics = metrics
        self._supervised = supervised
        self._status = job.status
        self._say = job.say
        self._state_settings = StateSettings.of(job.configuration)
        self._failures = ExecutionFailureHandler(job.configuration, job.directory, self._saved_up_to, alone=not supervised)
        self._number = job.status.attempt
        self._attempt: ExecutionAttempt | None = None
        self._restore: RestoreReport | None = None
        self._started_after = -1  # how far the snapshot had been read that the job was started from
        self._end_state: JobStatus | None = None
        self._end_after: Future[tuple[CompletedCheckpoint, JobStatus]] = Future()
        self._commits = False
        self._older = OlderCheckpoints([], allowed=True)
        self._cancelled = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled."""
        return self._cancelled.is_set()

    @property
    def slot_pids(self) -> dict[int, int]:
        """The process of each slot of the attempt that runs, by index; none between two attempts."""
        attempt = self._attempt
        return {} if attempt is None else attempt.slot_pids

    def restore_progress(self) -> dict[str, Any] | None:
        """Return the progress of the current restore: `checkpoint_id`, `bytes`, `total`; None if there is none."""
        restore, attempt = self._restore, self._attempt
        return None if restore is None or attempt is None else restore.progress(attempt.restored_bytes)

    def begin(self, *, taken_over: bool) -> None:
        """Start counting failures; if another driver has run the job before, continue with its counts.

        Raises:
            PystateError: The file of the other driver is damaged.
        """
        self._failures.begin(taken_over=taken_over)

    def starts_after(self, snapshot: Snapshot) -> None:
        """Record the snapshot that the job was started from."""
        self._started_after = self._engine.how_far(snapshot)

    def run(self, plan: JobPlan, restore: RestorePlan) -> JobStatus:
        """Run attempts until the job finishes or is cancelled; return which.

        Raises:
            PystateError: It failed, or continues in another driver.
        """
        environment = _environment(self._job, plan)
        self._commits, self._older = commits(plan), OlderCheckpoints.of(plan, self._job.configuration)
        try:
            with scratch_folder(self._job.job_id) as scratch:
                while True:
                    end = self._run_attempt(plan, restore, environment, scratch)
                    self._keep_record(end)
                    # a storage that is away for a moment would else end the job for good
                    self._job.term.check_when_told(self._say)
                    # after the savepoint of a stop or a cancel the job has ended, whatever happens to the attempt
                    if end.outcome is not AttemptOutcome.FAILED or self.is_cancelled or self._end_state is not None:
                        return self._state_after(end)
                    error = end.error or JobExecutionError("The attempt failed.")
                    self.check_resources(error)
                    self.wait_for_restart(error, end.stack_trace)
                    if self.is_cancelled:
                        return JobStatus.CANCELED
        finally:
            remove_dead_folders(self._job.job_id, self._number + 1)

    def _keep_record(self, end: AttemptEnd) -> None:
        if end.record is None:
            return
        try:
            get = self._job.configuration.get
            path = keep_failing_record(self._job.directory.path, end.record, get(PystateOptions.KEEP_FAILING_RECORDS))
        except OSError as error:
            self._say(f"The record at which the job failed can't be kept: {error}.")
            return
        record = FailingRecord.from_bytes(end.record, str(path))
        if record.outcome is not RecordOutcome.KEPT:
            self._say(f"The record at which the job failed is not kept: {record.not_kept}")
        else:
            self._say(f"The record at which the job failed is kept: pystate debug {self._job.job_id} {path.stem}")

    def cancel(self) -> None:
        """Cancel the job; returns at once."""
        with self._lock:
            self._status.update(JobStatus.CANCELLING)
            self._cancelled.set()
            attempt = self._attempt
        if attempt is not None:
            attempt.end(AttemptEnd(AttemptOutcome.CANCELLED))

    def drain(self, savepoint: CheckpointRequest) -> Callable[[PystateError], None]:
        """Advance event time to its end in the current attempt.

        Args:
            savepoint: The savepoint to take after it.

        Returns:
            The function that fails the attempt: event time is at its end, so it can't continue without that savepoint.

        Raises:
            JobExecutionError: No attempt runs, the savepoint can't begin, or the attempt failed because of it.
        """
        with self._lock:
            attempt = self._attempt
        if attempt is None:
            message = "No execution attempt runs."
            raise JobExecutionError(message, hint="try again once the job is RUNNING")
        try:
            attempt.drain(savepoint)
        except Exception as error:
            message = f"The job could not be drained: {first_line(error)}"
            hint = (isinstance(error, PystateError) and error.hint) or "try again once the job is RUNNING"
            raise JobExecutionError(message, hint=hint) from error
        return lambda failure: attempt.end(AttemptEnd(AttemptOutcome.FAILED, failure))

    def end_after_savepoint(self, completed: CompletedCheckpoint, state: JobStatus) -> None:
        """End the job: its savepoint is complete, and nothing may follow it.

        If sinks may not have committed what the savepoint holds, the job restarts from it to commit, and then ends.

        Args:
            completed: The savepoint.
            state: FINISHED or CANCELED.
        """
        with self._lock:
            attempt, commits_again = self._attempt, not completed.heard and self._commits
            if not self._end_after.done():
                self._end_after.set_result((completed, state))
        if not commits_again:
            self._end_job(state)
            if attempt is not None:
                attempt.end(_end_in(state))
        elif attempt is not None and attempt.restored_checkpoint_id != completed.checkpoint_id:
            attempt.end(AttemptEnd(AttemptOutcome.FAILED, unheard(completed)))

    def _end_job(self, state: JobStatus) -> None:
        try:
            self._failures.job_ends(state)
        except OSError as failure:
            self._say(f"WARNING: {self._job.directory.recovery} can't be written: {failure}")
        self._end_state = state

    def _ends_deployed(self, snapshot: Snapshot | None) -> AttemptEnd | None:
        """Return how an attempt ends that has restored the savepoint with which the job ends: its sinks have committed."""
        if not self._job.coordinator.ends_at(snapshot):
            return None
        _, state = self._end_after.result(_END_KNOWN_S)
        self._end_job(state)
        return _end_in(state)

    def terminate(self, state: JobStatus, **changes: Any) -> None:
        """Publish the job's end; the metrics are written before the status."""
        tracker = self._job.coordinator.tracker
        write_last_metrics(self._job.directory.last_metrics, lambda: self._metrics.collect(tracker))
        self._status.update(state, **changes)

    def wait_for_restart(self, error: PystateError, stack_trace: str) -> None:
        """Wait until the next attempt may begin, or the job is cancelled.

        Raises:
            PystateError: The error, if there is no next attempt.
        """
        if isinstance(error, OF_USER_CODE):
            add_user_frame(error, stack_trace)
        self._say(f"Attempt {self._number} failed: {error}\n{bounded_trace(stack_trace)}")
        failed = self._older.go_back(error, self._job.coordinator)
        error = failed or error
        if failed is None:
            self._say(f"The job goes back to the checkpoint before.{self._older.warning}")
        delay_ms = 0 if failed is None else self._failures.delay_ms(error, stack_trace)
        if delay_ms is None:
            advise_on_uncommitted(
                error, self._end_after.result()[0] if self._end_after.done() else None, self._job.coordinator
            )
            suppressed = f"Recovery is suppressed: {self._failures.describe()}."
            self._say(suppressed)
            if self._failures.has_given_up:  # else users would look for the cause in the restart strategy
                error.message += f"\n{suppressed}"
            self.terminate(JobStatus.FAILED, failure=failure_dict(error, stack_trace))
            raise error
        self._number += 1
        self._say(f"Attempt {self._number} starts in {delay_ms} ms ({self._failures.describe()}).")
        self._status.update(JobStatus.RESTARTING, failure=failure_dict(error, stack_trace), attempt=self._number)
        self._cancelled.wait(delay_ms / 1000)

    def check_resources(self, error: PystateError) -> None:
        """End this driver if its Spark application is gone; a failure may be the first sign of that.

        A second application in the same process would not do: the DataFrames that the program has made belong to the first.

        Raises:
            SparkLostError: It is; where a job manager watches this process, it starts another one with a Spark of its own.
        """
        lost: PystateError = error
        if not isinstance(error, SparkLostError):
            how = self._resources.loss()
            if how is None:
                return
            lost = _lost(how, error)
        if self._supervised:
            self._say(f"Attempt {self._number} failed: {lost}\nThis driver ends, the next one starts another application.")
            self._status.report_failure(failure_dict(lost, ""))
        else:
            self.terminate(JobStatus.FAILED, failure=failure_dict(lost, ""))
        raise lost

    def _run_attempt(self, plan: JobPlan, restore: RestorePlan, environment: JobEnvironment, scratch: Path) -> AttemptEnd:
        try:
            attempt = self._create(plan, restore, environment, scratch / str(self._number))
        except Exception as error:  # Spark may be gone since the attempt before
            return AttemptEnd.failed(error)
        with self._lock:
            self._attempt = attempt
            if self.is_cancelled:
                return AttemptEnd(AttemptOutcome.CANCELLED)
        if self._number == 0:  # one after it is RESTARTING until it runs
            self._status.update(JobStatus.CREATED)
        self._failures.attempt_created()
        end = attempt.run(self._is_deploying, self._is_running)
        self._failures.attempt_over(has_begun=_has_begun(self._engine))
        self._engine.attempt_over()
        with self._lock:
            self._attempt = self._restore = None
        return end

    def _create(self, plan: JobPlan, restore: RestorePlan, environment: JobEnvironment, folder: Path) -> ExecutionAttempt:
        environment = dataclasses.replace(environment, attempt=self._number)
        self._job.term.check()  # the wait for a restart may have been long, and this attempt writes the job's status
        snapshot = self._starting_point()
        restored = restore.restored(snapshot)
        engine = self._engine.attempt(environment, snapshot, folder)
        if snapshot is not None:
            self._job.coordinator.report_restored(snapshot)
        start = restored.checkpoint_id
        self._restore = None if start is None else RestoreReport(start, restored.keyed_bytes(plan.tasks))
        return ExecutionAttempt(
            self._number,
            self._resources,
            plan,
            environment,
            restored,
            self._job,
            engine,
            folder,
            required=self._engine.required_cores(plan),
            startup_timeout_s=self._job.configuration.get(PystateOptions.SLOT_STARTUP_TIMEOUT) / 1000,
            metrics=self._metrics.slots,
            on_failing=self._is_failing,
            ends_deployed=partial(self._ends_deployed, snapshot),
        )

    def _starting_point(self) -> Snapshot | None:
        """Return the latest checkpoint, else the savepoint the job was started from, else None."""
        snapshot = self._job.coordinator.latest_snapshot()
        if self._number > 0:
            self._say(f"Attempt {self._number} starts {_describe_start(snapshot, self._state_settings)}.")
        return snapshot

    def _is_failing(self) -> None:
        """Set the status before the attempt has ended: requests that need a running job are refused from now on."""
        with self._lock:
            ends = self.is_cancelled or self._end_state is not None or not self._failures.restarts_at_all
            if not ends and self._status.state is JobStatus.RUNNING:
                with contextlib.suppress(PystateError):  # the status may be another driver's by now
                    self._job.term.check()
                    self._status.update(JobStatus.RESTARTING)

    def _is_deploying(self) -> None:
        if self._number == 0:  # a later one may fail of the same before it runs
            self._status.update(JobStatus.CREATED)

    def _is_running(self) -> None:
        self._failures.attempt_runs()
        self._status.update(JobStatus.RUNNING)
        restore, self._restore = self._restore, None
        if restore is not None:
            self._say(restore.sentence(self._number))

    def _saved_up_to(self) -> int | None:
        """Return how far the sources are covered by a checkpoint; a checkpoint may complete before the first row."""
        snapshot = self._job.coordinator.latest_snapshot()
        if snapshot is None or snapshot.starting or self._engine.how_far(snapshot) <= self._started_after:
            return None
        return self._engine.how_far(snapshot)

    def _state_after(self, end: AttemptEnd) -> JobStatus:
        if self._end_state is not None:
            return self._end_state
        return JobStatus.FINISHED if end.outcome is AttemptOutcome.FINISHED else JobStatus.CANCELED


def _environment(job: JobContext, plan: JobPlan) -> JobEnvironment:
    """Return the job environment of subtasks, without the attempt."""
    configuration = job.configuration
    return JobEnvironment(
        job_id=job.job_id,
        job_name=job.name,
        attempt=0,
        configuration=configuration.to_dict(),
        state_backend=StateSettings.of(configuration).backend,
        kept_output_bytes=configuration.get(PystateOptions.OUTPUT_MEMORY_SIZE),
        working_directory="",
        batch=plan.batch,
        program_classes=ProgramClasses.of_this_program(),
    )


def _lost(how: str, error: PystateError) -> SparkLostError:
    """Return the failure of a lost application.

    Args:
        how: How it was lost.
        error: The error that revealed it; it is omitted if the end of the JVM is known.
    """
    told = "." if how.endswith(")") and _BROKEN.match(error.message) else f": {error.message}"
    message = f"The job's Spark application {how}{told}"
    return SparkLostError(message, where=error.where, hint=java_hint(message) or error.hint)


def _has_begun(engine: JobEngine) -> bool:
    """Whether an attempt that ran has made progress: its query starts in the background, its first epoch ends later."""
    try:
        return engine.progress().get("epoch", 0) is not None
    except Exception:  # Spark may be gone
        return True


def _end_in(state: JobStatus) -> AttemptEnd:
    return AttemptEnd(AttemptOutcome.FINISHED if state is JobStatus.FINISHED else AttemptOutcome.CANCELLED)


def _describe_start(snapshot: Snapshot | None, settings: StateSettings) -> str:
    # checkpoints in memory may have completed in a driver that is gone
    none = "this driver has no checkpoint in memory" if settings.in_memory_only else "no checkpoint has completed"
    if snapshot is None:
        return f"from nothing: {none}, and the job was started without a savepoint"
    number = snapshot.metadata.checkpoint_id
    if snapshot.starting:
        return f"from the savepoint the job was started from: {none} ({snapshot.location.uri})"
    return f"from checkpoint {number} ({snapshot.location.uri})"
