"""The routes about metrics: Flink's, and the text format of Prometheus."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import Response

from pystate.common.configuration.configuration import Configuration
from pystate.common.configuration.groups.metric_options import PrometheusReporterOptions
from pystate.common.errors import UsageError
from pystate.common.files.home import parse_job_id
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.core.metrics.metric_catalog import system_metric
from pystate.core.metrics.prometheus_text import PrometheusText
from pystate.core.metrics.sample import MetricKind, MetricSample, gauge, value_text
from pystate.core.metrics.store import Figure, JobMetricStore, SubtaskMetricStore, TaskMetricStore, figures
from pystate.ops.jobmanager.rest import status_answers as messages
from pystate.ops.jobmanager.rest.job_figures import job_figures
from pystate.ops.jobmanager.rest.parameters import SUBTASK_INDEX, VERTEX_ID, Parameter
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import TEXT
from pystate.ops.jobmanager.supervision.metric_fetcher import TIMEOUT_SECONDS
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.rest.metric_messages import AggregatedMetric, JobMetric, JobMetrics, JobsFigures, Metric

_AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "min": min,
    "max": max,
    "sum": math.fsum,
    "avg": lambda values: math.fsum(values) / len(values),
}
_ASKED_AT_ONCE = 16
_MOST_SUBTASKS = 1 << 15
_PAGE_SECONDS = 0.5
"""How long a page waits for figures. Those of a driver that takes longer are the last known ones until they come."""


def _words(_name: str, value: Any) -> tuple[str, ...]:
    return () if value is None else tuple(word for word in (part.strip() for part in str(value).split(",")) if word)


def _aggregates(name: str, value: Any) -> tuple[str, ...]:
    chosen = tuple(word.lower() for word in _words(name, value))
    unknown = [word for word in chosen if word not in _AGGREGATES]
    if unknown:
        message = f"The aggregation {unknown[0]!r} is not known; it must be one of {', '.join(_AGGREGATES)}."
        raise UsageError(message)
    return chosen


def _job_ids(name: str, value: Any) -> tuple[str, ...]:
    return tuple(parse_job_id(word) for word in _words(name, value))


def _subtask_range(name: str, value: Any) -> frozenset[int] | None:
    words = _words(name, value)
    if not words:
        return None
    chosen: set[int] = set()
    for word in words:
        first, _, last = word.partition("-")
        ends = (first, last or first)
        if not all(end.isascii() and end.isdigit() and len(end) <= 5 for end in ends) or int(ends[1]) >= _MOST_SUBTASKS:
            message = f"The parameter {name!r} must be a list of subtasks such as 0,2-4."
            raise UsageError(message)
        chosen.update(range(int(ends[0]), int(ends[1]) + 1))
    return frozenset(chosen)


_GET = Parameter[tuple[str, ...]]("get", "The metrics that are wanted, by id; none for a list of the ids.", TEXT, _words)
_AGG = Parameter[tuple[str, ...]]("agg", "The aggregations that are wanted; none for all.", TEXT, _aggregates)
_JOBS = Parameter[tuple[str, ...]]("jobs", "The jobs that are wanted; none for all.", TEXT, _job_ids)
_SUBTASKS = Parameter[frozenset[int] | None]("subtasks", "The subtasks that are wanted; none for all.", TEXT, _subtask_range)


# -- Flink's


def _job_manager(request: RestRequest) -> list[Metric]:
    return _listed(figures(_job_manager_samples(request)), request[_GET])


def _jobs(request: RestRequest) -> list[AggregatedMetric]:
    chosen = request[_JOBS]
    jobs = [job for job in request.dispatcher.jobs() if (job.job_id in chosen if chosen else not job.state().is_terminal)]
    return _aggregated([figures(store.job) for store in _stores(jobs).values()], request[_GET], request[_AGG])


def _job(request: RestRequest) -> list[Metric]:
    return _listed(figures(request.job.metrics.current().job), request[_GET])


def _vertex(request: RestRequest) -> list[Metric]:
    found: dict[str, Figure] = {}
    for task, subtask in _subtasks(request):
        found |= {f"{subtask.index}.{name}": value for name, value in figures(subtask.samples, task).items()}
    return _listed(found, request[_GET])


def _watermarks(request: RestRequest) -> list[Metric]:
    found = {subtask.index: figures(subtask.samples, task).get(_WATERMARK) for task, subtask in _subtasks(request)}
    told = [(index, value) for index, value in sorted(found.items()) if value is not None]
    return [Metric(id=f"{index}.{_WATERMARK}", value=value_text(value)) for index, value in told]


def _subtask(request: RestRequest) -> list[Metric]:
    wanted = request[SUBTASK_INDEX]
    found = [figures(subtask.samples, task) for task, subtask in _subtasks(request) if subtask.index == wanted]
    return _listed(found[0] if found else {}, request[_GET])


def _vertex_subtasks(request: RestRequest) -> list[AggregatedMetric]:
    chosen = request[_SUBTASKS]
    found = [figures(one.samples, task) for task, one in _subtasks(request) if chosen is None or one.index in chosen]
    return _aggregated(found, request[_GET], request[_AGG])


def _subtasks(request: RestRequest) -> Iterable[tuple[TaskMetricStore, SubtaskMetricStore]]:
    task = request.job.metrics.current().task(request[VERTEX_ID])
    return [] if task is None else [(task, subtask) for subtask in task.subtasks]


def _listed(values: Mapping[str, Figure], wanted: tuple[str, ...]) -> list[Metric]:
    if not wanted:
        return [Metric(id=name) for name in sorted(values)]
    return [Metric(id=name, value=value_text(values[name])) for name in wanted if name in values]


def _aggregated(
    stores: list[dict[str, Figure]], wanted: tuple[str, ...], aggregates: tuple[str, ...]
) -> list[AggregatedMetric]:
    if not wanted:
        return [AggregatedMetric(id=name) for name in sorted({name for store in stores for name in store})]
    told = []
    for name in wanted:
        values = [store[name] for store in stores if name in store]
        numbers = [float(value) for value in values if not isinstance(value, (str, bool)) and math.isfinite(value)]
        if numbers and len(numbers) == len(values):  # strings can't be summed
            chosen = {word: _AGGREGATES[word](numbers) for word in aggregates or _AGGREGATES}
            told.append(AggregatedMetric(id=name, **chosen))
    return told


# -- ours


def _prometheus(request: RestRequest) -> Response:
    configuration = Configuration(dict(request.context.configuration))
    text = PrometheusText(
        prefix=configuration.get(PrometheusReporterOptions.PREFIX),
        filter_values=configuration.get(PrometheusReporterOptions.FILTER_LABEL_VALUE_CHARACTER),
        host=socket.gethostname(),
    )
    text.add_job_manager(_job_manager_samples(request))
    jobs = [job for job in request.dispatcher.jobs() if not job.state().is_terminal]
    stores = _stores(jobs)
    for job in jobs:
        store = stores.get(job.job_id)
        if store is None:
            store = JobMetricStore(is_up=False)
        # for a driver that should answer and doesn't, old numbers would look like new ones
        text.add_job(job.job_id, str(job.status()["name"]), store, whole=store.is_up or job.has_no_driver)
    return Response(text.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _all_of_job(request: RestRequest) -> JobMetrics:
    job = request.job
    status, store = job.status(), job.metrics.current()
    metrics = [entry for sample in store.job for entry in _entries(sample, None, None)]
    for task in store.tasks:
        for subtask in task.subtasks:
            metrics += [entry for sample in subtask.samples for entry in _entries(sample, task, subtask.index)]
    return JobMetrics(name=status["name"], state=JobStatus(status["state"]), up=store.is_up, metrics=metrics)


def _figures(request: RestRequest) -> JobsFigures:
    jobs = [job for job in request.dispatcher.jobs() if not job.state().is_terminal]
    # all that is asked for here is asked for again in a second: a driver that hangs must not hold up the others' figures
    stores = _stores(jobs, _PAGE_SECONDS)
    found = [job_figures(job.job_id, job.status(), stores.get(job.job_id) or job.metrics.known()) for job in jobs]
    return JobsFigures(now=current_time_ms(), jobs=found)


def _entries(sample: MetricSample, task: TaskMetricStore | None, subtask: int | None) -> Iterable[JobMetric]:
    known = system_metric(sample.name, sample.groups)
    for end, value in sample.figures().items():
        finite = not isinstance(value, float) or math.isfinite(value)
        yield JobMetric(
            task=None if task is None else task.name,
            vertex=None if task is None else task.vertex_id,
            operator=None if task is None else task.operator_name(sample),
            subtask=subtask,
            name=".".join(sample.path) + end,
            kind=sample.kind.value,
            unit=None if known is None else known.unit,
            value=value if finite else value_text(value),
        )


def _job_manager_samples(request: RestRequest) -> list[MetricSample]:
    overview = messages.overview(job.status() for job in request.dispatcher.jobs())
    samples = [
        gauge("numRunningJobs", overview.jobs_running),
        gauge("numRegisteredTaskManagers", overview.taskmanagers),
        gauge("taskSlotsTotal", overview.slots_total),
        gauge("taskSlotsAvailable", overview.slots_available),
    ]
    for disk in request.context.disks.current():
        group = (("disk", disk.name),)
        samples.append(MetricSample("diskFree", MetricKind.GAUGE, disk.free, groups=group))
        samples.append(MetricSample("diskTotal", MetricKind.GAUGE, disk.total, groups=group))
    return samples


def _stores(jobs: list[SupervisedJob], seconds: float = 2 * TIMEOUT_SECONDS) -> dict[str, JobMetricStore]:
    """Return the metrics of jobs, from all drivers concurrently; those that don't answer in time are left out.

    Args:
        jobs: The jobs.
        seconds: What is time enough; less than drivers have leaves their questions to later callers.
    """
    if not jobs:
        return {}
    pool = ThreadPoolExecutor(max_workers=min(_ASKED_AT_ONCE, len(jobs)), thread_name_prefix="metrics")
    try:
        patience = TIMEOUT_SECONDS if seconds >= TIMEOUT_SECONDS else 0.0
        asked = {job.job_id: pool.submit(job.metrics.current, patience) for job in jobs}
        done, _ = wait(asked.values(), seconds)
        return {job_id: one.result() for job_id, one in asked.items() if one in done and one.exception() is None}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


_VERTEX = "/jobs/{job_id}/vertices/{vertex_id}"
_WATERMARK = "currentInputWatermark"
_VERTEX_SUBTASKS = f"{_VERTEX}/subtasks/metrics"

ROUTES = (
    RestRoute("GET", "/jobmanager/metrics", _job_manager, "The job manager's metrics.", list[Metric], query=(_GET,)),
    RestRoute(
        "GET", "/jobs/metrics", _jobs, "Metrics over several jobs.", list[AggregatedMetric], query=(_GET, _AGG, _JOBS)
    ),
    RestRoute("GET", "/jobs/{job_id}/metrics", _job, "A job's metrics.", list[Metric], query=(_GET,)),
    RestRoute("GET", f"{_VERTEX}/metrics", _vertex, "The metrics of all subtasks of a task.", list[Metric], query=(_GET,)),
    RestRoute(
        "GET",
        f"{_VERTEX}/watermarks",
        _watermarks,
        "The event time of each subtask of a task; nothing where no times come to it.",
        list[Metric],
    ),
    RestRoute(
        "GET",
        _VERTEX_SUBTASKS,
        _vertex_subtasks,
        "Metrics over several subtasks of a task.",
        list[AggregatedMetric],
        query=(_GET, _AGG, _SUBTASKS),
    ),
    RestRoute(
        "GET",
        f"{_VERTEX}/subtasks/{{subtask_index}}/metrics",
        _subtask,
        "The metrics of one subtask.",
        list[Metric],
        query=(_GET,),
    ),
    RestRoute("GET", "/pystate/jobs/figures", _figures, "The figures of jobs that have not ended.", JobsFigures),
    RestRoute("GET", "/metrics", _prometheus, "Everything, for Prometheus.", None, media_type="text/plain"),
    RestRoute(
        "GET",
        "/pystate/jobs/{job_id}/metrics",
        _all_of_job,
        "All metrics of a job, with units.",
        JobMetrics,
        owner_only=True,
    ),
)
