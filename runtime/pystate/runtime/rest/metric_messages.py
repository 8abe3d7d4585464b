"""Metrics."""

from __future__ import annotations

from pystate.common.job_status import JobStatus
from pystate.common.text.plain_data import entry, unless_none
from pystate.runtime.rest.message import HexId, RestMessage


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


class JobFigures(RestMessage):
    """The figures of a running job that a list of jobs shows; null for what isn't known.

    Attributes:
        jid: The job.
        up: Whether its driver answers.
        records_in: Records per second that its sources give.
        records_out: Records per second that its last tasks give.
        busy: The share of time, from 0 to 1, that its busiest subtask works.
        back_pressured: The share of time, from 0 to 1, that the subtask which waits most waits for room downstream.
        watermark: The lowest watermark of its subtasks, ms since 1970; null where no event time comes.
        completed: Completed checkpoints.
        failed: Failed checkpoints.
        last_checkpoint: When the last checkpoint was completed, ms since 1970.
        last_duration: How long it took, ms.
        state_size: Its bytes of state.
    """

    jid: HexId
    up: bool
    records_in: float = entry("records-in-per-second")
    records_out: float = entry("records-out-per-second")
    busy: float
    back_pressured: float = entry("back-pressured")
    watermark: int | None
    completed: int = entry("completed-checkpoints")
    failed: int = entry("failed-checkpoints")
    last_checkpoint: int | None = entry("last-checkpoint")
    last_duration: int | None = entry("last-checkpoint-duration")
    state_size: int | None = entry("state-size")


class JobsFigures(RestMessage):
    """The figures of all jobs that have not ended.

    Attributes:
        now: The job manager's clock, ms since 1970.
    """

    now: int
    jobs: list[JobFigures]
