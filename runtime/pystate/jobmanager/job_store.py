"""Which of the jobs that have ended are still listed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pystate.common.configuration import Configuration
from pystate.common.job_manager_options import JobManagerOptions


@dataclass(frozen=True)
class EndedJob:
    """A job that has ended.

    Attributes:
        job_id: The job.
        end_time: Milliseconds since 1970, by the clock of then. It only orders jobs: a clock may be set.
        seen_for_ms: For how long this job manager has seen it as ended, on a clock that nobody sets.
    """

    job_id: str
    end_time: int
    seen_for_ms: int


@dataclass(frozen=True)
class JobStoreTerms:
    """How many jobs that have ended are listed, and for how long.

    Attributes:
        expiration_ms: Milliseconds for which a job manager has seen that it has ended.
        max_capacity: Jobs.
    """

    expiration_ms: int = JobManagerOptions.JOB_STORE_EXPIRATION_TIME.default * 1000
    max_capacity: int = JobManagerOptions.JOB_STORE_MAX_CAPACITY.default

    @staticmethod
    def of(configuration: Configuration) -> JobStoreTerms:
        """Return what a configuration says."""
        return JobStoreTerms(
            configuration.get(JobManagerOptions.JOB_STORE_EXPIRATION_TIME) * 1000,
            configuration.get(JobManagerOptions.JOB_STORE_MAX_CAPACITY),
        )

    def expired(self, ended: Iterable[EndedJob]) -> list[str]:
        """Return the jobs that are listed no longer."""
        newest_first = sorted(ended, key=lambda job: (-job.seen_for_ms, job.end_time, job.job_id), reverse=True)
        return [
            job.job_id
            for place, job in enumerate(newest_first)
            if place >= self.max_capacity or job.seen_for_ms >= self.expiration_ms
        ]
