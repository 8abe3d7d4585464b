"""The jobs of one program, in its own process.

One runs at a time, in the program's thread or in the background; in an application that the program has started itself, as
many as have room beside each other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pystate.common.completable_future import CompletableFuture, completed
from pystate.common.configuration.file_system_settings import FileSystemSettings
from pystate.common.errors import JobCancelledError, JobTerminatedError, PystateError
from pystate.common.job_client import JobClient
from pystate.common.job_execution_result import JobExecutionResult
from pystate.common.job_id import JobID
from pystate.common.job_status import JobStatus
from pystate.common.user_code.notebook import after_this_cell
from pystate.runtime.driver.job_master import JobMaster
from pystate.runtime.driver.job_view import JobFacts, JobView
from pystate.runtime.execution.status import JobStatusStore

if TYPE_CHECKING:
    from pystate.core.api.collected_results import ResultQueue


_INTERRUPTED_S = 0.5


@dataclass(frozen=True)
class Share:
    """What a job takes of an application in which several may run at the same time.

    Attributes:
        cores: The cores that it needs.
        of: All cores of the application.
        storage: The settings of file systems, of which a process has one set.
    """

    cores: int
    of: int
    storage: FileSystemSettings


class ProgramJob(JobClient):
    """One job, as seen by the program that defined it.

    Args:
        job_id: 32 hex digits.
        master: Runs it.
        status: Its status.
        results: The queue from which the program takes results; None if there is none.
        share: What it takes of its application; None if it runs there alone.

    Attributes:
        has_begun: Whether it has started to run.
    """

    def __init__(
        self,
        job_id: str,
        master: JobMaster,
        status: JobStatusStore,
        results: ResultQueue | None = None,
        share: Share | None = None,
    ) -> None:
        self._share = share
        self._job_id = JobID(job_id)
        self._master = master
        self._status = status
        self._results = results
        self.has_begun = False
        self._result: Future[JobExecutionResult] = Future()
        self._result.set_running_or_notify_cancel()
        self._beginning = threading.Lock()
        self._given_up: Future[None] = Future()  # done when it is cancelled before its turn

    def waits_for(self, before: Sequence[ProgramJob]) -> list[ProgramJob]:
        """Return those of the jobs before it that have to end first; none if there is room beside them."""
        running = [other for other in before if not other.has_ended]
        shares = [other._share for other in running]  # noqa: SLF001 - of the same class
        own = self._share
        if own is None or any(one is None or one.storage != own.storage for one in shares):
            return running
        taken = sum(one.cores for one in shares if one is not None)
        return [] if taken + own.cores <= own.of else running

    def await_turn(self, before: Sequence[ProgramJob]) -> bool:
        """Wait until there is room for the job; return False if it was cancelled meanwhile, which ends it."""
        while not self._given_up.done() and (running := self.waits_for(before)):
            either: list[Future[Any]] = [*(other._result for other in running), self._given_up]  # noqa: SLF001
            wait(either, return_when=FIRST_COMPLETED)
        with self._beginning:
            self.has_begun = not self._given_up.done()
        if self.has_begun:
            return True
        self._status.update(JobStatus.CANCELED)
        message = "The job was cancelled before its turn."
        error = JobCancelledError(message)
        self._result.set_exception(error)
        if self._results is not None:
            self._results.end(error)
        return False

    def run(self) -> JobExecutionResult:
        """Run the job to its end.

        Raises:
            PystateError: It failed, or was cancelled.
        """
        self.has_begun = True
        try:
            result = JobExecutionResult(self._job_id, self._master.run())
        except BaseException as error:
            self._result.set_exception(error)
            if self._results is not None:
                self._results.end(error)
            raise
        self._result.set_result(result)
        if self._results is not None:
            self._results.end()
        return result

    def wait(self) -> JobExecutionResult:
        """Wait for its end in another thread.

        Raises:
            PystateError: It failed, or was cancelled.
        """
        while not wait([self._result], _INTERRUPTED_S).done:
            pass  # a signal that another thread got, as a notebook's may, is handled between two waits
        return self._result.result()

    @property
    def is_collected(self) -> bool:
        """Whether the program takes its results."""
        return self._results is not None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended completely."""
        return self._result.done()

    def when_ended(self, told: Callable[[BaseException | None], object]) -> None:
        """Register a callback for its end, called with the error; with None if it FINISHED."""
        self._result.add_done_callback(lambda result: told(result.exception()))

    def take_no_more(self) -> None:
        """Cancel the job because the program doesn't take its results any more."""
        if self._results is not None and not self.has_ended:
            self._results.close()
            self.cancel()

    def end_with_cell(self, interrupted: bool) -> None:
        """Cancel the job if the notebook's cell that has started it was interrupted, and wait for its end."""
        if interrupted:
            self.take_no_more()
            _end_of(self)

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the job's status."""
        return completed(self._status.state)

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; does nothing if it has ended. One that waits for its turn ends at once."""
        with self._beginning:
            begun = self.has_begun
            if not begun and not self._given_up.done():
                self._given_up.set_result(None)
        if begun and not self.has_ended:
            self._master.cancel()
        return completed(None)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint.

        Raises:
            PystateError: It has ended, or there is no directory for savepoints.
        """
        return self._savepoint(savepoint_directory, stop=True, drain=advance_to_end_of_event_time)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint; see `stop_with_savepoint`."""
        return self._savepoint(savepoint_directory, stop=False, drain=False)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the job's result."""
        return CompletableFuture(self._result)

    def __repr__(self) -> str:
        """Return the id and the status."""
        return f"<job {self._job_id}: {self._status.state.value}>"

    def _repr_html_(self) -> str:
        self._view.sample()
        return self._view.html()

    def _ipython_display_(self) -> None:
        self._view.sample()
        self._view.display()

    @cached_property
    def _view(self) -> JobView:
        return JobView(self._job_id, self._facts, lambda seconds: bool(wait([self._result], seconds).done))

    def _facts(self) -> JobFacts:
        status, progress = self._status.snapshot(), self._master.engine.progress()
        failure = status.get("failure")
        return JobFacts(
            name=status["name"],
            state=self._status.state,
            attempt=status["attempt"],
            records_in=progress["records_in"],
            records_out=progress["records_out"],
            under_way=progress.get("epoch_running") is not None,
            watermark=self._master.event_time().get("watermark"),
            checkpoints=self._master.coordinator.statistics(),
            failure=failure["message"] if failure else None,
        )

    def _savepoint(self, directory: str | None, *, stop: bool, drain: bool) -> CompletableFuture[str]:
        if self.has_ended:
            message = f"The job {self._job_id} is {self._status.state.value}: it takes no savepoint any more."
            raise JobTerminatedError(message)
        taken = self._master.savepoint(directory, stop=stop, cancel=False, drain=drain)
        return CompletableFuture(taken, lambda checkpoint: checkpoint.path)


