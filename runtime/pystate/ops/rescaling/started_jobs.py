"""The jobs that a rescale starts: it waits until one runs, and ends one that doesn't."""

from __future__ import annotations

import contextlib
import time
from typing import Protocol

from pystate.common.errors import (
    DriverLostError,
    ExternalSystemError,
    JobExecutionError,
    JobNotFoundError,
    JobTerminatedError,
    PystateError,
    SparkLostError,
    StorageError,
)
from pystate.common.job_status import JobStatus
from pystate.ops.rescaling.job_calls import Calls, Teller
from pystate.runtime.rest.failure_messages import FailureCause
from pystate.runtime.rest.job_detail_messages import JobDetailsInfo
from pystate.runtime.rest.job_messages import JobStatusInfo
from pystate.runtime.rest.own_job_messages import DriverInfo

_POLL_SECONDS = 0.1
STARTING = (JobStatus.INITIALIZING, JobStatus.CREATED)
_FROM_OUTSIDE = {one.__name__ for one in (DriverLostError, ExternalSystemError, SparkLostError, StorageError)}
"""What another parallelism has no part in: the restart strategy is waited for."""
_MOST_ATTEMPTS = 3


class CancelledError(JobTerminatedError):
    """The job was cancelled before it ran, so that none is wanted."""


class StillStartsError(JobExecutionError):
    """The job didn't run in time, and was left to start.

    Args:
        message: The message.
        state: The state of the job.
        hint: What to do next.
    """

    def __init__(self, message: str, state: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.state = state


class StartFailures(Protocol):
    """What the caller of a rescale knows of jobs that don't run."""

    def failure(self, job_id: str) -> PystateError:
        """Return the error of a job that has failed."""

    def failure_of(self, cause: FailureCause) -> PystateError:
        """Return the error of an attempt that has failed."""

    def give_up(self, job_id: str, reason: PystateError) -> None:
        """Note that a job that was started and does not run is about to be ended."""


class StartedJobs:
    """Jobs on their way to RUNNING, and to their end.

    Args:
        console: Tells what is waited for.
        client: The job manager.
        failures: What is known of jobs that don't run.
        former: The job that they replace.
        timeout: How long the start of one may take, in seconds.
    """

    def __init__(self, console: Teller, client: Calls, failures: StartFailures, *, former: str, timeout: float) -> None:
        self._console = console
        self._client = client
        self._failures = failures
        self._former = former
        self._timeout = timeout

    def never_began(self, job_id: str) -> bool:
        """Whether a job that was to be started never had a driver: the process that was to start one died before."""
        try:
            return self.state(job_id).is_terminal and self._client.get(f"/pystate/jobs/{job_id}", DriverInfo).pid is None
        except JobNotFoundError:
            return True

    def state(self, job_id: str) -> JobStatus:
        """Return the state of a job."""
        return self._client.get(f"/jobs/{job_id}/status", JobStatusInfo).status

    def await_end(self, job_id: str) -> JobStatus:
        """Wait until a job has ended, and return its state."""
        while not (state := self.state(job_id)).is_terminal:
            time.sleep(_POLL_SECONDS)
        return state

    def await_running(self, job_id: str, *, patient: bool = False) -> PystateError | None:
        """Wait until all state is restored and the job runs; otherwise end it and return the reason.

        Args:
            job_id: The job.
            patient: Whether to leave a slow job running.
        """
        deadline = time.monotonic() + self._timeout
        with self._console.waiting("The job restores its state"):
            while True:
                details = self._client.get(f"/jobs/{job_id}", JobDetailsInfo)
                state = details.state
                if has_run(details):
                    return None  # what has become of it since is the matter of its own restart strategy
                if state is JobStatus.FAILED:
                    return self._failures.failure(job_id)
                if state is JobStatus.CANCELLING:
                    state = self.await_end(job_id)
                if state.is_terminal:
                    message = f"Job {job_id} was cancelled before it ran, so that no job runs now."
                    return CancelledError(message, hint=f"the savepoint of job {self._former} starts it again")
                cause = details.pystate.failure
                # a permanent failure, such as too little memory for the slots, would be repeated
                outside = (
                    cause is not None and cause.class_name in _FROM_OUTSIDE and details.pystate.attempt < _MOST_ATTEMPTS
                )
                if not (state in STARTING or outside):  # RESTARTING: a job that fails at its start would continue to fail
                    reason = self._reason(job_id, details)
                    break
                if time.monotonic() > deadline:
                    message = f"Job {job_id} did not run within {self._timeout:g} s ({state.value})."
                    hint = f"pystate logs {job_id}"
                    if patient:
                        return StillStartsError(message, state.value, hint)
                    reason = JobExecutionError(message, hint=hint)
                    break
                time.sleep(_POLL_SECONDS)
            self._failures.give_up(job_id, reason)
            self.end(job_id)
        return reason

    def end(self, job_id: str) -> None:
        """Cancel a job, and wait until it has ended."""
        with contextlib.suppress(PystateError):
            self._client.patch(f"/jobs/{job_id}?mode=cancel")
        self.await_end(job_id)

    def _reason(self, job_id: str, details: JobDetailsInfo) -> PystateError:
        cause = details.pystate.failure
        if cause is None:
            return JobExecutionError(f"Job {job_id} failed before it ran.", hint=f"pystate logs {job_id}")
        return self._failures.failure_of(cause)


def has_run(details: JobDetailsInfo) -> bool:
    """Whether a job has ever come to run, or ended as one that did."""
    return details.timestamps.get(JobStatus.RUNNING, 0) > 0 or details.state is JobStatus.FINISHED
