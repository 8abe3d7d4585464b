"""One job as the job manager sees it: its record, its driver, and what both say about it."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pystate.common.errors import CheckpointFailedError, JobTerminatedError, PystateError
from pystate.common.home import JobDirectory, new_job_id, parse_job_id
from pystate.common.job_status import JobStatus
from pystate.common.processes import this_machine
from pystate.common.time import current_time_ms
from pystate.job_folder.content import DamagedFileError
from pystate.job_folder.driver_term import begin_term
from pystate.job_folder.failure_history import JobFailure
from pystate.job_folder.job_record import JobRecord, JobVerdict, RecordPhase
from pystate.job_folder.job_status_file import JobStatusFile
from pystate.job_folder.operation import OperationFile, OperationKind
from pystate.job_folder.recovery_terms import RecoveryTerms
from pystate.jobmanager.driver_process import DriverProcess, DriverRefusedError, DriverUnreachableError, call_driver
from pystate.jobmanager.job_checkpoints import JobCheckpoints
from pystate.jobmanager.kept_record import KeptRecord
from pystate.jobmanager.leadership import Leadership, LeadershipLostError, OnlyJobManager
from pystate.jobmanager.metric_fetcher import MetricFetcher
from pystate.jobmanager.retried_steps import RetriedSteps
from pystate.jobmanager.triggers import Trigger, Triggers
from pystate.logs.pieces import is_written
from pystate.logs.reader import read_log
from pystate.metrics.kept import read_kept_metrics

logger = logging.getLogger(__name__)

CALL_TIMEOUT_SECONDS = 30.0
_CALLS_AT_ONCE = 16
"""How many calls one driver may hold up, so that a hanging one leaves threads for the others."""
_CANCEL_RETRY_SECONDS = 0.1
_DEATH_NOTICE_SECONDS = 1.0
_LAST_WORDS_SECONDS = 5.0
"""How long after a driver's end its output is waited for; something it has started may hold it open for ever."""
_BEFORE_CANCELLING = (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING)


class OperationNotFoundError(PystateError):
    """No operation has this trigger id."""


class RequestRefusedError(PystateError):
    """The driver refuses a request at once, such as a savepoint without a directory."""


@dataclass(frozen=True)
class _DueRestart:
    """What is written down before another driver is started, the same however often it has to be tried.

    Attributes:
        delay_ms: How long it is to be waited.
        terms: The rules for restarts, behind the failure.
        status: The status that the dead driver left, with its failure.
    """

    delay_ms: int
    terms: RecoveryTerms
    status: JobStatusFile


