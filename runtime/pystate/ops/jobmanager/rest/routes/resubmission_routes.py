"""The routes of pystate that start a job's program again: in its place, or beside it."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import JobTerminatedError, UsageError
from pystate.ops.jobmanager import resubmission
from pystate.ops.jobmanager.rest.parameters import CHOSEN_JOB_ID, JOB_ID, Parameter, directory, text_or_none, truth
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import TEXT, nullable
from pystate.runtime.rest.message import EmptyResponseBody
from pystate.runtime.rest.own_job_messages import JobSubmitResponseBody, ResubmissionInfo

MAX_PARALLELISM = 1 << 15
_KEPT_PATH = "/pystate/jobs/{job_id}/resubmission"


def _parallelism(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_PARALLELISM:
        message = f"The field {name!r} must be a whole number from 1 to {MAX_PARALLELISM}."
        raise UsageError(message)
    return value


def _parallelism_or_none(name: str, value: Any) -> int | None:
    return None if value is None else _parallelism(name, value)


_RANGE = {"type": "integer", "minimum": 1, "maximum": MAX_PARALLELISM}
WANTED = Parameter[int]("parallelism", "What the job's successor is to get.", _RANGE, _parallelism, required=True)
WARM = truth(
    "warm",
    "Whether a driver is warmed up for a successor that is started some time in the next minutes. Else one is made ready"
    " as soon as possible, if the successor has another parallelism.",
)
_READY = truth("ready", "Whether a driver is made ready as soon as possible even if the parallelism stays the same.")
PARALLELISM = Parameter[int | None](
    "parallelism",
    "The number of subtasks; that of the submission where it is missing.",
    nullable(_RANGE),
    _parallelism_or_none,
)
SAVEPOINT_PATH = directory("savepoint_path", "What the job starts from.")
FORKED_FROM = directory("savepoint_path", "The savepoint or checkpoint that the new job starts from.", required=True)
_JOB_NAME = Parameter[str | None](
    "job_name", "What the new job is called; as the old one where it is missing.", nullable(TEXT), text_or_none
)
_CHOSEN_KEEPER = Parameter[str | None](
    "keeper",
    "The id of the client that needs it: the same one again is the same request. Chosen here where it is missing.",
    nullable(JOB_ID.schema),
    lambda name, value: None if value is None else JOB_ID.read(name, value),
)
WITHOUT_STATE = truth("allow_non_restored_state", "Whether state that no operator takes is left out.")

KEEPER = Parameter[str | None](
    "keeper",
    "The client that no longer needs it: it stays as long as others do. Without one it is deleted for all.",
    JOB_ID.schema,
    lambda name, value: None if value is None else JOB_ID.read(name, value),
)


def _keep(request: RestRequest) -> ResubmissionInfo:
    return resubmission.keep(
        request.dispatcher,
        request.job,
        request[WANTED],
        warm=request[WARM],
        ready=request[_READY],
        keeper=request[_CHOSEN_KEEPER],
    )


def _kept(request: RestRequest) -> ResubmissionInfo:
    return resubmission.kept(request.job)


def _forget(request: RestRequest) -> EmptyResponseBody:
    resubmission.forget(request.dispatcher, request.job, request[KEEPER])
    return EmptyResponseBody()


def _fork(request: RestRequest) -> JobSubmitResponseBody:
    forked = resubmission.fork(
        request.dispatcher,
        request.job,
        str(request[FORKED_FROM]),
        request[PARALLELISM],
        request[_JOB_NAME],
        allow_non_restored_state=request[WITHOUT_STATE],
    )
    return JobSubmitResponseBody(job_id=forked)


def _resubmit(request: RestRequest) -> JobSubmitResponseBody:
    job = request.job
    state = job.state()
    if not state.is_terminal:
        message = f"Job {job.job_id} is {state.value}; a second one beside it would do the same work twice."
        raise JobTerminatedError(message, hint=f"pystate stop {job.job_id}")
    successor = resubmission.resubmit(
        request.dispatcher,
        job,
        request[SAVEPOINT_PATH],
        request[PARALLELISM],
        allow_non_restored_state=request[WITHOUT_STATE],
        job_id=request[CHOSEN_JOB_ID],
    )
    return JobSubmitResponseBody(job_id=successor)


ROUTES = (
    RestRoute(
        "POST",
        _KEPT_PATH,
        _keep,
        "Keep what a job can be started with again after it has ended.",
        ResubmissionInfo,
        body=(WANTED, WARM, _READY, _CHOSEN_KEEPER),
        owner_only=True,
        refusals=(404, 507),
    ),
    RestRoute(
        "GET",
        _KEPT_PATH,
        _kept,
        "What is kept of a job to start it with again.",
        ResubmissionInfo,
        owner_only=True,
        refusals=(404,),
    ),
    RestRoute(
        "DELETE",
        _KEPT_PATH,
        _forget,
        "Delete what is kept of a job to start it with again.",
        EmptyResponseBody,
        query=(KEEPER,),
        owner_only=True,
    ),
    RestRoute(
        "POST",
        "/pystate/jobs/{job_id}/resubmit",
        _resubmit,
        "Start a job that has ended once more as it was submitted, with changes.",
        JobSubmitResponseBody,
        status=202,
        body=(SAVEPOINT_PATH, PARALLELISM, WITHOUT_STATE, CHOSEN_JOB_ID),
        owner_only=True,
        refusals=(404, 409, 507),
    ),
    RestRoute(
        "POST",
        "/pystate/jobs/{job_id}/fork",
        _fork,
        "Start another job of the program of a job that runs or has ended, from a snapshot.",
        JobSubmitResponseBody,
        status=202,
        body=(FORKED_FROM, PARALLELISM, _JOB_NAME, WITHOUT_STATE),
        reads_storage=True,
        owner_only=True,
        refusals=(404, 422, 503, 507),
    ),
)
