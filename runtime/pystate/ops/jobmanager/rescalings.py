"""Rescales that the job manager does itself, for clients that can't wait for the steps, as pages can't.

Each is written down in the job's folder before its first step, and before each job that it starts: after the death of this
job manager the next one goes on with it (`Rescalings.go_on`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pystate.common.bounded_dict import BoundedDict
from pystate.common.errors import JobExecutionError, PystateError
from pystate.common.files.home import new_job_id, parse_job_id
from pystate.common.files.refused_files import is_of_files, refused
from pystate.common.time import current_time_ms
from pystate.ops.jobmanager import resubmission
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.drivers.driver_gateway import DriverUnreachableError
from pystate.ops.jobmanager.leadership import LeadershipLostError
from pystate.ops.jobmanager.supervision.cached_operations import OperationNotFoundError
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.ops.rescaling.job_calls import Calls
from pystate.ops.rescaling.rescaling import Rescaling
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.rescaling_file import RescalingFile, SuccessorStart
from pystate.runtime.rest.failure_messages import FailureCause
from pystate.runtime.rest.job_detail_messages import JobExecutionResultResponseBody
from pystate.runtime.rest.message import RestMessage
from pystate.runtime.rest.operation_messages import SavepointResult

logger = logging.getLogger(__name__)

Message = TypeVar("Message", bound=RestMessage)
T = TypeVar("T")

TIMEOUT_SECONDS = 600.0
"""The timeout for the start of a successor, as for `pystate rescale`."""
_REMEMBERED = 200
_MOST_AT_ONCE = 16
_POLL_SECONDS = 0.2


class RescalingNotFoundError(PystateError):
    """No rescale has this trigger id."""


class RescalingRefusedError(PystateError):
    """A rescale can't begin now."""


class RescalingUnreadableError(PystateError):
    """What an earlier job manager has written down of a rescale can't be read."""


