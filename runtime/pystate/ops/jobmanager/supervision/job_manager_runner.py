"""The lifecycle of one job in the job manager, from its first driver through restarts to its end.

Each event of the job is a method here, and is recorded before it has an effect, so that a restarted job manager can continue
    from it: `watch` (a driver runs), `driver_died`, `restart`, `take_over` (its machine is gone),
`cancel`, `give_up` (no driver will run it any more).
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from pystate.common.errors import JobTerminatedError, PystateError
from pystate.common.files.home import JobDirectory
from pystate.common.job_status import JobStatus
from pystate.common.processes.machine_load import PatientDeadline
from pystate.common.processes.processes import signal_process, started_at, this_machine
from pystate.ops.jobmanager.drivers.driver_failure_handler import DriverFailureHandler, DueRestart
from pystate.ops.jobmanager.drivers.driver_gateway import DriverGateway
from pystate.ops.jobmanager.drivers.driver_heartbeat import DriverHeartbeat, Silence
from pystate.ops.jobmanager.drivers.driver_process import DriverProcess, DriverRefusedError
from pystate.ops.jobmanager.drivers.job_status_provider import JobStatusProvider
from pystate.ops.jobmanager.jobs.job_leftovers import remove_job_copies
from pystate.ops.jobmanager.jobs.kept_record import KeptRecord
from pystate.ops.jobmanager.leadership import LeadershipInDoubtError, LeadershipLostError
from pystate.ops.jobmanager.supervision.shared_services import JobManagerSharedServices
from pystate.runtime.job_folder.driver_term import begin_term
from pystate.runtime.job_folder.job_record import JobVerdict, RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile

logger = logging.getLogger(__name__)

_OF_ITS_OWN_CODE = frozenset((signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT))
"""Signals that a process gets for what it does itself: a person who kills a driver sends others."""

_CANCEL_RETRY_SECONDS = 0.1
_CANCEL_SECONDS = 60.0
"""How long a driver may take to hear of a cancel; longer on a busy machine."""


class JobManagerRunner:
    """Keeps a driver running for the job until it has ended.

    Args:
        record: The job's record.
        directory: Its folder.
        gateway: The gateway to its driver.
        status: Its status.
        services: The shared services of all runners.
    """

    def __init__(
        self,
        record: KeptRecord,
        directory: JobDirectory,
        gateway: DriverGateway,
        status: JobStatusProvider,
        services: JobManagerSharedServices,
    ) -> None:
        self._job_id = record.current.job_id
        self._record = record
        self._directory = directory
        self._gateway = gateway
        self._status = status
        self._services = services
        self._steps = services.steps
        self._failures = DriverFailureHandler(self._job_id, directory, services.clock)
        self._due: DueRestart | None = None
        self._fenced: str | None = None
        self._driver: tuple[int, str | None] | None = None  # the process that is watched, and when it began
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        if record.current.cancel_requested:
            self._cancelled.set()

    def run_step(self, what: str, act: Callable[[], object]) -> None:
        """Run a step for the job now, or, if it fails, on its own thread until it succeeds.

        Args:
            what: The step, for the log.
            act: The step, which may run twice.

        Raises:
            LeadershipLostError: Another job manager leads.
        """
        self._steps.run_or_retry(f"{what} of job {self._job_id}", act, f"step-{self._job_id}")

    # -- a driver runs

    def watch(self, process: DriverProcess) -> None:
        """Watch a living driver for its end, on a thread of its own."""
        with self._lock:
            self._record.change(phase=RecordPhase.STARTED, pid=process.pid, exit_code=None, machine=this_machine())
        self._driver = process.pid, started_at(process.pid)
        lost = partial(self._fence, *self._driver)
        heartbeat = DriverHeartbeat(self._directory, process.pid, self._services.heartbeat, self._note_silence, lost)
        self._on_a_thread("heartbeat", heartbeat.run)
        self._on_a_thread("watch", lambda: self._await_end(process, heartbeat))
        if self._record.current.cancel_requested:
            self._deliver_cancel()

    def _note_silence(self, silence: Silence | None) -> None:
        if (silence is None) != (self._status.silence is None):
            pid = self._record.current.pid
            said = "It answers again." if silence is None else silence.describe(pid)
            logger.warning("job %s: %s", self._job_id, said)
        self._status.silence = self._gateway.silence = silence

    def _fence(self, pid: int, started: str | None, silence: Silence) -> bool:
        """Kill a driver without heartbeats, so that it can complete no checkpoint and can be replaced.

        Returns:
            Whether it was killed: not while this job manager itself may have been replaced.
        """
        if not self._may_act():
            return False
        self._fenced = f"{silence.describe(pid)} It was killed after {silence.idle_ms / 1000:.0f} s."
        signal_process(pid, started, signal.SIGKILL)
        return True

    def _await_end(self, process: DriverProcess, heartbeat: DriverHeartbeat) -> None:
        exit_code = process.wait()
        self._driver = None
        heartbeat.end()
        self._status.silence = self._gateway.silence = None
        logger.info("the driver of job %s ended %s", self._job_id, describe_exit(exit_code))
        with self._lock:
            # in memory only: give_up() writes it together with its consequences
            self._record.note(exit_code=exit_code)
        message, self._fenced = self._fenced or f"The driver process ended {describe_exit(exit_code)}.", None
        self._do_what_follows(message, seen=exit_code is not None)

    def _do_what_follows(self, message: str, *, seen: bool = True) -> None:
        step = partial(self.driver_died, message, seen=seen)
        self._steps.do(f"what follows for job {self._job_id}", step, self._cancelled)

    # -- no driver runs: a restart, or the end

    def driver_died(self, message: str, *, seen: bool = True) -> None:
        """Handle the death of the driver: start another one unless the job has ended or its strategy forbids it.

        Args:
            message: How the driver ended.
            seen: Whether a job manager saw it: then a driver that had begun nothing isn't restarted.

        Raises:
            LeadershipLostError: Another job manager continues the job.
            OSError: It has to be retried; the failure is counted once.
        """
        with self._lock:
            delay_ms = self._prepare_restart(message, seen=seen)
        if delay_ms is None:
            self.give_up(message)
        else:
            self.restart(delay_ms)

    def _prepare_restart(self, message: str, *, seen: bool) -> int | None:
        """Record that a restart is due and return the delay in ms; None if the job has ended."""
        self._services.leadership.check()
        if self._record.current.cancel_requested or self._record.current.phase is RecordPhase.ENDED:
            return None
        if not seen and self._failures.began_nothing(self._status.of_driver()):
            # the submitter was told that the job exists
            logger.info("job %s: %s It had not begun; another one begins.", self._job_id, message)
            return 0
        if self._due is None:
            code = self._record.current.exit_code
            by_itself = code is not None and (code >= 0 or -code in _OF_ITS_OWN_CODE)
            follows = self._failures.after_death(self._status.of_driver(), message, by_itself=by_itself)
            if isinstance(follows, JobVerdict):
                self._record.change(verdict=follows)
            self._due = follows if isinstance(follows, DueRestart) else None
        due = self._due
        if due is None:
            return None
        due.terms.write(self._directory)
        self._write_restarting(due.status)
        self._record.change(phase=RecordPhase.RESTARTING)
        self._due = None
        attempt = due.status.attempt + 1
        logger.info("job %s: %s It is restarted in %d ms (attempt %d).", self._job_id, message, due.delay_ms, attempt)
        return due.delay_ms

    def _write_restarting(self, status: JobStatusFile) -> None:
        # no driver could write its status at this time; the next one continues from it
        status.restarting(self._services.clock()).write_to(self._directory.status)

    def restart(self, delay_ms: int = 0) -> None:
        """Start another driver after a delay, on a thread of its own."""

        def wait_and_start() -> None:
            self._cancelled.wait(delay_ms / 1000)
            self._steps.do(f"another driver for job {self._job_id}", self._start_driver, self._cancelled)

        self._on_a_thread("restart", wait_and_start)

    def _start_driver(self) -> None:
        if self._cancelled.is_set():
            self.give_up("The job was cancelled before its driver was started again.")
            return
        try:
            process = self._services.drivers.start_again(self._directory, self._record.current)
        except LeadershipLostError:
            raise
        except DriverRefusedError as error:
            self._do_what_follows(f"The job's driver can't be started again: {error.message}.")
        except PystateError as error:
            self.give_up(f"The job's driver can't be started again: {error.message} ({error.where})")
        else:
            if process is not None:
                self.watch(process)

    # -- its machine is gone

    def take_over(self, message: str, claim: Callable[[], object] = lambda: None) -> None:
        """Take over a job whose driver was on another machine: it can't be checked there, and is fenced.

        Args:
            message: Why it is taken over.
            claim: Invalidates further writes of that driver; called once its term is over.
        """
        with self._lock:
            self._services.leadership.check()
            begin_term(self._directory.term, self._services.leadership.token)
            claim()
            goes_on = self._prepare_takeover(message)
        if goes_on:
            self.restart()
        else:
            self.give_up(message)

    def _prepare_takeover(self, message: str) -> bool:
        """Record that another driver is due; return False if the job has ended. It doesn't count as a failure."""
        status = self._status.of_driver()
        if self._record.current.cancel_requested or (status is not None and status.state.is_terminal):
            return False
        verdict = self._failures.after_takeover()
        if verdict is not None:
            self._record.change(verdict=verdict)
            return False
        if status is not None:
            self._write_restarting(status)
        self._record.change(phase=RecordPhase.RESTARTING)
        logger.info("job %s: %s It goes on here.", self._job_id, message)
        return True

    # -- cancelled

    def cancel(self) -> None:
        """Request cancellation; returns at once. A driver that is still starting is told as soon as it listens.

        Raises:
            JobTerminatedError: It has FINISHED or FAILED.
            DriverProtocolError: Its driver can't be told, now and later; it goes on.
        """
        state = self._status.current().state
        if state is JobStatus.CANCELED:
            return
        if state.is_terminal:
            message = f"Job cancellation failed because the job has already reached another terminal state ({state.value})."
            raise JobTerminatedError(message)
        self._gateway.check_protocol()
        with self._lock:
            if self._record.current.cancel_requested:
                return
            self._record.change(cancel_requested=True)
        self._cancelled.set()
        self._deliver_cancel()

    def _deliver_cancel(self) -> None:
        self._on_a_thread("cancel", self._tell_of_cancel)

    def _tell_of_cancel(self) -> None:
        """Tell the driver, as soon as it listens; one that can't be told for long, whatever holds it, is killed."""
        driver, deadline = self._driver, PatientDeadline(_CANCEL_SECONDS)
        while not self._gateway.wait_until_closed(_CANCEL_RETRY_SECONDS):
            try:
                if not self._status.current().state.is_terminal:
                    self._gateway.call("cancel")
                return
            except (PystateError, OSError) as error:  # the driver still starts, or is about to end
                logger.debug("job %s can't be cancelled yet: %s", self._job_id, error)
            if driver is not None and driver == self._driver and deadline.has_passed() and self._may_act():
                logger.warning("job %s: driver %d can't be told of the cancel: it is killed", self._job_id, driver[0])
                signal_process(*driver, signal.SIGKILL)
                return

    def _may_act(self) -> bool:
        """Return whether this job manager leads for sure at this moment."""
        try:
            self._services.leadership.check()
        except LeadershipInDoubtError:
            return False
        return True

    # -- it has ended

    def give_up(self, message: str) -> None:
        """Mark the job FAILED because no driver runs it, unless a driver left its final status. Idempotent.

        Args:
            message: Why no driver runs it.

        Raises:
            LeadershipLostError: Another job manager decides how the job ends.
            OSError: Its end is recorded, or will be at the next try; its leftovers are not deleted yet.
        """
        with self._lock:
            if self._record.current.phase is not RecordPhase.ENDED:
                self._record.change(phase=RecordPhase.ENDED, **self._verdict(message))
        try:
            self.delete_secrets()
            for reserve in (self._directory.status_reserve, self._directory.checkpoint_ids_reserve):
                reserve.path.unlink(missing_ok=True)
        finally:
            self._gateway.close()
        remove_job_copies(self._job_id, self._directory)

    def _verdict(self, message: str) -> dict[str, Any]:
        """Return the change that sets the record's verdict; none if there is one."""
        record, status = self._record.current, self._status.of_driver()
        if record.verdict is not None:
            return {}
        if status is not None and status.state.is_terminal:  # kept here, too: its file may be lost or damaged later
            failure = status.failure if status.state is JobStatus.FAILED else None
            return {"verdict": JobVerdict(status.state, failure, status.end_time)}
        return {"verdict": self._failures.without_last_word(status, message, cancelled=record.cancel_requested)}

    def delete_secrets(self) -> None:
        """Delete secrets that only another driver would need."""
        self._directory.environment.unlink(missing_ok=True)
        self._directory.spark_secrets.unlink(missing_ok=True)

    def _on_a_thread(self, what: str, act: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                act()
            except LeadershipLostError as error:
                logger.warning("job %s is left alone: %s", self._job_id, error.message)

        threading.Thread(target=guarded, name=f"{what}-{self._job_id}", daemon=True).start()


def describe_exit(exit_code: int | None) -> str:
    """Return how a process ended, as the end of the sentence "The driver process ended ..."."""
    if exit_code is None:
        return "(its exit code is not known: an earlier job manager had started it)"
    if exit_code >= 0:
        return f"with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = str(-exit_code)
    return f"with signal {name}"
