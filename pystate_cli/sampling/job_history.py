"""The history of a watched job: samples over time."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from pystate.core.metrics.rate_meter import RateMeter
from pystate.runtime.rest.checkpoint_messages import CheckpointingStatistics
from pystate.runtime.rest.job_detail_messages import JobDetailsInfo, JobVertexDetails
from pystate.runtime.rest.own_job_messages import JobProgress
from pystate_cli.client.rest_client import RestClient

_KEPT = 240
"""How many looks are remembered; no terminal is wider."""


@dataclass(frozen=True)
class OperatorFigures:
    """One vertex of a job at one point in time. Rates are in rows per second, None if unknown."""

    name: str
    parallelism: int
    status: str
    rate_in: float | None
    rate_out: float | None
    rows_in: int | None
    rows_out: int | None


@dataclass(frozen=True)
class JobSample:
    """A job at one point in time, with its history.

    Attributes:
        job_id: The job.
        progress: The answer to GET /pystate/jobs/:id/progress.
        statistics: The answer to GET /jobs/:id/checkpoints.
        operators: Its vertices.
        rate_in: Rows per second of each sample so far, newest last.
        rate_out: Rows per second.
        backlog: The number of unread rows of the sources.
        epochs: The durations of the last epochs in ms, newest last.
        max_parallelism: The number of key groups.
        busy: The fraction of time in which an epoch ran, 0 to 1.
    """

    job_id: str
    progress: JobProgress
    statistics: CheckpointingStatistics
    operators: tuple[OperatorFigures, ...]
    rate_in: tuple[float | None, ...]
    rate_out: tuple[float | None, ...]
    backlog: tuple[float | None, ...]
    epochs: tuple[int, ...]
    max_parallelism: int
    busy: float | None


class JobHistory:
    """Samples one job periodically, and keeps the history.

    Args:
        job_id: The job.
        window: The window of rates in seconds: epochs come in bursts.
    """

    def __init__(self, job_id: str, window: float = 5.0) -> None:
        self._job_id = job_id
        self._window = window
        self._meters: dict[str, RateMeter] = {}
        self._rates: dict[str, deque[float | None]] = {name: deque(maxlen=_KEPT) for name in ("in", "out", "backlog")}
        self._under_way = False
        self._running: deque[bool] = deque(maxlen=_KEPT)

    def look(self, client: RestClient, moment: float | None = None) -> JobSample:
        """Take a sample of the job.

        Args:
            client: The job manager.
            moment: Monotonic seconds; None for now.

        Raises:
            PystateError: The job manager doesn't answer, or not with the job.
        """
        details = client.get(f"/jobs/{self._job_id}", JobDetailsInfo)
        statistics = client.get(f"/jobs/{self._job_id}/checkpoints", CheckpointingStatistics)
        progress = client.get(f"/pystate/jobs/{self._job_id}/progress", JobProgress)
        moment = time.monotonic() if moment is None else moment
        self._under_way = progress.epoch_running is not None
        self._rates["in"].append(self._rate("in", moment, progress.records_in))
        self._rates["out"].append(self._rate("out", moment, progress.records_out))
        self._rates["backlog"].append(progress.backlog)
        return JobSample(
            job_id=self._job_id,
            progress=progress,
            statistics=statistics,
            operators=tuple(self._operator(vertex, moment) for vertex in details.vertices),
            rate_in=tuple(self._rates["in"]),
            rate_out=tuple(self._rates["out"]),
            backlog=tuple(self._rates["backlog"]),
            epochs=progress.epoch_durations,
            max_parallelism=details.max_parallelism,
            busy=self._busy(progress),
        )

    def _operator(self, vertex: JobVertexDetails, moment: float) -> OperatorFigures:
        # unknown figures of the driver are 0 there, and marked as incomplete
        read = vertex.metrics.read_records if vertex.metrics.read_records_complete else None
        written = vertex.metrics.write_records if vertex.metrics.write_records_complete else None
        return OperatorFigures(
            name=vertex.name,
            parallelism=vertex.parallelism,
            status=vertex.status.value,
            rate_in=self._rate(f"in {vertex.id}", moment, read),
            rate_out=self._rate(f"out {vertex.id}", moment, written),
            rows_in=read,
            rows_out=written,
        )

    def _rate(self, name: str, moment: float, count: int | None) -> float | None:
        meter = self._meters.setdefault(name, RateMeter(self._window))
        meter.add(moment, count, under_way=self._under_way)
        return meter.rate

    def _busy(self, progress: JobProgress) -> float | None:
        """Return the fraction of samples during an epoch: between epochs the job is idle."""
        if progress.epoch is None:
            return None
        self._running.append(progress.epoch_running is not None)
        recent = list(self._running)[-30:]
        return sum(recent) / len(recent)
