"""A job's operators in the shapes of Flink's REST: vertices, subtasks, the plan. Pure functions of its status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystate.common.job_status import JobStatus
from pystate.jobmanager.rest.schemas import (
    EMPTY,
    HEX_ID,
    INTEGER,
    NUMBER,
    TEXT,
    TRUTH,
    array,
    either,
    nullable,
    record,
    words,
)

Status = dict[str, Any]

TASK_STATES = (
    "CREATED",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "FAILED",
    "DEPLOYING",
    "INITIALIZING",
    "CANCELED",
    "SCHEDULED",
    "RECONCILING",
)
_TASK_STATE_OF = {
    JobStatus.INITIALIZING: "CREATED",
    JobStatus.RESTARTING: "CREATED",
    JobStatus.SUSPENDED: "CREATED",
    JobStatus.CANCELLING: "CANCELING",
    JobStatus.FAILING: "CANCELING",
}
_COUNTERS = ("read-bytes", "write-bytes", "read-records", "write-records")
_NO_SHARING_GROUP = "0" * 32

TASK_STATE = words(*TASK_STATES)
TASK_COUNTS = record(dict.fromkeys(TASK_STATES, INTEGER))
IO_METRICS = record(
    {
        **dict.fromkeys(_COUNTERS, INTEGER),
        **{f"{name}-complete": TRUTH for name in _COUNTERS},
        "accumulated-backpressured-time": INTEGER,
        "accumulated-idle-time": INTEGER,
        "accumulated-busy-time": either(NUMBER, words("NaN")),
    }
)
VERTEX = record(
    {
        "id": HEX_ID,
        "slotSharingGroupId": HEX_ID,
        "name": TEXT,
        "maxParallelism": INTEGER,
        "parallelism": INTEGER,
        "status": TASK_STATE,
        "start-time": INTEGER,
        "end-time": INTEGER,
        "duration": INTEGER,
        "tasks": TASK_COUNTS,
        "metrics": IO_METRICS,
        "uid": TEXT,
    }
)
_INPUT = record({"id": HEX_ID, "num": INTEGER, "exchange": TEXT, "ship_strategy": TEXT})
_NODE = record(
    {
        "id": HEX_ID,
        "operator": TEXT,
        "parallelism": INTEGER,
        "operator_strategy": TEXT,
        "description": TEXT,
        "optimizer_properties": EMPTY,
        "uid": TEXT,
    },
    {"inputs": array(_INPUT)},
)
PLAN = record({"jid": HEX_ID, "name": TEXT, "type": words("STREAMING"), "nodes": array(_NODE)})
_SUBTASK = record(
    {
        "subtask": INTEGER,
        "status": TASK_STATE,
        "attempt": INTEGER,
        "endpoint": nullable(TEXT),
        "start-time": INTEGER,
        "end-time": INTEGER,
        "duration": INTEGER,
        "metrics": IO_METRICS,
        "taskmanager-id": TEXT,
        "status-duration": record(dict.fromkeys(TASK_STATES, INTEGER)),
        "other-concurrent-attempts": {"type": "null"},
    }
)
VERTEX_DETAILS = record(
    {
        "id": HEX_ID,
        "name": TEXT,
        "parallelism": INTEGER,
        "maxParallelism": INTEGER,
        "now": INTEGER,
        "subtasks": array(_SUBTASK),
        "uid": TEXT,
    }
)


def task_state(text: str) -> str:
    """Return what Flink calls the state of a task of a job in that state."""
    state = JobStatus(text)
    return _TASK_STATE_OF.get(state, state.value)


def task_counts(status: Status, *, per_vertex: bool = False) -> dict[str, int]:
    """Return how many subtasks, or vertices, are in each state."""
    counts = dict.fromkeys(TASK_STATES, 0)
    for vertex in status["vertices"]:
        counts[task_state(vertex["status"])] += 1 if per_vertex else vertex["parallelism"]
    return counts


def vertex(vertex: dict[str, Any], status: Status, now: int) -> dict[str, Any]:
    """Return one of the vertices of GET /jobs/:id."""
    state = task_state(vertex["status"])
    return {
        "id": vertex["id"],
        "slotSharingGroupId": _NO_SHARING_GROUP,
        "name": vertex["name"],
        "maxParallelism": status["max_parallelism"],
        "parallelism": vertex["parallelism"],
        "status": state,
        **_times(status, now),
        "tasks": {**dict.fromkeys(TASK_STATES, 0), state: vertex["parallelism"]},
        "metrics": _io_metrics(vertex.get("metrics", {})),
        "uid": vertex["uid"],
    }


def with_last_io(status: Status, io: Mapping[str, Mapping[str, int]]) -> Status:
    """Return a status whose vertices have what was last known of their records, bytes and times, where it has none.

    Args:
        status: A job's.
        io: By the id of a vertex, see `io_figures`.
    """
    return {**status, "vertices": [{"metrics": io.get(one["id"], {}), **one} for one in status["vertices"]]}


def vertex_details(
    job_id: str, status: Status, vertex_id: str, now: int, io: Mapping[int, Mapping[str, int]] | None = None
) -> dict[str, Any] | None:
    """GET /jobs/:id/vertices/:vid; None where the job has no such vertex. Subtasks share its state and times.

    Args:
        job_id: The job.
        status: Its status.
        vertex_id: The vertex.
        now: Milliseconds since 1970.
        io: By subtask, see `io_figures`.
    """
    found = next((one for one in status["vertices"] if one["id"] == vertex_id), None)
    if found is None:
        return None
    state = task_state(found["status"])
    times = _times(status, now)
    return {
        "id": found["id"],
        "name": found["name"],
        "parallelism": found["parallelism"],
        "maxParallelism": status["max_parallelism"],
        "now": now,
        "subtasks": [
            {
                "subtask": index,
                "status": state,
                "attempt": status["attempt"],
                "endpoint": None,
                **times,
                "metrics": _io_metrics((io or {}).get(index, {})),
                "taskmanager-id": job_id,
                "status-duration": {**dict.fromkeys(TASK_STATES, -1), state: max(times["duration"], 0)},
                "other-concurrent-attempts": None,
            }
            for index in range(found["parallelism"])
        ],
        "uid": found["uid"],
    }


def plan(job_id: str, status: Status) -> dict[str, Any]:
    """Return the plan as of GET /jobs/:id/plan; nodes without inputs where an older driver has left only the vertices."""
    nodes = status.get("plan") or [_bare_node(one) for one in status["vertices"]]
    return {"jid": job_id, "name": status["name"], "type": "STREAMING", "nodes": nodes}


def _times(status: Status, now: int) -> dict[str, int]:
    started = status["timestamps"].get(JobStatus.RUNNING.value, -1)
    end = status["end_time"]
    duration = max(0, (end if end >= 0 else now) - started) if started >= 0 else -1
    return {"start-time": started, "end-time": end, "duration": duration}


def _io_metrics(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return Flink's counters; what the driver has not told is 0 and not complete."""
    metrics: dict[str, Any] = {}
    for name in _COUNTERS:
        metrics[name] = int(known.get(name, 0))
        metrics[f"{name}-complete"] = name in known
    return {
        **metrics,
        "accumulated-backpressured-time": int(known.get("accumulated-backpressured-time", 0)),
        "accumulated-idle-time": int(known.get("accumulated-idle-time", 0)),
        "accumulated-busy-time": known.get("accumulated-busy-time", "NaN"),
    }


def _bare_node(vertex: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": vertex["id"],
        "operator": "",
        "parallelism": vertex["parallelism"],
        "operator_strategy": "",
        "description": vertex["name"],
        "optimizer_properties": {},
        "uid": vertex["uid"],
    }
