"""The registry of the jobs that a job manager serves."""

from __future__ import annotations

import threading

from pystate.common.errors import JobNotFoundError
from pystate.common.files.home import parse_job_id
from pystate.ops.jobmanager.supervised_job import SupervisedJob


class JobRegistry:
    """The jobs by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, SupervisedJob] = {}

    def register(self, job: SupervisedJob) -> None:
        """Add a job."""
        with self._lock:
            self._jobs[job.job_id] = job

    def unregister(self, job_id: str) -> SupervisedJob:
        """Remove a job, and return it."""
        with self._lock:
            return self._jobs.pop(job_id)

    def jobs(self) -> list[SupervisedJob]:
        """Return all jobs, oldest first."""
        with self._lock:
            return sorted(self._jobs.values(), key=lambda job: (job.record.submitted_at, job.job_id))

    def job(self, job_id: str) -> SupervisedJob:
        """Return one job.

        Raises:
            UsageError: The id is malformed.
            JobNotFoundError: There is no job with this id.
        """
        parsed = parse_job_id(job_id)
        with self._lock:
            found = self._jobs.get(parsed)
        if found is None:
            message = f"There is no job with id {parsed}."
            raise JobNotFoundError(message, hint="pystate list -a")
        return found
