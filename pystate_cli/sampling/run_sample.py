"""A sample of a running job."""

from __future__ import annotations

from dataclasses import dataclass

from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.own_job_messages import JobProgress


@dataclass(frozen=True)
class RunSample:
    """A sample of a job at one point in time.

    Attributes:
        job_id: The job.
        progress: The answer to GET /pystate/jobs/:id/progress.
        rate_in: Rows read per second.
        rate_out: Rows written per second.
        statistics: The answer to GET /jobs/:id/checkpoints; None before there is one.
    """

    job_id: str
    progress: JobProgress
    rate_in: float | None
    rate_out: float | None
    statistics: CheckpointingStatistics | None
