"""Which of the jobs that have ended are still listed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pystate.common.configuration import Configuration
from pystate.common.job_manager_options import JobManagerOptions


@dataclass(frozen=True)
class JobStoreTerms:
    """How many jobs that have ended are listed, and for how long.

    Attributes:
        expiration_ms: Milliseconds after its end.
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

    def expired(self, ended: Iterable[tuple[str, int]], now: int) -> list[str]:
        """Return the jobs that are listed no longer.

        Args:
            ended: Job ids with the ms since 1970 at which they ended.
            now: Milliseconds since 1970.
        """
        newest_first = sorted(ended, key=lambda job: (job[1], job[0]), reverse=True)
        return [
            job_id
            for place, (job_id, end_time) in enumerate(newest_first)
            if place >= self.max_capacity or now - end_time >= self.expiration_ms
        ]
