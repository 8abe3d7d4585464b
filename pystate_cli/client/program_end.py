"""Failures of a program after its execute(): the job has FINISHED nevertheless."""

from __future__ import annotations

import time

from pystate.common.errors import PystateError
from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_detail_messages import JobDetailsInfo, JobExceptionsInfoWithHistory, RootExceptionInfo
from pystate.runtime.rest.own_job_messages import DriverInfo
from pystate_cli.client.failures import failure_of
from pystate_cli.client.rest_client import RestClient

_END_SECONDS = 2.0
"""How long the end of a program is awaited after that of its job: a program may also go on for hours."""
_POLL_SECONDS = 0.1


def exception_of(entry: RootExceptionInfo) -> PystateError:
    """Return the error of an entry of GET /jobs/:id/exceptions."""
    return failure_of(entry.pystate, entry.stacktrace)


def program_failure(client: RestClient, job_id: str, seconds: float = _END_SECONDS) -> PystateError | None:
    """Return the failure of a program after its FINISHED job; None if it hasn't failed so far.

    Args:
        client: The job manager.
        job_id: The job.
        seconds: How long to wait for the program's end, if it is still running.
    """
    details = client.get(f"/jobs/{job_id}", JobDetailsInfo)
    if details.state is not JobStatus.FINISHED:
        return None
    deadline = time.monotonic() + seconds
    while True:
        goes_on = client.get(
            f"/pystate/jobs/{job_id}", DriverInfo
        ).driver_running  # checked first: its last output exists then
        failures = client.get(f"/jobs/{job_id}/exceptions", JobExceptionsInfoWithHistory).exception_history
        last = next(iter(failures.entries), None)
        if last is not None and last.timestamp >= details.end_time:
            error = exception_of(last)
            error.message = f"The program failed after its job had finished: {error.message}"
            return error
        if not goes_on or time.monotonic() >= deadline:
            return None
        time.sleep(_POLL_SECONDS)