@dataclass
class Told:
    """What is known of a rescale. Lines are only added; a reader sees some of them.

    Attributes:
        job_id: The job.
        intent: What is written down of it, as of its last step.
        lines: What it has done.
        runs: The job that runs now, once that is known.
        failure: Why it failed.
        is_done: Whether it has ended.
        is_unreadable: Whether what is written down of it can't be read, so that nobody knows what is left to do.
    """

    job_id: str
    intent: RescalingFile
    lines: list[str] = field(default_factory=list)
    runs: str | None = None
    failure: JobFailure | None = None
    is_done: bool = False
    is_unreadable: bool = False

    def info(self, line: str) -> None:
        """Add a line."""
        self.lines.append(line.strip())

    def error(self, error: PystateError) -> None:
        """Add what has gone wrong."""
        self.lines.append(str(error))

    def result(self, line: str) -> None:
        """Note the job that runs."""
        self.runs = line

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Add what is waited for."""
        self.lines.append(f"{text} …")
        yield


class _ActingCalls:
    """Calls of a job manager to itself, for as long as it may act.

    Args:
        calls: The calls.
        dispatcher: Knows whether it may.
    """

    def __init__(self, calls: Calls, dispatcher: Dispatcher) -> None:
        self._calls = calls
        self._dispatcher = dispatcher

    def get(self, path: str, kind: type[Message]) -> Message:
        """Return the resource at a path."""
        return self._acting(lambda: self._calls.get(path, kind))

    def post(self, path: str, body: RestMessage, kind: type[Message]) -> Message:
        """Send a POST and return the answer."""
        return self._acting(lambda: self._calls.post(path, body, kind))

    def patch(self, path: str) -> None:
        """Send a PATCH without a body."""
        self._acting(lambda: self._calls.patch(path))

    def delete(self, path: str) -> None:
        """Send a DELETE."""
        self._acting(lambda: self._calls.delete(path))

    def _acting(self, call: Callable[[], T]) -> T:
        self._dispatcher.check_acts()
        try:
            return call()
        except OSError as error:
            if is_of_files(error):
                raise refused(error) from error
            raise


class _OwnRescaling(Rescaling):
    gone = (LeadershipLostError,)

    def __init__(self, told: Told, job: SupervisedJob, calls: Calls, dispatcher: Dispatcher) -> None:
        intent = told.intent
        acting = _ActingCalls(calls, dispatcher)
        super().__init__(
            told,
            acting,
            told.job_id,
            intent.parallelism,
            TIMEOUT_SECONDS,
            snapshot=intent.snapshot,
            without_state=intent.without_state,
        )
        self.operation_id = intent.rescaling_id
        self._told = told
        self._job = job
        self._calls = acting
        self._dispatcher = dispatcher
        self._keeps = True

    def write(self, **changes: Any) -> None:
        """Write the intent down with changes.

        Raises:
            LeadershipLostError: This job manager may not act any more.
            OSError: It can't be written.
        """
        self._dispatcher.check_acts()
        self._told.intent = replace(self._told.intent, lines=list(self._told.lines), **changes)
        self._told.intent.write_to(self._job.directory.rescaling)

    def end(self) -> None:
        """Write down that nothing is left to do, and delete what was kept for it."""
        told = self._told
        outcome = {"runs": told.runs, "failure": told.failure, "keeps": self._keeps, "ended_at": current_time_ms()}
        self._surely("the end", lambda: self.write(**outcome))
        if not self._keeps:
            super()._forget()

    def _forget(self) -> None:
        self._keeps = False  # once its end is written down: what is begun is gone on with until then

    def _surely(self, what: str, write: Callable[[], None]) -> None:
        self._dispatcher.steps.do(f"writing down {what} of the rescale of job {self._told.job_id}", write)

    def begin_start(self, *, goes_back: bool) -> str:
        job_id = new_job_id()
        starts = [*self._told.intent.starts, SuccessorStart(job_id, goes_back)]
        self._surely("the next job", lambda: self.write(starts=starts))
        return job_id

    def give_up(self, job_id: str, reason: PystateError) -> None:
        starts = [replace(one, given_up=reason.message) if one.job_id == job_id else one for one in self._told.intent.starts]
        self._surely("the end of a job", lambda: self.write(starts=starts))

    def stop_is_known(self) -> bool:
        operation = f"/jobs/{self._told.job_id}/savepoints/{self.operation_id}"
        try:
            self._answered(lambda: self._calls.get(operation, SavepointResult))
        except OperationNotFoundError:
            return False
        return True

    def savepoint_of(self, operation: str) -> str:
        while not (found := self._answered(lambda: self._calls.get(operation, SavepointResult))).status.is_completed:
            time.sleep(_POLL_SECONDS)
        if found.failure_cause is not None:
            raise self.failure_of(found.failure_cause)
        return found.outcome

    def _answered(self, ask: Callable[[], T]) -> T:
        """Ask a driver until it answers: one that never will is replaced, and then it is known."""
        while True:
            try:
                return ask()
            except DriverUnreachableError:
                time.sleep(_POLL_SECONDS)

    def failure(self, job_id: str) -> PystateError:
        result = self._calls.get(f"/jobs/{job_id}/execution-result", JobExecutionResultResponseBody).job_execution_result
        cause = None if result is None else result.failure_cause
        if cause is None:
            message = f"Job {job_id} has failed."
            return JobExecutionError(message, hint=f"pystate exceptions {job_id}")
        return self.failure_of(cause)

    def failure_of(self, cause: FailureCause) -> PystateError:
        return cause.pystate.error()


def _unreadable(job: SupervisedJob, error: PystateError | OSError) -> Told:
    """Return what is told of a rescale of which nothing can be read."""
    cause = refused(error) if isinstance(error, OSError) else error
    parallelism, now = max(1, job.status()["parallelism"]), current_time_ms()
    message = f"A rescale of job {job.job_id}, or its return to an earlier state, can't be gone on with. {cause.message}"
    hint = f"if no job runs in its place, pystate rescale {job.job_id} -p {parallelism} does what is left to do"
    failure = JobFailure.of(RescalingUnreadableError(message, where=cause.where, hint=hint), "")
    intent = RescalingFile(
        new_job_id(), parallelism, None, without_state=False, began_at=now, ended_at=now, failure=failure, keeps=True
    )
    return Told(job.job_id, intent, failure=failure, is_done=True, is_unreadable=True)


class Rescalings:
    """Rescales jobs on threads of their own, and keeps the results.

    Args:
        dispatcher: The jobs.
        calls: Returns what asks this job manager.
    """

    def __init__(self, dispatcher: Dispatcher, calls: Callable[[], Calls]) -> None:
        self._dispatcher = dispatcher
        self._calls = calls
        self._lock = threading.Lock()
        self._known: BoundedDict[str, Told] = BoundedDict(_REMEMBERED)
        self._latest: BoundedDict[str, Told] = BoundedDict(_REMEMBERED)
        self._at_work: dict[str, Told] = {}

    def trigger(
        self, job: SupervisedJob, parallelism: int, snapshot: str | None = None, *, without_state: bool = False
    ) -> str:
        """Begin to rescale a job, or to put it back to an earlier state; return the id for the result.

        Args:
            job: The job.
            parallelism: Its new parallelism.
            snapshot: What it is put back to; None for a rescale.
            without_state: Whether state of the snapshot that no operator takes is left out.

        Raises:
            NotKeptError: The job is run by its own program.
            RescalingRefusedError: It is being rescaled already, or too many others are.
            FileRefusedError: It can't be written down.
            LeadershipLostError: This job manager may not act.
        """
        if job.program is not None:
            raise resubmission.not_kept(job)
        intent = RescalingFile(new_job_id(), parallelism, snapshot, without_state, current_time_ms())
        told = Told(job.job_id, intent)
        self._begin(job, told, parallelism)
        steps = _OwnRescaling(told, job, self._calls(), self._dispatcher)
        try:
            steps.write()
        except BaseException as error:
            self._leave(job, told)
            with self._lock:
                self._known.pop(intent.rescaling_id)
            if isinstance(error, OSError):
                raise refused(error, "The rescale can't be written down") from error
            raise
        self._on_a_thread(job, told, steps, lambda: steps.run(None))
        return intent.rescaling_id

    def go_on(self, job: SupervisedJob) -> None:
        """Go on with a rescale that an earlier job manager has begun; know its result where it has ended.

        One of which nothing can be read is not gone on with. It counts as failed, and its file stays as it is.
        """
        try:
            intent = RescalingFile.read_from(job.directory.rescaling)
        except (PystateError, OSError) as error:
            logger.error("what is written down of the rescale of job %s can't be read: %s", job.job_id, error)
            with self._lock:
                self._remember(_unreadable(job, error))
            return
        if intent is None:
            return
        told = Told(job.job_id, intent, list(intent.lines), intent.runs, intent.failure, intent.ended_at is not None)
        if told.is_done:
            with self._lock:
                self._remember(told)
            if not intent.keeps:  # the earlier one may have died before that
                forget = f"deleting what was kept for the rescale of job {job.job_id}"
                self._dispatcher.steps.run_or_retry(
                    forget, lambda: resubmission.forget(self._dispatcher, job), f"rescaling-{job.job_id}"
                )
            return
        self._begin(job, told)
        told.info("The job manager that did this has ended; the next one goes on.")
        logger.info("the rescale of job %s goes on", job.job_id)
        steps = _OwnRescaling(told, job, self._calls(), self._dispatcher)

        def resume() -> str:
            steps.write(managers=intent.managers + 1)
            return steps.resume(intent.starts)

        self._on_a_thread(job, told, steps, resume)

    def result(self, job_id: str, trigger_id: str) -> Told:
        """Return what is known of a rescale.

        Raises:
            RescalingNotFoundError: The job has no such rescale.
        """
        with self._lock:
            found = self._known.get(parse_job_id(trigger_id))
        if found is None or found.job_id != job_id:
            message = f"There is no rescale with trigger id {trigger_id} of job {job_id}."
            raise RescalingNotFoundError(message, hint=f"pystate rescale {job_id} -p N does what one has left to do")
        return found

    def latest(self, job_id: str) -> Told | None:
        """Return the last rescale of a job; None if there is none."""
        with self._lock:
            return self._latest.get(job_id)

    def _begin(self, job: SupervisedJob, told: Told, parallelism: int | None = None) -> None:
        """Note that a job is being rescaled.

        Args:
            job: The job.
            told: What is told of it.
            parallelism: Its new parallelism; None for a rescale that is gone on with, whatever else is done.
        """
        with self._lock:
            if parallelism is not None and job.job_id in self._at_work:
                message = f"Job {job.job_id} is being rescaled already."
                raise RescalingRefusedError(message, hint=f"pystate watch {job.job_id}")
            if parallelism is not None and len(self._at_work) >= _MOST_AT_ONCE:
                message = f"{_MOST_AT_ONCE} jobs are being rescaled already."
                raise RescalingRefusedError(message, hint=f"pystate rescale {job.job_id} -p {parallelism}")
            self._at_work[job.job_id] = told
            job.is_rescaled = True
            self._remember(told)

    def _remember(self, told: Told) -> None:
        self._known.put(told.intent.rescaling_id, told)
        self._latest.put(told.job_id, told)

    def _leave(self, job: SupervisedJob, told: Told) -> None:
        with self._lock:
            del self._at_work[job.job_id]
            job.is_rescaled = False
            told.is_done = True

    def _on_a_thread(self, job: SupervisedJob, told: Told, steps: _OwnRescaling, act: Callable[[], str]) -> None:
        def run() -> None:
            try:
                self._run(told, steps, act)
            except LeadershipLostError as error:
                logger.info("the rescale of job %s is left to the next job manager: %s", told.job_id, error.message)
                told.failure = JobFailure.of(error, "")
            finally:
                self._leave(job, told)

        threading.Thread(target=run, name="rescaling", daemon=True).start()

    @staticmethod
    def _run(told: Told, steps: _OwnRescaling, act: Callable[[], str]) -> None:
        try:
            told.runs = act()
        except LeadershipLostError:
            raise
        except PystateError as error:
            told.failure = JobFailure.of(error, "")
        except Exception as error:
            logger.exception("the rescale of job %s failed", told.job_id)
            told.failure = JobFailure.of(error, "")
        steps.end()
