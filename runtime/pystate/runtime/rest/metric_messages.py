"""Metrics."""

from __future__ import annotations

from pystate.common.job_status import JobStatus
from pystate.common.text.plain_data import unless_none
from pystate.runtime.rest.message import RestMessage


class Metric(RestMessage):
    """A metric.

    Attributes:
        id: Its name.
        value: Its value as text; missing in a list of all.
    """

    id: str
    value: str | None = unless_none(default=None)


class AggregatedMetric(RestMessage):
    """A metric of several jobs or subtasks; the aggregations that were asked for, none in a list of all."""

    id: str
    min: float | None = unless_none(default=None)
    max: float | None = unless_none(default=None)
    sum: float | None = unless_none(default=None)
    avg: float | None = unless_none(default=None)


class JobMetric(RestMessage):
    """A metric with what it belongs to.

    Attributes:
        task: The name of its task; null for one of the whole job.
        vertex: The vertex.
        operator: The operator, of what a function measures.
        subtask: The subtask.
        kind: `counter`, `gauge`, `meter` or `histogram`.
        unit: What it is measured in; null where a function has registered it.
    """

    task: str | None
    vertex: str | None = None
    operator: str | None
    subtask: int | None
    name: str
    kind: str
    unit: str | None
    value: str | float | bool


class JobMetrics(RestMessage):
    """All metrics of a job.

    Attributes:
        up: Whether its driver answers; the metrics are the last ones where it doesn't.
    """

    name: str
    state: JobStatus
    up: bool
    metrics: list[JobMetric]
