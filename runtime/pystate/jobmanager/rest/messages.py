"""Job statuses in the shapes of Flink's REST answers. Pure functions of what `status.json` holds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pystate
from pystate.common.errors import PystateError
from pystate.common.job_status import JobStatus
from pystate.common.sensitive_keys import without_secrets
from pystate.job_folder.failure_history import MAX_FAILURES
from pystate.jobmanager.rest.serialized_throwable import serialized_throwable
from pystate.jobmanager.rest.vertices import Status, plan, task_counts, vertex

FLINK_VERSION = "2.3.0"
"""The Flink whose REST this is; clients look at it."""

_PROGRESS = ("acknowledged", "total", "bytes", "waits_for_epoch", "epoch_running", "waits_since")
_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FAILED: "FAILED",
}


def overview(statuses: Iterable[Status]) -> dict[str, Any]:
    """GET /overview. A driver counts as a task manager, and every slot has its job from the start."""
    by_state: Counter[JobStatus] = Counter()
    slots = 0
    for status in statuses:
        state = JobStatus(status["state"])
        by_state[state] += 1
        if not state.is_terminal:
            slots += max(status["parallelism"], 0)
    running = sum(count for state, count in by_state.items() if not state.is_terminal)
    return {
        "taskmanagers": running,
        "slots-total": slots,
        "slots-available": 0,
        "jobs-running": running,
        "jobs-finished": by_state[JobStatus.FINISHED],
        "jobs-cancelled": by_state[JobStatus.CANCELED],
        "jobs-failed": by_state[JobStatus.FAILED],
        "flink-version": FLINK_VERSION,
        "flink-commit": "",
        "pystate-version": pystate.__version__,
    }


def dashboard_config() -> dict[str, Any]:
    """GET /config."""
    now = time.localtime()
    return {
        "refresh-interval": 3000,
        "timezone-name": now.tm_zone,
        "timezone-offset": now.tm_gmtoff * 1000,
        "flink-version": FLINK_VERSION,
        "flink-revision": "",
        "features": {"web-submit": False, "web-cancel": True, "web-rescale": False, "web-history": False},
        "pystate-version": pystate.__version__,
    }


def job_summary(job_id: str, status: Status, now: int) -> dict[str, Any]:
    """An entry of GET /jobs/overview."""
    counts = {state.lower(): count for state, count in task_counts(status).items()}
    return {
        "jid": job_id,
        "name": status["name"],
        "jobType": "STREAMING",
        "schedulerType": "Default",
        "start-time": status["start_time"],
        "end-time": status["end_time"],
        "duration": _duration(status, now),
        "state": status["state"],
        "last-modification": max(status["timestamps"].values()),
        "tasks": {**counts, "total": sum(counts.values())},
        "pending-operators": 0,
        "pystate": {"restarts": status["attempt"], "application-id": status.get("application_id")},
    }


def job_details(job_id: str, status: Status, now: int) -> dict[str, Any]:
    """GET /jobs/:id."""
    timestamps = {state.value: 0 for state in JobStatus} | status["timestamps"]
    return {
        "jid": job_id,
        "application-id": job_id,
        "name": status["name"],
        "isStoppable": False,
        "state": status["state"],
        "job-type": "STREAMING",
        "schedulerType": "Default",
        "start-time": status["start_time"],
        "end-time": status["end_time"],
        "duration": _duration(status, now),
        "maxParallelism": status["max_parallelism"],
        "now": now,
        "timestamps": timestamps,
        "vertices": [vertex(one, status, now) for one in status["vertices"]],
        "status-counts": task_counts(status, per_vertex=True),
        "plan": plan(job_id, status),
        "pending-operators": 0,
        "pystate": {
            "attempt": status["attempt"],
            "warnings": status["plan_warnings"],
            "waits-for": status.get("waits_for"),
            "failure": None if status["failure"] is None else failure_cause(status["failure"]),
        },
    }


def job_config(job_id: str, status: Status, configuration: Mapping[str, str], restart_strategy: str) -> dict[str, Any]:
    """GET /jobs/:id/config.

    Args:
        job_id: The job.
        status: Its status.
        configuration: The options it was submitted with.
        restart_strategy: When it is restarted, in words.
    """
    return {
        "jid": job_id,
        "name": status["name"],
        "execution-config": {
            "restart-strategy": restart_strategy,
            "job-parallelism": status["parallelism"],
            "object-reuse-mode": False,
            "user-config": {},
        },
        "pystate": {"configuration": without_secrets(configuration)},
    }


def progress(status: Status) -> dict[str, Any]:
    """GET /pystate/jobs/:id/progress: how far the job is; None for what is not known."""
    return {
        "name": status["name"],
        "state": status["state"],
        "attempt": status["attempt"],
        "start-time": status["start_time"],
        "end-time": status["end_time"],
        "epoch": status.get("epoch"),
        "records-in": status.get("records_in"),
        "records-out": status.get("records_out"),
        "epoch-durations": status.get("epoch_durations", []),
        "epoch-running": status.get("epoch_running"),
        "backlog": status.get("backlog"),
        "restore": _restore(status.get("restore")),
    }


def _restore(restore: dict[str, Any] | None) -> dict[str, Any] | None:
    if restore is None:
        return None
    return {"checkpoint-id": restore["checkpoint_id"], "bytes": restore["bytes"], "total": restore["total"]}


def execution_result(job_id: str, status: Status) -> dict[str, Any]:
    """GET /jobs/:id/execution-result."""
    state = JobStatus(status["state"])
    if not state.is_terminal:
        return {"status": {"id": "IN_PROGRESS"}}
    result = {
        "id": job_id,
        "name": status["name"],
        "application-status": _APPLICATION_STATUS[state],
        "accumulator-results": {},
        "net-runtime": status["end_time"] - status["start_time"],
        "application-id": job_id,
        "start-time": status["start_time"],
        "end-time": status["end_time"],
    }
    if state is JobStatus.FAILED:
        result["failure-cause"] = failure_cause(status["failure"] or {})
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def exceptions(status: Status, most: int = MAX_FAILURES) -> dict[str, Any]:
    """GET /jobs/:id/exceptions: the last failures, the newest first.

    Args:
        status: The job's.
        most: How many are wanted.
    """
    kept = status["failures"][:most]
    truncated = status["failure_count"] > len(kept)
    return {"exceptionHistory": {"entries": [_exception(failure) for failure in kept], "truncated": truncated}}


def _exception(failure: dict[str, Any]) -> dict[str, Any]:
    cause = failure_cause(failure)
    return {
        "exceptionName": cause["class"],
        "stacktrace": cause["stack-trace"],
        "timestamp": failure["timestamp"],
        "failureLabels": {},
        "taskName": None,
        "endpoint": None,
        "taskManagerId": None,
        "concurrentExceptions": [],
        "pystate": {**cause["pystate"], "attempt": failure["attempt"]},
    }


def operation_result(operation: dict[str, Any]) -> dict[str, Any]:
    """GET /jobs/:id/savepoints/:trigger and /jobs/:id/checkpoints/:trigger."""
    if operation["status"] != "COMPLETED":
        progress = {name: operation[name] for name in _PROGRESS if name in operation}
        return {"status": {"id": "IN_PROGRESS"}, "operation": None, "pystate": progress}
    checkpoint = is_checkpoint(operation)
    if operation.get("failure") is not None:
        # Flink spells it in two ways
        name = "failureCause" if checkpoint else "failure-cause"
        result = {name: failure_cause(operation["failure"])}
    elif checkpoint:
        result = {"checkpointId": operation["checkpoint_id"]}
    else:
        result = {"location": operation["location"]}
    return {"status": {"id": "COMPLETED"}, "operation": result}


def is_checkpoint(operation: dict[str, Any]) -> bool:
    """Return whether a completed operation was a checkpoint, and no savepoint or stop."""
    return bool(operation["kind"] == "checkpoint")


def disposal_result(disposal: dict[str, Any]) -> dict[str, Any]:
    """GET /savepoint-disposal/:trigger."""
    if disposal["status"] != "COMPLETED":
        return {"status": {"id": "IN_PROGRESS"}, "operation": None}
    failure = disposal.get("failure")
    return {"status": {"id": "COMPLETED"}, "operation": {} if failure is None else {"failure-cause": failure_cause(failure)}}


def failure_cause(failure: dict[str, Any]) -> dict[str, Any]:
    """Return a failure as Flink's class and stack trace, and as our own error."""
    name = failure.get("class") or PystateError.__name__
    message = failure.get("message") or name
    stack_trace = failure.get("stack_trace") or f"{name}: {message}"
    ours = {"class": name, "message": message, "where": failure.get("where"), "hint": failure.get("hint")}
    if failure.get("table"):
        ours["table"] = failure["table"]
    return {
        "class": name,
        "stack-trace": stack_trace,
        "serialized-throwable": serialized_throwable(name, message, stack_trace),
        "pystate": ours,
    }


def _duration(status: Status, now: int) -> int:
    end = status["end_time"] if status["end_time"] >= 0 else now
    return int(max(0, end - status["start_time"]))
