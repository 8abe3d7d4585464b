"""The final metrics of a job: the file that its driver writes at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pystate.common.files.home import read_json, write_json
from pystate.common.files.job_files import JobFile
from pystate.common.text.plain_data import PlainData
from pystate.core.metrics.sample import MetricSample
from pystate.core.metrics.store import DriverMetrics, TaskMetricStore

logger = logging.getLogger(__name__)

_VERSION = 1


@dataclass(frozen=True)
class LastMetrics(PlainData):
    """The content of the file: the final metrics, except those of checkpoints, which have their own file."""

    version: int
    job: list[MetricSample]
    tasks: list[TaskMetricStore]


def write_last_metrics(file: JobFile, metrics: Callable[[], DriverMetrics]) -> None:
    """Write the final metrics of a job. Errors are only logged: a job must not fail because of metrics.

    Args:
        file: `JobDirectory.last_metrics`.
        metrics: Returns what is measured of the job.
    """
    try:
        last = metrics()
        write_json(file, LastMetrics(_VERSION, last.job, last.tasks).to_plain())
    except Exception:
        logger.exception("the last metrics of the job are not kept")


def read_last_metrics(file: JobFile) -> LastMetrics | None:
    """Return the metrics that the driver wrote; None if there are none, or if they are unreadable."""
    try:
        found = read_json(file)
        if found is None:
            return None
        if found["version"] != _VERSION:
            logger.warning("%s has version %s, which is not known here", file, found["version"])
            return None
        return LastMetrics.from_plain(found)
    except (OSError, ValueError, TypeError, KeyError) as error:
        logger.warning("%s can't be read: %r", file, error)
        return None
