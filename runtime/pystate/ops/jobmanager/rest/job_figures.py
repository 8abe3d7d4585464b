"""The figures of jobs in a list: computed from the metrics of their drivers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pystate.core.metrics.store import Figure, JobMetricStore, TaskMetricStore, figures
from pystate.runtime.rest.metric_messages import JobFigures

_NO_WATERMARK = -(1 << 63)
_END_OF_TIME = (1 << 63) - 1


def job_figures(job_id: str, status: dict[str, Any], store: JobMetricStore) -> JobFigures:
    """Return the figures of a job.

    Args:
        job_id: The job.
        status: Its status, with its plan.
        store: Its metrics.
    """
    of_job = figures(store.job)
    plan = status.get("plan") or []
    fed = {edge["id"] for node in plan for edge in node.get("inputs", ())}
    first = {node["id"] for node in plan if not node.get("inputs")}
    last = {node["id"] for node in plan} - fed
    return JobFigures(
        jid=job_id,
        up=store.is_up,
        records_in=sum(_given(task) for task in store.tasks if task.vertex_id in first),
        records_out=_sum((task for task in store.tasks if task.vertex_id in last), "numRecordsOutPerSecond"),
        busy=_most(store.tasks, "busyTimeMsPerSecond") / 1000,
        back_pressured=_most(store.tasks, "backPressuredTimeMsPerSecond") / 1000,
        watermark=_watermark(store.tasks),
        completed=_whole(of_job.get("numberOfCompletedCheckpoints")) or 0,
        failed=_whole(of_job.get("numberOfFailedCheckpoints")) or 0,
        last_checkpoint=_whole(of_job.get("lastCheckpointCompletedTimestamp")),
        last_duration=_whole(of_job.get("lastCheckpointDuration")),
        state_size=_whole(of_job.get("lastCheckpointFullSize")),
    )


def _given(task: TaskMetricStore) -> float:
    """Return the records per second that come into the job at a first task: read by it, or made by its source."""
    return _sum([task], "numRecordsInPerSecond") or _sum([task], "numRecordsOutPerSecond")


def _values(tasks: Iterable[TaskMetricStore], name: str) -> Iterable[float]:
    for task in tasks:
        for subtask in task.subtasks:
            value = figures(subtask.samples, task).get(name)
            if isinstance(value, (int, float)):
                yield value


def _sum(tasks: Iterable[TaskMetricStore], name: str) -> float:
    return float(sum(_values(tasks, name)))


def _most(tasks: Iterable[TaskMetricStore], name: str) -> float:
    return max(_values(tasks, name), default=0.0)


def _watermark(tasks: Iterable[TaskMetricStore]) -> int | None:
    known = [int(value) for value in _values(tasks, "currentOutputWatermark") if value > _NO_WATERMARK]
    lowest = min(known, default=None)
    return None if lowest is None or lowest >= _END_OF_TIME else lowest


def _whole(value: Figure | None) -> int | None:
    return int(value) if isinstance(value, (int, float)) and value >= 0 else None
