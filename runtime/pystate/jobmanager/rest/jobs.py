"""The routes about jobs."""

from __future__ import annotations

from typing import Any

from pystate.common.configuration import Configuration
from pystate.common.errors import PystateError, UsageError
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.job_folder.restart_strategy import restart_strategy
from pystate.job_folder.submission import SubmissionFile
from pystate.jobmanager.rest import messages, vertices
from pystate.jobmanager.rest.errors import NotFoundError
from pystate.jobmanager.rest.parameters import VERTEX_ID, Parameter, number
from pystate.jobmanager.rest.route import RestRequest, RestRoute
from pystate.jobmanager.rest.schemas import (
    ANYTHING,
    EMPTY,
    FAILURE_CAUSE,
    HEX_ID,
    INTEGER,
    OUR_ERROR,
    TEXT,
    TRUTH,
    array,
    either,
    mapping,
    nullable,
    record,
    words,
)
from pystate.metrics.io_figures import io_figures

_PATH = "/jobs/{job_id}"
_METRICS_SECONDS = 2.0
"""How long the details of a job may wait for its driver; all but the metrics is known without it."""
_STATE = words(*(state.value for state in JobStatus))
_JOBS = record({"jobs": array(record({"id": HEX_ID, "status": _STATE}))})
_TIMES = {"start-time": INTEGER, "end-time": INTEGER, "duration": INTEGER}
_TASKS = record({**{state.lower(): INTEGER for state in vertices.TASK_STATES}, "total": INTEGER})
_SUMMARY = record(
    {
        "jid": HEX_ID,
        "name": TEXT,
        "jobType": TEXT,
        "schedulerType": TEXT,
        **_TIMES,
        "state": _STATE,
        "last-modification": INTEGER,
        "tasks": _TASKS,
        "pending-operators": INTEGER,
        "pystate": record({"restarts": INTEGER, "application-id": nullable(TEXT)}),
    }
)
_OURS = record(
    {"attempt": INTEGER, "warnings": array(TEXT), "waits-for": nullable(TEXT), "failure": nullable(FAILURE_CAUSE)}
)
_JOB = record(
    {
        "jid": HEX_ID,
        "application-id": HEX_ID,
        "name": TEXT,
        "isStoppable": TRUTH,
        "state": _STATE,
        "job-type": TEXT,
        "schedulerType": TEXT,
        **_TIMES,
        "maxParallelism": INTEGER,
        "now": INTEGER,
        "timestamps": record({state.value: INTEGER for state in JobStatus}),
        "vertices": array(vertices.VERTEX),
        "status-counts": vertices.TASK_COUNTS,
        "plan": vertices.PLAN,
        "pending-operators": INTEGER,
        "pystate": _OURS,
    }
)
_CONFIG = record(
    {
        "jid": HEX_ID,
        "name": TEXT,
        "execution-config": record(
            {"restart-strategy": TEXT, "job-parallelism": INTEGER, "object-reuse-mode": TRUTH, "user-config": mapping(TEXT)}
        ),
        "pystate": record({"configuration": mapping(TEXT)}),
    }
)
_EXCEPTION = record(
    {
        "exceptionName": TEXT,
        "stacktrace": TEXT,
        "timestamp": INTEGER,
        "failureLabels": EMPTY,
        "taskName": nullable(TEXT),
        "endpoint": nullable(TEXT),
        "taskManagerId": nullable(TEXT),
        "concurrentExceptions": array(ANYTHING),
        "pystate": {
            **OUR_ERROR,
            "properties": {**OUR_ERROR["properties"], "attempt": INTEGER},
            "required": [*OUR_ERROR["required"], "attempt"],
        },
    }
)
_EXCEPTIONS = record({"exceptionHistory": record({"entries": array(_EXCEPTION), "truncated": TRUTH})})
_RESULT = record(
    {
        "id": HEX_ID,
        "name": TEXT,
        "application-status": words("SUCCEEDED", "CANCELED", "FAILED"),
        "accumulator-results": mapping(TEXT),
        "net-runtime": INTEGER,
        "application-id": HEX_ID,
        "start-time": INTEGER,
        "end-time": INTEGER,
    },
    {"failure-cause": FAILURE_CAUSE},
)
_EXECUTION_RESULT = either(
    record({"status": record({"id": words("IN_PROGRESS")})}),
    record({"status": record({"id": words("COMPLETED")}), "job-execution-result": _RESULT}),
)
_ACCUMULATOR = record({"name": TEXT, "type": TEXT, "value": TEXT})
_ACCUMULATORS = record(
    {
        "job-accumulators": array(ANYTHING),
        "user-task-accumulators": array(_ACCUMULATOR),
        "serialized-user-task-accumulators": mapping(TEXT),
    }
)


