"""The routes about jobs."""

from __future__ import annotations

from typing import Any

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import PystateError, UsageError
from pystate.common.job_status import JobStatus
from pystate.common.time import current_time_ms
from pystate.core.metrics.io_figures import io_figures
from pystate.ops.jobmanager.rest import status_answers as messages
from pystate.ops.jobmanager.rest import vertices
from pystate.ops.jobmanager.rest.kept_records import kept_records
from pystate.ops.jobmanager.rest.parameters import VERTEX_ID, Parameter, number
from pystate.ops.jobmanager.rest.rest_errors import NotFoundError
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import words
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.restart_strategies import restart_strategy
from pystate.runtime.job_folder.submission import SubmissionFile
from pystate.runtime.rest.job_detail_messages import (
    JobAccumulatorsInfo,
    JobConfigInfo,
    JobDetailsInfo,
    JobExceptionsInfoWithHistory,
    JobExecutionResultResponseBody,
    JobPlanInfo,
    JobVertexDetailsInfo,
)
from pystate.runtime.rest.job_messages import (
    JobDetails,
    JobIdsWithStatusOverview,
    JobIdWithStatus,
    JobStatusInfo,
    MultipleJobsDetails,
)
from pystate.runtime.rest.message import EmptyResponseBody
from pystate.runtime.rest.operation_messages import RescalingInfo

_PATH = "/jobs/{job_id}"
_METRICS_SECONDS = 2.0
"""How long the details of a job may wait for its driver; all but the metrics is known without it."""


def _mode(_name: str, value: Any) -> str:
    mode = "cancel" if value is None else str(value)
    if mode != "cancel":
        message = f"The mode {mode!r} is not known; it must be cancel."
        raise UsageError(message)
    return mode


_MAX_EXCEPTIONS = number("maxExceptions", "How many of the last failures are wanted.", 20, low=1)
_MODE = Parameter[str]("mode", "How to end the job.", {**words("cancel"), "default": "cancel"}, _mode)


def _jobs(request: RestRequest) -> JobIdsWithStatusOverview:
    found = [JobIdWithStatus(id=job.job_id, status=job.state()) for job in request.dispatcher.jobs()]
    return JobIdsWithStatusOverview(jobs=found)


def _jobs_overview(request: RestRequest) -> MultipleJobsDetails:
    now = current_time_ms()

    def summary(job: SupervisedJob) -> JobDetails:
        status = job.status()
        return messages.job_summary(job.job_id, status, now, job.program, _rescaling(request, job, status))

    return MultipleJobsDetails(jobs=[summary(job) for job in request.dispatcher.jobs()])


def _rescaling(request: RestRequest, job: SupervisedJob, status: dict[str, Any]) -> RescalingInfo | None:
    told = request.context.rescalings.latest(job.job_id)
    keeps = told is not None and told.intent.keeps
    unfinished = keeps and JobStatus(status["state"]).is_terminal and job.directory.resubmission.exists()
    return messages.rescaling_info(told, unfinished=unfinished)


def _job(request: RestRequest) -> JobDetailsInfo:
    job = request.job
    status = job.progress(timeout=_METRICS_SECONDS)
    if JobStatus(status["state"]).is_terminal:
        tasks = job.metrics.current().tasks
        last = {task.vertex_id: io_figures(sample for one in task.subtasks for sample in one.samples) for task in tasks}
        status = vertices.with_last_io(status, last)
    return messages.job_details(job.job_id, status, current_time_ms(), _rescaling(request, job, status))


def _status(request: RestRequest) -> JobStatusInfo:
    return JobStatusInfo(status=request.job.state())


def _plan(request: RestRequest) -> JobPlanInfo:
    job = request.job
    return JobPlanInfo(plan=vertices.plan(job.job_id, job.status()))


def _vertex(request: RestRequest) -> JobVertexDetailsInfo:
    job, vertex_id = request.job, request[VERTEX_ID]
    task = job.metrics.current().task(vertex_id)
    io = {} if task is None else {one.index: io_figures(one.samples) for one in task.subtasks}
    found = vertices.vertex_details(job.job_id, job.status(), vertex_id, current_time_ms(), io)
    if found is None:
        message = f"There is no vertex {vertex_id} in job {job.job_id}."
        raise NotFoundError(message, hint=f"GET /jobs/{job.job_id} lists them")
    return found


def _config(request: RestRequest) -> JobConfigInfo:
    job = request.job
    if job.program is not None:
        return messages.job_config(job.job_id, job.status(), {}, "not known: the job is run by its own program")
    configuration = SubmissionFile.read(job.directory).configuration
    try:
        strategy = restart_strategy(Configuration(configuration)).describe()
    except PystateError as error:  # the job failed for the same reason
        strategy = f"not known: {error.message}"
    return messages.job_config(job.job_id, job.status(), configuration, strategy)


def _exceptions(request: RestRequest) -> JobExceptionsInfoWithHistory:
    job = request.job
    told = request.context.rescalings.latest(job.job_id)
    rescaling = told.intent if told is not None and told.is_done else None
    return messages.exceptions(job.status(), request[_MAX_EXCEPTIONS], kept_records(job.directory.path), rescaling)


def _execution_result(request: RestRequest) -> JobExecutionResultResponseBody:
    job = request.job
    return messages.execution_result(job.job_id, job.status())


def _accumulators(request: RestRequest) -> JobAccumulatorsInfo:
    request.job.state()
    return JobAccumulatorsInfo(job_accumulators=[], user_task_accumulators=[], serialized_user_task_accumulators={})


def _cancel(request: RestRequest) -> EmptyResponseBody:
    request.job.runner.cancel()
    return EmptyResponseBody()


ROUTES = (
    RestRoute("GET", "/jobs", _jobs, "The ids and states of all jobs.", JobIdsWithStatusOverview),
    RestRoute("GET", "/jobs/overview", _jobs_overview, "All jobs, with times and tasks.", MultipleJobsDetails),
    RestRoute("GET", _PATH, _job, "A job with its operators and its plan.", JobDetailsInfo, asks_driver=True),
    RestRoute("PATCH", _PATH, _cancel, "Cancel a job.", EmptyResponseBody, status=202, query=(_MODE,), refusals=(409, 503)),
    RestRoute("GET", f"{_PATH}/status", _status, "The state of a job.", JobStatusInfo),
    RestRoute("GET", f"{_PATH}/plan", _plan, "Which operator feeds which.", JobPlanInfo),
    RestRoute("GET", f"{_PATH}/config", _config, "What a job was submitted with, secrets hidden.", JobConfigInfo),
    RestRoute(
        "GET",
        f"{_PATH}/vertices/{{vertex_id}}",
        _vertex,
        "An operator, subtask by subtask.",
        JobVertexDetailsInfo,
        asks_driver=True,
    ),
    RestRoute(
        "GET",
        f"{_PATH}/exceptions",
        _exceptions,
        "A job's last failures.",
        JobExceptionsInfoWithHistory,
        query=(_MAX_EXCEPTIONS,),
    ),
    RestRoute("GET", f"{_PATH}/execution-result", _execution_result, "How a job ended.", JobExecutionResultResponseBody),
    RestRoute("GET", f"{_PATH}/accumulators", _accumulators, "A job's accumulators; there are none.", JobAccumulatorsInfo),
)
