"""The history of a watched job: samples over time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pystate_cli.client.rest_client import RestClient
from pystate_cli.sampling.rates import RateMeter

_KEPT = 240
"""How many looks are remembered; no terminal is wider."""


@dataclass(frozen=True)
class OperatorFigures:
    """One vertex of a job at one moment. Rates are rows per second, None for what is not known."""

    name: str
    parallelism: int
    status: str
    rate_in: float | None
    rate_out: float | None
    rows_in: int | None
    rows_out: int | None


@dataclass(frozen=True)
class JobLook:
    """A job at one moment, and how it came there.

    Attributes:
        job_id: The job.
        progress: The answer to GET /pystate/jobs/:id/progress.
        statistics: The answer to GET /jobs/:id/checkpoints.
        operators: Its vertices.
        rate_in: Rows per second, of each look so far, the newest last.
        rate_out: Rows per second.
        backlog: Rows that the sources have and nobody has read.
        epochs: How long the last epochs took, in ms, the newest last.
        max_parallelism: The number of key groups.
        busy: The share of the time in which an epoch ran, 0 to 1.
    """

    job_id: str
    progress: Mapping[str, Any]
    statistics: Mapping[str, Any]
    operators: tuple[OperatorFigures, ...]
    rate_in: tuple[float | None, ...]
    rate_out: tuple[float | None, ...]
    backlog: tuple[float | None, ...]
    epochs: tuple[int, ...]
    max_parallelism: int
    busy: float | None


class JobHistory:
    """Looks at one job again and again, and remembers.

    Args:
        job_id: The job.
        window: Seconds over which rates are taken: epochs come in bursts.
    """

    def __init__(self, job_id: str, window: float = 5.0) -> None:
        self._job_id = job_id
        self._window = window
        self._meters: dict[str, RateMeter] = {}
        self._rates: dict[str, deque[float | None]] = {name: deque(maxlen=_KEPT) for name in ("in", "out", "backlog")}
        self._under_way = False
        self._running: deque[bool] = deque(maxlen=_KEPT)

    def look(self, client: RestClient, moment: float | None = None) -> JobLook:
        """Ask for the job's figures.

        Args:
            client: The job manager.
            moment: Monotonic seconds; None for now.

        Raises:
            PystateError: The job manager doesn't answer, or not with the job.
        """
        details = client.get(f"/jobs/{self._job_id}")
        statistics = client.get(f"/jobs/{self._job_id}/checkpoints")
        progress = client.get(f"/pystate/jobs/{self._job_id}/progress")
        moment = time.monotonic() if moment is None else moment
        self._under_way = progress.get("epoch-running") is not None
        self._rates["in"].append(self._rate("in", moment, progress.get("records-in")))
        self._rates["out"].append(self._rate("out", moment, progress.get("records-out")))
        self._rates["backlog"].append(progress.get("backlog"))
        return JobLook(
            job_id=self._job_id,
            progress=progress,
            statistics=statistics,
            operators=tuple(self._operator(vertex, moment) for vertex in details["vertices"]),
            rate_in=tuple(self._rates["in"]),
            rate_out=tuple(self._rates["out"]),
            backlog=tuple(self._rates["backlog"]),
            epochs=tuple(progress.get("epoch-durations") or ()),
            max_parallelism=details["maxParallelism"],
            busy=self._busy(progress),
        )

    def _operator(self, vertex: Mapping[str, Any], moment: float) -> OperatorFigures:
        read, written = (_known(vertex.get("metrics") or {}, name) for name in ("read-records", "write-records"))
        return OperatorFigures(
            name=vertex["name"],
            parallelism=vertex["parallelism"],
            status=vertex["status"],
            rate_in=self._rate(f"in {vertex['id']}", moment, read),
            rate_out=self._rate(f"out {vertex['id']}", moment, written),
            rows_in=read,
            rows_out=written,
        )

    def _rate(self, name: str, moment: float, count: int | None) -> float | None:
        meter = self._meters.setdefault(name, RateMeter(self._window))
        meter.add(moment, count, under_way=self._under_way)
        return meter.rate

    def _busy(self, progress: Mapping[str, Any]) -> float | None:
        """Return the share of looks that met an epoch under way: what is between epochs is idle."""
        if "epoch-running" not in progress or progress.get("epoch") is None:
            return None
        self._running.append(progress["epoch-running"] is not None)
        recent = list(self._running)[-30:]
        return sum(recent) / len(recent)


def _known(metrics: Mapping[str, Any], name: str) -> int | None:
    """Return a figure of a vertex; what its driver has not told is 0 there, and said not to be complete."""
    return metrics.get(name) if metrics.get(f"{name}-complete", True) else None
