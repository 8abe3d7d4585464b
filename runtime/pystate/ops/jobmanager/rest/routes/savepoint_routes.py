"""The routes about savepoints: taking them, stopping with one, deleting them."""

from __future__ import annotations

from pystate.ops.jobmanager.rest import status_answers as messages
from pystate.ops.jobmanager.rest.parameters import CHOSEN_TRIGGER_ID, FORMAT_TYPE, MESSAGE, TRIGGER_ID, directory, truth
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.routes.operation_routes import operation, triggered
from pystate.runtime.rest.operation_messages import DisposalResult, SavepointResult, TriggerResponse

_TARGET_DIRECTORY = directory("target-directory", "Where to write it; the job's savepoint folder where it's missing.")
_CANCEL_JOB = truth("cancel-job", "Cancel the job when the savepoint is complete.")
_STOP_DIRECTORY = directory("targetDirectory", _TARGET_DIRECTORY.description)
_DRAIN = truth("drain", "Let all windows and timers fire first.")
_SAVEPOINT_PATH = directory("savepoint-path", "The savepoint to delete.", required=True)


def _trigger(request: RestRequest) -> TriggerResponse:
    return triggered(
        request,
        "trigger_savepoint",
        target_directory=request[_TARGET_DIRECTORY],
        cancel_job=request[_CANCEL_JOB],
        format=request[FORMAT_TYPE],
        message=request[MESSAGE],
    )


def _stop(request: RestRequest) -> TriggerResponse:
    return triggered(
        request,
        "stop",
        target_directory=request[_STOP_DIRECTORY],
        drain=request[_DRAIN],
        format=request[FORMAT_TYPE],
        message=request[MESSAGE],
    )


def _result(request: RestRequest) -> SavepointResult:
    return messages.savepoint_result(operation(request, checkpoint=False))


def _dispose(request: RestRequest) -> TriggerResponse:
    return TriggerResponse(request_id=request.context.disposals.trigger(str(request[_SAVEPOINT_PATH])))


def _disposal(request: RestRequest) -> DisposalResult:
    return messages.disposal_result(request.context.disposals.result(request[TRIGGER_ID]))


ROUTES = (
    RestRoute(
        "POST",
        "/jobs/{job_id}/savepoints",
        _trigger,
        "Trigger a savepoint.",
        TriggerResponse,
        status=202,
        body=(_TARGET_DIRECTORY, _CANCEL_JOB, FORMAT_TYPE, CHOSEN_TRIGGER_ID, MESSAGE),
        asks_driver=True,
        refusals=(409,),
    ),
    RestRoute(
        "GET",
        "/jobs/{job_id}/savepoints/{trigger_id}",
        _result,
        "What became of a savepoint, or of a stop.",
        SavepointResult,
        asks_driver=True,
    ),
    RestRoute(
        "POST",
        "/jobs/{job_id}/stop",
        _stop,
        "Stop a job with a savepoint.",
        TriggerResponse,
        status=202,
        body=(_STOP_DIRECTORY, _DRAIN, FORMAT_TYPE, CHOSEN_TRIGGER_ID, MESSAGE),
        asks_driver=True,
        refusals=(409,),
    ),
    RestRoute("POST", "/savepoint-disposal", _dispose, "Delete a savepoint.", TriggerResponse, body=(_SAVEPOINT_PATH,)),
    RestRoute("GET", "/savepoint-disposal/{trigger_id}", _disposal, "What became of a deletion.", DisposalResult),
)