def _mode(_name: str, value: Any) -> str:
    mode = "cancel" if value is None else str(value)
    if mode != "cancel":
        message = f"The mode {mode!r} is not known; it must be cancel."
        raise UsageError(message)
    return mode


_MAX_EXCEPTIONS = number("maxExceptions", "How many of the last failures are wanted.", 20, low=1)
_MODE = Parameter[str]("mode", "How to end the job.", {**words("cancel"), "default": "cancel"}, _mode)


def _jobs(request: RestRequest) -> dict[str, Any]:
    return {"jobs": [{"id": job.job_id, "status": job.state().value} for job in request.dispatcher.jobs()]}


def _jobs_overview(request: RestRequest) -> dict[str, Any]:
    now = current_time_ms()
    return {"jobs": [messages.job_summary(job.job_id, job.status(), now) for job in request.dispatcher.jobs()]}


def _job(request: RestRequest) -> dict[str, Any]:
    job = request.job
    status = job.progress(timeout=_METRICS_SECONDS)
    if JobStatus(status["state"]).is_terminal:
        tasks = job.metrics.current().tasks
        last = {task.vertex_id: io_figures(sample for one in task.subtasks for sample in one.samples) for task in tasks}
        status = vertices.with_last_io(status, last)
    return messages.job_details(job.job_id, status, current_time_ms())


def _status(request: RestRequest) -> dict[str, Any]:
    return {"status": request.job.state().value}


def _plan(request: RestRequest) -> dict[str, Any]:
    job = request.job
    return {"plan": vertices.plan(job.job_id, job.status())}


def _vertex(request: RestRequest) -> dict[str, Any]:
    job, vertex_id = request.job, request[VERTEX_ID]
    task = job.metrics.current().task(vertex_id)
    io = {} if task is None else {one.index: io_figures(one.samples) for one in task.subtasks}
    found = vertices.vertex_details(job.job_id, job.status(), vertex_id, current_time_ms(), io)
    if found is None:
        message = f"There is no vertex {vertex_id} in job {job.job_id}."
        raise NotFoundError(message, hint=f"GET /jobs/{job.job_id} lists them")
    return found


def _config(request: RestRequest) -> dict[str, Any]:
    job = request.job
    configuration = SubmissionFile.read(job.directory).configuration
    try:
        strategy = restart_strategy(Configuration(configuration)).describe()
    except PystateError as error:  # the job has failed for the same reason
        strategy = f"not known: {error.message}"
    return messages.job_config(job.job_id, job.status(), configuration, strategy)


def _exceptions(request: RestRequest) -> dict[str, Any]:
    return messages.exceptions(request.job.status(), request[_MAX_EXCEPTIONS])


def _execution_result(request: RestRequest) -> dict[str, Any]:
    job = request.job
    return messages.execution_result(job.job_id, job.status())


def _accumulators(request: RestRequest) -> dict[str, Any]:
    request.job.state()
    return {"job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {}}


def _cancel(request: RestRequest) -> dict[str, Any]:
    request.job.runner.cancel()
    return {}


ROUTES = (
    RestRoute("GET", "/jobs", _jobs, "The ids and states of all jobs.", _JOBS),
    RestRoute("GET", "/jobs/overview", _jobs_overview, "All jobs, with times and tasks.", record({"jobs": array(_SUMMARY)})),
    RestRoute("GET", _PATH, _job, "A job with its operators and its plan.", _JOB, asks_driver=True),
    RestRoute("PATCH", _PATH, _cancel, "Cancel a job.", EMPTY, status=202, query=(_MODE,), refusals=(409,)),
    RestRoute("GET", f"{_PATH}/status", _status, "The state of a job.", record({"status": _STATE})),
    RestRoute("GET", f"{_PATH}/plan", _plan, "Which operator feeds which.", record({"plan": vertices.PLAN})),
    RestRoute("GET", f"{_PATH}/config", _config, "What a job was submitted with, secrets hidden.", _CONFIG),
    RestRoute(
        "GET",
        f"{_PATH}/vertices/{{vertex_id}}",
        _vertex,
        "An operator, subtask by subtask.",
        vertices.VERTEX_DETAILS,
        asks_driver=True,
    ),
    RestRoute("GET", f"{_PATH}/exceptions", _exceptions, "A job's last failures.", _EXCEPTIONS, query=(_MAX_EXCEPTIONS,)),
    RestRoute("GET", f"{_PATH}/execution-result", _execution_result, "How a job ended.", _EXECUTION_RESULT),
    RestRoute("GET", f"{_PATH}/accumulators", _accumulators, "A job's accumulators; there are none.", _ACCUMULATORS),
)
