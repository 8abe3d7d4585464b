"""The routes that give a running job another parallelism or an earlier state, in steps that the job manager takes itself."""

from __future__ import annotations

from pystate.core.snapshot.storage.snapshot_location import resolve_snapshot
from pystate.ops.jobmanager.rest.parameters import JOB_ID, TRIGGER_ID, Parameter, number
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.routes.resubmission_routes import FORKED_FROM, MAX_PARALLELISM, WANTED, WITHOUT_STATE
from pystate.ops.jobmanager.rest.status_answers import failure_cause
from pystate.runtime.rest.operation_messages import (
    COMPLETED,
    IN_PROGRESS,
    AsynchronousOperationInfo,
    RescalingResult,
    RescalingSteps,
    TriggerResponse,
)

_PATH = "/jobs/{job_id}/rescaling"
_NUMBER = number("parallelism", "The new number of subtasks.", 0, low=1, high=MAX_PARALLELISM)
_PARALLELISM = Parameter[int](
    _NUMBER.name,
    _NUMBER.description,
    {key: value for key, value in _NUMBER.schema.items() if key != "default"},
    lambda name, value: _NUMBER.read(name, "" if value is None else value),
    required=True,
)


def _rescale(request: RestRequest) -> TriggerResponse:
    return TriggerResponse(request_id=request.context.rescalings.trigger(request.job, request[_PARALLELISM]))


def _put_back(request: RestRequest) -> TriggerResponse:
    snapshot = resolve_snapshot(str(request[FORKED_FROM])).uri  # before anything is stopped
    trigger_id = request.context.rescalings.trigger(
        request.job, request[WANTED], snapshot, without_state=request[WITHOUT_STATE]
    )
    return TriggerResponse(request_id=trigger_id)


def _result(request: RestRequest) -> RescalingResult:
    told = request.context.rescalings.result(request[JOB_ID], request[TRIGGER_ID])
    done, steps = told.is_done, RescalingSteps(lines=tuple(told.lines), job_id=told.runs)
    if not done:
        return RescalingResult(status=IN_PROGRESS, pystate=steps)
    cause = None if told.failure is None else failure_cause(told.failure.to_plain())
    return RescalingResult(status=COMPLETED, operation=AsynchronousOperationInfo(failure_cause=cause), pystate=steps)


ROUTES = (
    RestRoute(
        "PATCH",
        _PATH,
        _rescale,
        "Rescale a job.",
        TriggerResponse,
        query=(_PARALLELISM,),
        owner_only=True,
        refusals=(404, 409, 507),
    ),
    RestRoute(
        "GET",
        f"{_PATH}/{{trigger_id}}",
        _result,
        "What became of a rescale, or of a return to an earlier state.",
        RescalingResult,
    ),
    RestRoute(
        "POST",
        "/pystate/jobs/{job_id}/replacement",
        _put_back,
        "Put a job back to an earlier state: stop it, and start its program as it is today from a snapshot.",
        TriggerResponse,
        status=202,
        body=(FORKED_FROM, WANTED, WITHOUT_STATE),
        reads_storage=True,
        owner_only=True,
        refusals=(404, 409, 422, 503, 507),
    ),
)
