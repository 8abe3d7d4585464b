"""Samples a job's metrics on a thread of its own, so that a slow driver delays no output."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from pystate.common.errors import PystateError
from pystate.core.metrics.rate_meter import RateMeter
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.own_job_messages import JobProgress
from pystate_cli.client.rest_client import RestClient
from pystate_cli.sampling.run_sample import RunSample

_INTERVAL_SECONDS = 0.5
_CHECKPOINTS_EVERY = 2
_FIGURES = ("epoch", "records_in", "records_out", "watermark", "watermark_task")


class JobSampler(threading.Thread):
    """Takes samples of one job until it is stopped.

    Args:
        client: The job manager, on a connection of its own.
        job_id: The job.
    """

    def __init__(self, client: RestClient, job_id: str) -> None:
        super().__init__(name="job-sampler", daemon=True)
        self._client = client
        self._job_id = job_id
        self._stopped = threading.Event()
        self._rate_in, self._rate_out = RateMeter(), RateMeter()
        self.latest: RunSample | None = None

    def stop(self) -> None:
        """Take no further sample. A pending answer is ignored."""
        self._stopped.set()

    def run(self) -> None:
        """Sample until stopped; failed requests are retried."""
        statistics: CheckpointingStatistics | None = None
        number = 0
        while True:
            try:
                progress = self._client.get(f"/pystate/jobs/{self._job_id}/progress", JobProgress)
                moment = time.monotonic()
                if number % _CHECKPOINTS_EVERY == 0:
                    statistics = self._client.get(f"/jobs/{self._job_id}/checkpoints", CheckpointingStatistics)
            except PystateError:
                # the command that follows the job reports it where it matters
                pass
            else:
                number += 1
                under_way = progress.epoch_running is not None
                self._rate_in.add(moment, progress.records_in, under_way=under_way)
                self._rate_out.add(moment, progress.records_out, under_way=under_way)
                progress = _with_last_figures(progress, self.latest)
                self.latest = RunSample(self._job_id, progress, self._rate_in.rate, self._rate_out.rate, statistics)
            if self._stopped.wait(_INTERVAL_SECONDS):
                return


def _with_last_figures(progress: JobProgress, before: RunSample | None) -> JobProgress:
    """Return the progress of a job that has ended with what its driver, which is gone, said last."""
    if before is None or not progress.state.is_terminal:
        return progress
    missing = (name for name in _FIGURES if getattr(progress, name) is None)
    return replace(progress, **{name: getattr(before.progress, name) for name in missing})