class SupervisedJob:
    """One job. Status and results are read from the files that the driver writes, so a hanging driver can't hold them back.

    Args:
        record: What is known of it; must be on disk already.
        directory: Its files.
        start_again: Starts another driver for the job; returns None where that is the next job manager's to do.
        clock: Milliseconds since 1970.
        leadership: Whether we may act for the job; nothing is written and no driver started where we may not.
        ended: Called once the driver of the job that has ended is gone.
        steps: Does again what the operating system refuses for a while.
    """

    def __init__(
        self,
        record: JobRecord,
        directory: JobDirectory,
        start_again: Callable[[SupervisedJob], DriverProcess | None],
        clock: Callable[[], int] = current_time_ms,
        leadership: Leadership | None = None,
        ended: Callable[[SupervisedJob], object] = lambda _job: None,
        steps: RetriedSteps | None = None,
    ) -> None:
        self.job_id = record.job_id
        self.directory = directory
        self._start_again = start_again
        self._clock = clock
        self._leadership = leadership or OnlyJobManager()
        self._steps = steps or RetriedSteps()
        self._kept = KeptRecord(record, directory, self._leadership, self._steps)
        self._due: _DueRestart | None = None
        self._ended = ended
        self._lock = threading.Lock()
        self._gone = threading.Event()
        self._gone_at = -math.inf
        self._cancelled = threading.Event()
        if record.cancel_requested:
            self._cancelled.set()
        self._calls = threading.BoundedSemaphore(_CALLS_AT_ONCE)
        self._triggers = Triggers()
        self._progress_unknown: str | None = None
        self.checkpoints = JobCheckpoints(self.job_id, directory, self._call, self._has_no_driver, clock)
        self.metrics = MetricFetcher(
            self._call,
            self.status,
            self.checkpoints.samples,
            self._has_no_driver,
            clock,
            kept=lambda: read_kept_metrics(directory.last_metrics),
        )
        if record.phase is RecordPhase.ENDED:
            self._gone.set()

    @property
    def record(self) -> JobRecord:
        """The record: what was decided, and is on disk unless that is full."""
        return self._kept.current

    @property
    def driver_is_gone(self) -> bool:
        """Whether no driver will write anything for this job any more."""
        return self._gone.is_set()

    @property
    def end_time(self) -> int | None:
        """When the job ended, ms since 1970; None for one of which nobody has said so far that it has ended, and how."""
        if not self.driver_is_gone or self.record.phase is not RecordPhase.ENDED:
            return None
        status = self._status()
        return status.end_time if status.state.is_terminal else None

    @property
    def has_no_driver(self) -> bool:
        """Whether no driver runs the job at this moment, as between two of them."""
        return self._has_no_driver()

    # -- the driver's life

    def watch(self, process: DriverProcess) -> None:
        """Take note of a living driver and of its end, on a thread of its own."""
        self._change(phase=RecordPhase.STARTED, pid=process.pid, exit_code=None, machine=this_machine())
        self._on_a_thread("watch", lambda: self._await_end(process))
        if self.record.cancel_requested:
            self._deliver_cancel()

    def give_up(self, message: str) -> None:
        """Mark the job FAILED because no driver runs it, unless a driver left its last word. It may be done twice.

        Raises:
            LeadershipLostError: It is for others to say how the job ends.
            OSError: It is known how the job ended, or will be at the next try; what it leaves behind is not deleted yet.
        """
        with self._lock:
            if self.record.phase is not RecordPhase.ENDED:
                status = self._driver_status()
                if self.record.verdict is None and (status is None or not status.state.is_terminal):
                    self._set(phase=RecordPhase.ENDED, verdict=self._verdict(message))
                else:
                    self._set(phase=RecordPhase.ENDED)
        try:
            self.delete_secrets()
            for reserve in (self.directory.status_reserve, self.directory.checkpoint_ids_reserve):
                reserve.path.unlink(missing_ok=True)
        finally:
            self._set_gone()
        self._ended(self)

    def delete_secrets(self) -> None:
        """Delete what only another driver would need."""
        self.directory.environment.unlink(missing_ok=True)
        self.directory.spark_secrets.unlink(missing_ok=True)

    def see_to(self, what: str, act: Callable[[SupervisedJob], object]) -> None:
        """Do a step for the job now, or on a thread of its own as soon as the operating system lets it.

        Args:
            what: The step, for people.
            act: The step, which may be done twice.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self._steps.do_now_or_later(f"{what} of job {self.job_id}", lambda: act(self), f"step-{self.job_id}")

    def driver_died(self, message: str) -> None:
        """Take note that no driver runs the job; start another one where the job has not ended and its strategy allows it.

        Args:
            message: How the driver ended.

        Raises:
            LeadershipLostError: It is for others to go on with the job.
            OSError: It is to be done again; the failure counts once.
        """
        with self._lock:
            delay_ms = self._prepare_restart(message)
        if delay_ms is None:
            self.give_up(message)
        else:
            self.restart(delay_ms)

    def restart(self, delay_ms: int = 0) -> None:
        """Start another driver after a while, on a thread of its own."""
        self._on_a_thread("restart", lambda: self._restart(delay_ms))

    def take_over(self, message: str, claim: Callable[[], object] = lambda: None) -> None:
        """Go on with a job whose driver was on another machine; it can't be asked there whether it lives, and is fenced.

        Args:
            message: Why it is taken over.
            claim: Sees to it that what that driver still writes counts for nothing; called once its time is over.
        """
        with self._lock:
            self._leadership.check()
            begin_term(self.directory.term, self._leadership.token)
            claim()
            due = self._prepare_takeover(message)
        if due:
            self.restart()
        else:
            self.give_up(message)

    def _prepare_takeover(self, message: str) -> bool:
        """Write down that another driver is due; return False where the job has ended. No failure of the job is counted."""
        status = self._driver_status()
        if self.record.cancel_requested or (status is not None and status.state.is_terminal):
            return False
        terms = RecoveryTerms.read(self.directory)
        if terms is not None and terms.end_state is not None:
            self._set(verdict=JobVerdict(terms.end_state, None, self._clock()))
            return False
        if status is not None:
            self._write_restarting(status)
        self._set(phase=RecordPhase.RESTARTING)
        logger.info("job %s: %s It goes on here.", self.job_id, message)
        return True

    def _write_restarting(self, status: JobStatusFile) -> None:
        # there is no driver that could write its status at this time; the next one goes on from what stands there
        status.restarting(self._clock()).write_to(self.directory.status)

    def _prepare_restart(self, message: str) -> int | None:
        """Write down that a restart is due and return the delay in ms; None where the job has ended."""
        self._leadership.check()
        if self.record.cancel_requested or self.record.phase is RecordPhase.ENDED:
            return None
        due = self._due = self._due or self._planned_restart(message)
        if due is None:
            return None
        due.terms.write(self.directory)
        self._write_restarting(due.status)
        self._set(phase=RecordPhase.RESTARTING)
        self._due = None
        attempt = due.status.attempt + 1
        logger.info("job %s: %s It is restarted in %d ms (attempt %d).", self.job_id, message, due.delay_ms, attempt)
        return due.delay_ms

    def _planned_restart(self, message: str) -> _DueRestart | None:
        status = self._driver_status()
        if status is None or status.state.is_terminal:
            return None
        try:
            terms = RecoveryTerms.read(self.directory)
        except PystateError as error:
            logger.error("job %s can't be restarted: %s", self.job_id, error)
            return None
        if terms is None:  # the driver died before it had come to the job
            return None
        now = self._clock()
        if terms.end_state is not None:
            # it was stopped or cancelled with a savepoint, which is complete
            self._set(verdict=JobVerdict(terms.end_state, None, now))
            return None
        decision = terms.strategy.after_failure(now)
        if decision.delay_ms is None:
            return None
        if not status.has_failed:
            failure = self._failure(message)
            status = replace(status.with_failure(failure, now), failure=failure)
        return _DueRestart(decision.delay_ms, RecoveryTerms(decision.strategy), status)

    def _restart(self, delay_ms: int) -> None:
        self._cancelled.wait(delay_ms / 1000)
        self._steps.do(f"another driver for job {self.job_id}", self._start_driver, self._cancelled)

    def _start_driver(self) -> None:
        if self._cancelled.is_set():
            self.give_up("The job was cancelled before its driver was started again.")
            return
        try:
            process = self._start_again(self)
        except LeadershipLostError:
            raise
        except DriverRefusedError as error:
            message = f"The job's driver can't be started again: {error.message}."
            self._steps.do(f"what follows for job {self.job_id}", lambda: self.driver_died(message), self._cancelled)
        except PystateError as error:
            self.give_up(f"The job's driver can't be started again: {error.message} ({error.where})")
        else:
            if process is not None:
                self.watch(process)

    def _await_end(self, process: DriverProcess) -> None:
        exit_code = process.wait()
        logger.info("the driver of job %s ended %s", self.job_id, describe_exit(exit_code))
        with self._lock:
            # in memory only: give_up() writes it together with what it means
            self._kept.note(exit_code=exit_code)
        message = f"The driver process ended {describe_exit(exit_code)}."
        self._steps.do(f"what follows for job {self.job_id}", lambda: self.driver_died(message), self._cancelled)

    def _verdict(self, message: str) -> JobVerdict:
        if self.record.cancel_requested:
            return JobVerdict(JobStatus.CANCELED, None, self._clock())
        status = self._driver_status()
        failure = status.failure if status is not None and status.has_failed else self._failure(message)
        return JobVerdict(JobStatus.FAILED, failure, self._clock())

    def _failure(self, message: str) -> JobFailure:
        error = PystateError(message, where=f"job {self.job_id}", hint=f"see {self.directory.log}")
        return JobFailure.of(error, message)

    # -- what is known

    def status(self) -> dict[str, Any]:
        """Return the status in the form of `status.json`."""
        return self._status().to_plain()

    def _status(self) -> JobStatusFile:
        record = self.record
        status = self._driver_status() or JobStatusFile.begun(record.name, record.submitted_at)
        if status.state.is_terminal:
            return status
        verdict = record.verdict
        if verdict is not None:
            if verdict.failure is not None and not status.has_failed:
                status = status.with_failure(verdict.failure, verdict.end_time)
            return replace(status.moved_to(verdict.state, verdict.end_time), failure=verdict.failure)
        if record.cancel_requested and status.state in _BEFORE_CANCELLING:
            return replace(status, state=JobStatus.CANCELLING)
        return status

    def progress(self, timeout: float = CALL_TIMEOUT_SECONDS) -> dict[str, Any]:
        """Return the status with what only a living driver knows: `epoch`, `records_in`, `records_out`.

        Args:
            timeout: Seconds the driver may take; what it doesn't tell in time is left out.
        """
        status = self.status()
        if not self.driver_is_gone and not JobStatus(status["state"]).is_terminal:
            try:
                # the state stays ours, which knows of a cancel that the driver has not heard of yet
                progress = {**self._call("status", timeout=timeout), "state": status["state"]}
                self._progress_unknown = None
                return progress
            except PystateError as error:
                # who waits for the job asks many times a second
                if error.message != self._progress_unknown:
                    self._progress_unknown = error.message
                    logger.info("the progress of job %s is not known: %s", self.job_id, error.message)
        return status

    def state(self) -> JobStatus:
        """Return where the job stands."""
        return self._status().state

    # -- what can be asked of it

    def cancel(self) -> None:
        """Ask the job to end as CANCELED; returns at once. A driver that still starts is told as soon as it listens.

        Raises:
            JobTerminatedError: It has FINISHED or FAILED.
        """
        state = self.state()
        if state is JobStatus.CANCELED:
            return
        if state.is_terminal:
            message = f"Job cancellation failed because the job has already reached another terminal state ({state.value})."
            raise JobTerminatedError(message)
        with self._lock:
            if self.record.cancel_requested:
                return
            self._set(cancel_requested=True)
        self._cancelled.set()
        self._deliver_cancel()

    def trigger(self, op: str, trigger_id: str | None, **arguments: Any) -> str:
        """Start a savepoint, checkpoint or stop; return the id to ask for its result.

        Raises:
            JobTerminatedError: The job has ended.
            RequestRefusedError: The driver refuses it.
        """
        chosen = new_job_id() if trigger_id is None else parse_job_id(trigger_id)
        if trigger_id is not None and self._knows_operation(chosen):
            return chosen  # the same request once more
        state = self.state()
        if state.is_terminal:
            message = f"Job {self.job_id} has already ended ({state.value})."
            raise JobTerminatedError(message, hint="pystate list -a")
        triggered = Trigger(OperationKind(op.removeprefix("trigger_")), self.record.pid)
        try:
            self._call(op, trigger_id=chosen, **arguments)
        except DriverUnreachableError:
            raise
        except PystateError as error:
            raise RequestRefusedError(error.message, where=error.where, hint=error.hint) from error
        self._triggers.add(chosen, triggered)
        return chosen

    def operation(self, trigger_id: str) -> dict[str, Any]:
        """Return `{"status": "IN_PROGRESS", ...}`, or what the operation's file holds.

        Raises:
            OperationNotFoundError: There is none of this id.
        """
        path = self.directory.operation(trigger_id)
        # asked before the file, which the driver may write as its last act
        gone, triggered, record = self.driver_is_gone, self._triggers.get(trigger_id), self.record
        if triggered is not None and (record.pid != triggered.driver or record.phase is RecordPhase.RESTARTING):
            gone = True
        done = OperationFile.read_from(path)
        if done is not None:
            return done.to_plain()
        message = f"There is no operation with trigger id {trigger_id} of job {self.job_id}."
        if gone:
            if triggered is None:
                raise OperationNotFoundError(message)
            how = f"The job ended ({self.state().value})" if self.driver_is_gone else "The job's driver died"
            lost = f"{how} before its {triggered.kind.value} was complete."
            error = CheckpointFailedError(lost, where=f"job {self.job_id}", hint=f"see {self.directory.log}")
            return OperationFile.failed(triggered.kind, error).to_plain()
        try:
            return dict(self._call("operation", trigger_id=trigger_id))
        except DriverUnreachableError:
            if self._has_lost_driver(record.pid):
                return self.operation(trigger_id)
            raise
        except PystateError as refusal:
            raise OperationNotFoundError(message) from refusal

    def read_output(self, name: str, offset: int, limit: int) -> tuple[bytes, bool]:
        """Return the next bytes of `stdout` or `log`, and whether nothing will follow them.

        Raises:
            LogGoneError: What stood there was deleted when the log grew too large.
        """
        log = self.directory.stdout if name == "stdout" else self.directory.log
        # asked before the file is read: what the dead driver has printed may still be on its way there
        ended = self.driver_is_gone and (time.monotonic() - self._gone_at > _LAST_WORDS_SECONDS or not is_written(log))
        return read_log(log, offset, limit, ended=ended)

    # -- inner workings

    def _set_gone(self) -> None:
        self._gone_at = time.monotonic()
        self._gone.set()

    def _has_no_driver(self) -> bool:
        return self._gone.is_set() or self.record.phase is RecordPhase.RESTARTING

    def _has_lost_driver(self, pid: int | None) -> bool:
        """Wait for a moment whether the driver that did not answer turns out to be dead."""
        deadline = time.monotonic() + _DEATH_NOTICE_SECONDS
        while time.monotonic() < deadline:
            if self._gone.wait(_DEATH_NOTICE_SECONDS / 20):
                return True
            if self.record.pid != pid or self.record.phase is RecordPhase.RESTARTING:
                return True
        return False

    def _call(self, op: str, *, timeout: float = CALL_TIMEOUT_SECONDS, **arguments: Any) -> Any:
        if not self._calls.acquire(blocking=False):
            message = f"The job's driver has not answered {_CALLS_AT_ONCE} earlier requests yet."
            raise DriverUnreachableError(message, where=f"job {self.job_id}", hint=f"see {self.directory.log}")
        try:
            return call_driver(self.directory, op, timeout=timeout, **arguments)
        finally:
            self._calls.release()

    def _knows_operation(self, trigger_id: str) -> bool:
        if self.directory.operation(trigger_id).exists():
            return True
        try:
            self._call("operation", trigger_id=trigger_id)
        except PystateError:
            return False
        return True

    def _deliver_cancel(self) -> None:
        def deliver() -> None:
            while not self._gone.wait(_CANCEL_RETRY_SECONDS):
                try:
                    if not self.state().is_terminal:
                        self._call("cancel")
                    return
                except (PystateError, OSError) as error:  # the driver still starts, or is about to end
                    logger.debug("job %s can't be cancelled yet: %s", self.job_id, error)

        self._on_a_thread("cancel", deliver)

    def _on_a_thread(self, what: str, act: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                act()
            except LeadershipLostError as error:
                logger.warning("job %s is left alone: %s", self.job_id, error.message)

        threading.Thread(target=guarded, name=f"{what}-{self.job_id}", daemon=True).start()

    def _driver_status(self) -> JobStatusFile | None:
        try:
            return JobStatusFile.read_from(self.directory.status)
        except DamagedFileError as error:
            logger.error("%s (%s)", error.message, error.where)
            return None

    def _change(self, **changes: Any) -> None:
        with self._lock:
            self._set(**changes)

    def _set(self, **changes: Any) -> None:
        self._kept.change(**changes)


def describe_exit(exit_code: int | None) -> str:
    """Say how a process ended, as the end of the sentence "The driver process ended ..."."""
    if exit_code is None:
        return "(its exit code is not known: an earlier job manager had started it)"
    if exit_code >= 0:
        return f"with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = str(-exit_code)
    return f"with signal {name}"
