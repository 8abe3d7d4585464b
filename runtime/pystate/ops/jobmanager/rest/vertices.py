"""A job's operators as answers of Flink's REST API: vertices, subtasks, the plan. Pure functions of its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from pystate.common.job_status import JobStatus
from pystate.runtime.rest.job_detail_messages import (
    IOMetricsInfo,
    JobPlan,
    JobVertexDetails,
    JobVertexDetailsInfo,
    PlanNode,
    SubtaskExecutionAttemptDetails,
    TaskState,
)

Status = dict[str, Any]

_TASK_STATE_OF = {
    JobStatus.INITIALIZING: TaskState.CREATED,
    JobStatus.RESTARTING: TaskState.CREATED,
    JobStatus.SUSPENDED: TaskState.CREATED,
    JobStatus.CANCELLING: TaskState.CANCELING,
    JobStatus.FAILING: TaskState.CANCELING,
}
_COUNTERS = ("read-bytes", "write-bytes", "read-records", "write-records")


class _Times(TypedDict):
    start_time: int
    end_time: int
    duration: int


def task_state(text: str) -> TaskState:
    """Return Flink's task state for a job in this state."""
    state = JobStatus(text)
    return _TASK_STATE_OF.get(state) or TaskState(state.value)


def task_counts(status: Status, *, per_vertex: bool = False) -> dict[TaskState, int]:
    """Return the number of subtasks, or vertices, in each state."""
    counts = dict.fromkeys(TaskState, 0)
    for vertex in status["vertices"]:
        counts[task_state(vertex["status"])] += 1 if per_vertex else vertex["parallelism"]
    return counts


def vertex(vertex: dict[str, Any], status: Status, now: int) -> JobVertexDetails:
    """Return one of the vertices of GET /jobs/:id."""
    state = task_state(vertex["status"])
    return JobVertexDetails(
        id=vertex["id"],
        name=vertex["name"],
        max_parallelism=status["max_parallelism"],
        parallelism=vertex["parallelism"],
        status=state,
        **_times(status, now),
        tasks={**dict.fromkeys(TaskState, 0), state: vertex["parallelism"]},
        metrics=_io_metrics(vertex.get("metrics", {})),
        uid=vertex["uid"],
    )


def with_last_io(status: Status, io: Mapping[str, Mapping[str, int]]) -> Status:
    """Return a status with the last known records, bytes and times of its vertices filled in where missing.

    Args:
        status: The status of a job.
        io: Figures by vertex id, see `io_figures`.
    """
    return {**status, "vertices": [{"metrics": io.get(one["id"], {}), **one} for one in status["vertices"]]}


def vertex_details(
    job_id: str, status: Status, vertex_id: str, now: int, io: Mapping[int, Mapping[str, int]] | None = None
) -> JobVertexDetailsInfo | None:
    """GET /jobs/:id/vertices/:vid; None if the job has no such vertex. Subtasks share its state and times.

    Args:
        job_id: The job.
        status: Its status.
        vertex_id: The vertex.
        now: Milliseconds since 1970.
        io: Figures by subtask, see `io_figures`.
    """
    found = next((one for one in status["vertices"] if one["id"] == vertex_id), None)
    if found is None:
        return None
    state = task_state(found["status"])
    times = _times(status, now)
    return JobVertexDetailsInfo(
        id=found["id"],
        name=found["name"],
        parallelism=found["parallelism"],
        max_parallelism=status["max_parallelism"],
        now=now,
        subtasks=[
            SubtaskExecutionAttemptDetails(
                subtask=index,
                status=state,
                attempt=status["attempt"],
                **times,
                metrics=_io_metrics((io or {}).get(index, {})),
                taskmanager_id=job_id,
                status_duration={**dict.fromkeys(TaskState, -1), state: max(times["duration"], 0)},
            )
            for index in range(found["parallelism"])
        ],
        uid=found["uid"],
    )


def plan(job_id: str, status: Status) -> JobPlan:
    """Return the plan as of GET /jobs/:id/plan; nodes have no inputs if an older driver wrote only the vertices."""
    nodes = [PlanNode.from_plain(one) for one in status.get("plan") or ()]
    return JobPlan(jid=job_id, name=status["name"], nodes=nodes or [_bare_node(one) for one in status["vertices"]])


def _times(status: Status, now: int) -> _Times:
    started = status["timestamps"].get(JobStatus.RUNNING.value, -1)
    end = status["end_time"]
    duration = max(0, (end if end >= 0 else now) - started) if started >= 0 else -1
    return {"start_time": started, "end_time": end, "duration": duration}


def _io_metrics(known: Mapping[str, Any]) -> IOMetricsInfo:
    """Return Flink's counters; unknown ones are 0 and incomplete."""
    complete = {f"{name}-complete": name in known for name in _COUNTERS}
    return IOMetricsInfo.from_plain({**known, **complete})


def _bare_node(vertex: dict[str, Any]) -> PlanNode:
    return PlanNode(id=vertex["id"], parallelism=vertex["parallelism"], description=vertex["name"], uid=vertex["uid"])