class ProgramJobs:
    """The background jobs of a program, in order."""

    def __init__(self) -> None:
        self._jobs: list[ProgramJob] = []
        self._lock = threading.Lock()
        self._outlive = False

    def run(self, job: ProgramJob) -> JobExecutionResult:
        """Run a job after the background jobs, and wait for its end; an interrupt of the program cancels it.

        The job runs on its own thread: an exception of a signal handler (Ctrl-C, the interrupt of a notebook) is raised
        between any two instructions of the program's thread, and in the job's code it would leave locks and state broken.

        Raises:
            PystateError: It failed, or was cancelled.
            BaseException: The program was interrupted; the job is CANCELED.
        """
        for other in job.waits_for(self._running()):
            sys.stderr.write(f"Job {other.get_job_id()} still runs; the next one begins after it.\n")
        with _interrupts_spare_spark():
            self.start(job, tell=False)
            try:
                return job.wait()
            except BaseException:
                if not job.has_ended:
                    sys.stderr.write(f"Job {job.get_job_id()} is cancelled; a second interrupt doesn't wait for it.\n")
                    job.cancel()
                    _end_of(job)
                raise

    def start(self, job: ProgramJob, *, tell: bool = True) -> None:
        """Run a job in the background, once there is room for it beside those before it.

        Args:
            job: The job.
            tell: Whether its failure is printed; otherwise it is raised to callers that wait for the job.
        """
        with self._lock:
            self._jobs = [other for other in self._jobs if not other.has_ended]
            before = list(self._jobs)
            self._jobs.append(job)

        if job.is_collected:
            after_this_cell(job.end_with_cell)
        take_properties = _taking_properties()

        def run() -> None:
            take_properties()
            if not job.await_turn(before):
                return
            try:
                job.run()
            except JobCancelledError:
                return
            except PystateError as error:  # raised when the result is requested, if ever
                if tell:
                    sys.stderr.write(f"Job {job.get_job_id()} failed: {error}\n")
            except BaseException:
                if tell:
                    traceback.print_exc()

        threading.Thread(target=run, name="program-job", daemon=True).start()

    def wait_for_turn(self) -> None:
        """Wait until no job runs in the background."""
        for job in self._running():
            sys.stderr.write(f"Job {job.get_job_id()} still runs; the next one begins after it.\n")
            _end_of(job)

    def wait_at_end(self) -> None:
        """Wait for all jobs at the end of the program; a job whose results it was to take is cancelled.

        Raises:
            PystateError: A job that still ran failed or was cancelled.
        """
        running = self._running()
        for job in running:
            job.take_no_more()
        for job in running:
            job.wait()

    def cancel_all(self) -> None:
        """Cancel the jobs that still run, and wait for their end."""
        running = self._running()
        for job in running:
            job.take_no_more()
            job.cancel()
        for job in running:
            _end_of(job)

    def outlive_program(self) -> None:
        """Make the program wait for its jobs at its end; if the program fails, they are cancelled."""
        if not self._outlive:
            self._outlive = True
            # atexit is too late: threads can't be started there, and what jobs need to end is theirs to start
            threading._register_atexit(self._at_exit)  # type: ignore[attr-defined]  # noqa: SLF001
            os.register_at_fork(after_in_child=self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """Forget the jobs in a forked child: no thread of it ends them, so it would wait at its end for ever."""
        self._jobs, self._lock = [], threading.Lock()

    def _at_exit(self) -> None:
        for job in self._running():
            if hasattr(sys, "last_type"):
                job.cancel()
            job.take_no_more()
        try:
            for job in self._running():
                _end_of(job)
        except BaseException:  # an interrupt, which Python would only print here, and end with the jobs in the midst
            for job in self._running():
                job.cancel()
                _end_of(job)

    def _running(self) -> list[ProgramJob]:
        with self._lock:
            return [job for job in self._jobs if not job.has_ended]


@contextlib.contextmanager
def _interrupts_spare_spark() -> Iterator[None]:
    """Let Ctrl-C only raise KeyboardInterrupt: PySpark's handler would first cancel all Spark jobs, including the slots."""
    handler = signal.getsignal(signal.SIGINT)
    is_of_spark = getattr(handler, "__module__", None) == "pyspark.core.context"
    if not is_of_spark or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _end_of(job: ProgramJob) -> None:
    try:
        job.wait()
    except Exception:  # the starter is notified
        return


def _taking_properties() -> Callable[[], None]:
    """Return what gives another thread the local properties of this one, such as its scheduler pool and job group.

    PySpark's own `InheritableThread` would not run a job whose JVM has gone meanwhile: here the job runs, and reports it.
    """
    spark = sys.modules.get("pyspark")
    context = None if spark is None else spark.SparkContext._active_spark_context  # noqa: SLF001 - pyspark's own question
    if context is None:
        return lambda: None
    properties: Any = None
    with contextlib.suppress(Exception):  # of py4j
        properties = context._jsc.sc().getLocalProperties().clone()  # noqa: SLF001 - as InheritableThread does

    def take() -> None:
        if properties is not None:
            with contextlib.suppress(Exception):
                context._jsc.sc().setLocalProperties(properties)  # noqa: SLF001

    return take
