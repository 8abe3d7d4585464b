"""Rescales that the job manager does itself, for clients that can't wait for the steps, as pages can't."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pystate.common.bounded_dict import BoundedDict
from pystate.common.errors import JobExecutionError, PystateError
from pystate.common.files.home import new_job_id, parse_job_id
from pystate.ops.rescaling import Calls, Rescaling
from pystate.runtime.rest.failure_messages import FailureCause
from pystate.runtime.rest.job_detail_messages import JobExecutionResultResponseBody
from pystate.runtime.rest.operation_messages import SavepointResult

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 600.0
"""As long as with the command."""
_REMEMBERED = 200
_MOST_AT_ONCE = 16
_POLL_SECONDS = 0.2


class RescalingNotFoundError(PystateError):
    """No rescale has this trigger id."""


class RescalingRefusedError(PystateError):
    """A rescale can't begin now."""


@dataclass
class Told:
    """What is known of a rescale. Lines are only added; a reader sees some of them.

    Attributes:
        job_id: The job.
        lines: What it has done.
        runs: The job that runs now, once that is known.
        failure: Why it failed.
        is_done: Whether it has ended.
    """

    job_id: str
    lines: list[str] = field(default_factory=list)
    runs: str | None = None
    failure: PystateError | None = None
    is_done: bool = False

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


class _OwnRescaling(Rescaling):
    def __init__(self, told: Told, calls: Calls, parallelism: int, snapshot: str | None, *, without_state: bool) -> None:
        super().__init__(
            told, calls, told.job_id, parallelism, TIMEOUT_SECONDS, snapshot=snapshot, without_state=without_state
        )
        self._calls = calls

    def savepoint_of(self, operation: str) -> str:
        while not (found := self._calls.get(operation, SavepointResult)).status.is_completed:
            time.sleep(_POLL_SECONDS)
        if found.failure_cause is not None:
            raise self.failure_of(found.failure_cause)
        return found.outcome

    def failure(self, job_id: str) -> PystateError:
        result = self._calls.get(f"/jobs/{job_id}/execution-result", JobExecutionResultResponseBody).job_execution_result
        cause = None if result is None else result.failure_cause
        if cause is None:
            message = f"Job {job_id} has failed."
            return JobExecutionError(message, hint=f"pystate exceptions {job_id}")
        return self.failure_of(cause)

    def failure_of(self, cause: FailureCause) -> PystateError:
        return cause.pystate.error()


class Rescalings:
    """Rescales jobs on threads of their own, and keeps the results.

    Args:
        calls: Returns what asks this job manager.
    """

    def __init__(self, calls: Callable[[], Calls]) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._known: BoundedDict[str, Told] = BoundedDict(_REMEMBERED)
        self._at_work: dict[str, Told] = {}

    def trigger(self, job_id: str, parallelism: int, snapshot: str | None = None, *, without_state: bool = False) -> str:
        """Begin to rescale a job, or to put it back to an earlier state; return the id for the result.

        Args:
            job_id: The job.
            parallelism: Its new parallelism.
            snapshot: What it is put back to; None for a rescale.
            without_state: Whether state of the snapshot that no operator takes is left out.

        Raises:
            RescalingRefusedError: It is being rescaled already, or too many others are.
        """
        trigger_id, told = new_job_id(), Told(job_id)
        with self._lock:
            if job_id in self._at_work:
                message = f"Job {job_id} is being rescaled already."
                raise RescalingRefusedError(message, hint=f"pystate watch {job_id}")
            if len(self._at_work) >= _MOST_AT_ONCE:
                message = f"{_MOST_AT_ONCE} jobs are being rescaled already."
                raise RescalingRefusedError(message, hint=f"pystate rescale {job_id} -p {parallelism}")
            self._at_work[job_id] = told
            self._known.put(trigger_id, told)
        steps = _OwnRescaling(told, self._calls(), parallelism, snapshot, without_state=without_state)
        threading.Thread(target=self._run, args=(steps, told), name="rescaling", daemon=True).start()
        return trigger_id

    def result(self, job_id: str, trigger_id: str) -> Told:
        """Return what is known of a rescale.

        Raises:
            RescalingNotFoundError: The job has no such rescale, or another job manager has begun it.
        """
        with self._lock:
            found = self._known.get(parse_job_id(trigger_id))
        if found is None or found.job_id != job_id:
            message = f"There is no rescale with trigger id {trigger_id} of job {job_id}."
            raise RescalingNotFoundError(message, hint=f"pystate rescale {job_id} -p N does what one has left to do")
        return found

    def _run(self, steps: Rescaling, told: Told) -> None:
        try:
            told.runs = steps.run(None)
        except PystateError as error:
            told.failure = error
        except Exception as error:
            logger.exception("the rescale of job %s failed", told.job_id)
            told.failure = PystateError(f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                del self._at_work[told.job_id]
                told.is_done = True
