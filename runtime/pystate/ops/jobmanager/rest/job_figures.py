"""The figures of jobs in a list: computed from the metrics of their drivers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pystate.core.metrics.store import Figure, JobMetricStore, figures
from pystate.runtime.rest.metric_messages import JobFigures

_NO_WATERMARK = -(1 << 63)
_END_OF_TIME = (1 << 63) - 1

_Subtask = Mapping[str, Figure]
"""The figures of one subtask, by name."""


def job_figures(job_id: str, status: dict[str, Any], store: JobMetricStore) -> JobFigures:
    """Return the figures of a job.

    Args:
        job_id: The job.
        status: Its status, with its plan.
        store: Its metrics.
    """
    of_job = figures(store.job)
    tasks = {task.vertex_id: [figures(subtask.samples, task) for subtask in task.subtasks] for task in store.tasks}
    subtasks = [subtask for found in tasks.values() for subtask in found]
    plan = status.get("plan") or []
    fed = {edge["id"] for node in plan for edge in node.get("inputs", ())}
    first = {node["id"] for node in plan if not node.get("inputs")}
    last = {node["id"] for node in plan} - fed
    return JobFigures(
        jid=job_id,
        up=store.is_up,
        records_in=sum(_given(found) for vertex, found in tasks.items() if vertex in first),
        records_out=sum(_sum(found, "numRecordsOutPerSecond") for vertex, found in tasks.items() if vertex in last),
        busy=_most(subtasks, "busyTimeMsPerSecond") / 1000,
        back_pressured=_most(subtasks, "backPressuredTimeMsPerSecond") / 1000,
        watermark=_watermark(subtasks),
        completed=_whole(of_job.get("numberOfCompletedCheckpoints")) or 0,
        failed=_whole(of_job.get("numberOfFailedCheckpoints")) or 0,
        last_checkpoint=_whole(of_job.get("lastCheckpointCompletedTimestamp")),
        last_duration=_whole(of_job.get("lastCheckpointDuration")),
        state_size=_whole(of_job.get("lastCheckpointFullSize")),
    )


def _given(task: Sequence[_Subtask]) -> float:
    """Return the records per second that come into the job at a first task: read by it, or made by its source."""
    return _sum(task, "numRecordsInPerSecond") or _sum(task, "numRecordsOutPerSecond")


def _values(subtasks: Iterable[_Subtask], name: str) -> Iterable[float]:
    for subtask in subtasks:
        value = subtask.get(name)
        if isinstance(value, (int, float)):
            yield value


def _sum(subtasks: Iterable[_Subtask], name: str) -> float:
    return float(sum(_values(subtasks, name)))


def _most(subtasks: Iterable[_Subtask], name: str) -> float:
    return max(_values(subtasks, name), default=0.0)


def _watermark(subtasks: Iterable[_Subtask]) -> int | None:
    known = [int(value) for value in _values(subtasks, "currentOutputWatermark") if value > _NO_WATERMARK]
    lowest = min(known, default=None)
    return None if lowest is None or lowest >= _END_OF_TIME else lowest


def _whole(value: Figure | None) -> int | None:
    return int(value) if isinstance(value, (int, float)) and value >= 0 else None
