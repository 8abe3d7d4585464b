"""The registry of the jobs that a job manager serves."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pystate.common.errors import JobNotFoundError
from pystate.common.files.home import parse_job_id
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob


class JobRegistry:
    """The jobs by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, SupervisedJob] = {}
        self._recovered: list[SupervisedJob] = []
        self._on_recovery: Callable[[SupervisedJob], None] | None = None

    def register(self, job: SupervisedJob) -> None:
        """Add a job."""
        with self._lock:
            self._jobs[job.job_id] = job

    def recovered(self, job: SupervisedJob) -> None:
        """Tell that a job of an earlier job manager is served again."""
        with self._lock:
            act = self._on_recovery
            if act is None:
                self._recovered.append(job)
        if act is not None:
            act(job)

    def each_recovered(self, act: Callable[[SupervisedJob], None]) -> None:
        """Call a function for each recovered job, also for those that are recovered later."""
        with self._lock:
            self._on_recovery = act
            jobs, self._recovered = self._recovered, []
        for job in jobs:
            act(job)

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
