"""The REST endpoint: routes, and what each asks of the dispatcher.

Blocking work runs on threads, so that one slow driver holds up nobody else.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from pystate.common.errors import JobNotFoundError, JobTerminatedError, PystateError, UsageError
from pystate.common.snapshot_message import check_message
from pystate.jobmanager import rest_messages
from pystate.jobmanager.dispatcher import Dispatcher
from pystate.jobmanager.driver_process import DriverUnreachableError
from pystate.jobmanager.job_checkpoints import CheckpointNotFoundError
from pystate.jobmanager.job_record import Submission, environment_from_json
from pystate.jobmanager.request_guard import RequestGuard, is_authorized, read_body
from pystate.jobmanager.savepoint_disposal import DisposalNotFoundError, SavepointDisposals
from pystate.jobmanager.supervised_job import OperationNotFoundError, RequestRefusedError, SupervisedJob, now_ms

logger = logging.getLogger(__name__)


class UnauthorizedError(PystateError):
    """The request does not prove that it comes from the owner of the home."""


Body = dict[str, Any]
Handler = Callable[[Request, Body], Response]

_OUTPUT_CHUNK = 1 << 20
_DRIVER_CALLS = 64
_DIGITS = 18
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FORMATS = ("CANONICAL", "NATIVE")
_STATUS_CODES: tuple[tuple[type[PystateError], int], ...] = (
    (UsageError, 400),
    (UnauthorizedError, 401),
    (RequestRefusedError, 400),
    (JobNotFoundError, 404),
    (OperationNotFoundError, 404),
    (CheckpointNotFoundError, 404),
    (DisposalNotFoundError, 404),
    (JobTerminatedError, 409),
    (DriverUnreachableError, 503),
)


def create_app(dispatcher: Dispatcher, *, address: str, token: str, instance: str) -> ASGIApp:
    """Return the application.

    Args:
        dispatcher: The jobs.
        address: The address the server listens on.
        token: What requests that run code or read a job's output must prove.
        instance: Random digits that tell this process from another one.
    """
    handlers = {PystateError: _answer_error, HTTPException: _answer_http_error, Exception: _answer_unexpected}
    routed = Starlette(routes=RestApi(dispatcher, token).routes(), exception_handlers=handlers)
    return RequestGuard(routed, address, instance)


class RestApi:
    """One method per kind of request.

    Args:
        dispatcher: The jobs.
        token: The home's token.
    """

    def __init__(self, dispatcher: Dispatcher, token: str) -> None:
        self._dispatcher = dispatcher
        self._disposals = SavepointDisposals(dispatcher.home)
        self._token = token

    def routes(self) -> list[Route]:
        """Return the routes: Flink's with and without `/v1`, ours below `/pystate`."""
        from_files: list[tuple[str, str, Handler]] = [
            ("GET", "/overview", self._overview),
            ("GET", "/config", self._config),
            ("GET", "/jobs", self._jobs),
            ("GET", "/jobs/overview", self._jobs_overview),
            ("GET", "/jobs/{job_id}", self._job),
            ("PATCH", "/jobs/{job_id}", self._cancel),
            ("GET", "/jobs/{job_id}/status", self._status),
            ("GET", "/jobs/{job_id}/exceptions", self._exceptions),
            ("GET", "/jobs/{job_id}/execution-result", self._execution_result),
            ("GET", "/jobs/{job_id}/checkpoints/config", self._checkpoint_config),
            ("POST", "/savepoint-disposal", self._dispose),
            ("GET", "/savepoint-disposal/{trigger_id}", self._disposal),
        ]
        from_drivers: list[tuple[str, str, Handler]] = [
            ("GET", "/jobs/{job_id}/checkpoints", self._checkpoints),
            ("POST", "/jobs/{job_id}/checkpoints", self._trigger_checkpoint),
            ("GET", "/jobs/{job_id}/checkpoints/details/{checkpoint_id:int}", self._checkpoint_details),
            ("GET", "/jobs/{job_id}/checkpoints/details/{checkpoint_id:int}/subtasks/{vertex_id}", self._subtasks),
            ("GET", "/jobs/{job_id}/checkpoints/{trigger_id}", self._operation),
            ("POST", "/jobs/{job_id}/savepoints", self._trigger_savepoint),
            ("GET", "/jobs/{job_id}/savepoints/{trigger_id}", self._operation),
            ("POST", "/jobs/{job_id}/stop", self._stop),
        ]
        ours: list[tuple[str, str, Handler]] = [
            ("POST", "/pystate/jobs", self._submit),
            ("GET", "/pystate/jobs/{job_id}", self._driver),
            ("GET", "/pystate/jobs/{job_id}/{name:str}", self._output),
        ]
        ours_from_drivers: list[tuple[str, str, Handler]] = [("GET", "/pystate/jobs/{job_id}/progress", self._progress)]
        # a driver that hangs keeps its callers' threads; those who only read files must not wait for them
        driver_calls = CapacityLimiter(_DRIVER_CALLS)
        routes = []
        for prefix in ("", "/v1"):
            routes += [_route(method, prefix + path, handler, None) for method, path, handler in from_files]
            routes += [_route(method, prefix + path, handler, driver_calls) for method, path, handler in from_drivers]
        for own, limiter in ((ours_from_drivers, driver_calls), (ours, None)):
            routes += [_route(method, path, self._owner_only(handler), limiter) for method, path, handler in own]
        return routes

    # -- reading

    def _overview(self, _request: Request, _body: Body) -> Response:
        return JSONResponse(rest_messages.overview(job.status() for job in self._dispatcher.jobs()))

    def _config(self, _request: Request, _body: Body) -> Response:
        return JSONResponse(rest_messages.dashboard_config())

    def _jobs(self, _request: Request, _body: Body) -> Response:
        jobs = [{"id": job.job_id, "status": job.state().value} for job in self._dispatcher.jobs()]
        return JSONResponse({"jobs": jobs})

    def _jobs_overview(self, _request: Request, _body: Body) -> Response:
        now = now_ms()
        jobs = [rest_messages.job_summary(job.job_id, job.status(), now) for job in self._dispatcher.jobs()]
        return JSONResponse({"jobs": jobs})

    def _job(self, request: Request, _body: Body) -> Response:
        job = self._of(request)
        return JSONResponse(rest_messages.job_details(job.job_id, job.status(), now_ms()))

    def _status(self, request: Request, _body: Body) -> Response:
        return JSONResponse({"status": self._of(request).state().value})

    def _exceptions(self, request: Request, _body: Body) -> Response:
        most = _number(request, "maxExceptions", 20, low=1)
        return JSONResponse(rest_messages.exceptions(self._of(request).status(), most))

    def _execution_result(self, request: Request, _body: Body) -> Response:
        job = self._of(request)
        return JSONResponse(rest_messages.execution_result(job.job_id, job.status()))

    def _checkpoints(self, request: Request, _body: Body) -> Response:
        return JSONResponse(self._of(request).checkpoints.overview())

    def _checkpoint_details(self, request: Request, _body: Body) -> Response:
        return JSONResponse(self._of(request).checkpoints.details(request.path_params["checkpoint_id"]))

    def _subtasks(self, request: Request, _body: Body) -> Response:
        asked = request.path_params
        return JSONResponse(self._of(request).checkpoints.subtasks(asked["checkpoint_id"], asked["vertex_id"].lower()))

    def _checkpoint_config(self, request: Request, _body: Body) -> Response:
        job = self._of(request)
        found = job.status().get("checkpoint_config")
        if found is None:
            message = f"Checkpointing is not enabled for this job ({job.job_id})."
            raise CheckpointNotFoundError(message, hint="its configuration is known once it has been planned")
        return JSONResponse(found)

    def _operation(self, request: Request, _body: Body) -> Response:
        operation = self._of(request).operation(request.path_params["trigger_id"])
        return JSONResponse(rest_messages.operation_result(operation))

    # -- doing

    def _cancel(self, request: Request, _body: Body) -> Response:
        mode = request.query_params.get("mode", "cancel")
        if mode != "cancel":
            message = f"The mode {mode!r} is not known; it must be cancel."
            raise UsageError(message)
        self._of(request).cancel()
        return JSONResponse({}, status_code=202)

    def _trigger_savepoint(self, request: Request, body: Body) -> Response:
        request_id = self._of(request).trigger(
            "trigger_savepoint",
            _text_or_none(body, "triggerId"),
            target_directory=_directory(body, "target-directory"),
            cancel_job=_truth(body, "cancel-job"),
            format=_format(body),
            message=_message(body),
        )
        return JSONResponse({"request-id": request_id}, status_code=202)

    def _trigger_checkpoint(self, request: Request, body: Body) -> Response:
        kind = _text_or_none(body, "checkpointType") or "CONFIGURED"
        if kind not in ("CONFIGURED", "FULL", "INCREMENTAL"):
            message = f"The checkpoint type {kind!r} is not known; it must be CONFIGURED, FULL or INCREMENTAL."
            raise UsageError(message)
        request_id = self._of(request).trigger("trigger_checkpoint", _text_or_none(body, "triggerId"), full=kind == "FULL")
        return JSONResponse({"request-id": request_id}, status_code=202)

    def _stop(self, request: Request, body: Body) -> Response:
        request_id = self._of(request).trigger(
            "stop",
            _text_or_none(body, "triggerId"),
            target_directory=_directory(body, "targetDirectory"),
            drain=_truth(body, "drain"),
            format=_format(body),
            message=_message(body),
        )
        return JSONResponse({"request-id": request_id}, status_code=202)

    def _dispose(self, _request: Request, body: Body) -> Response:
        path = _directory(body, "savepoint-path")
        if path is None:
            message = "The field 'savepoint-path' is missing."
            raise UsageError(message)
        return JSONResponse({"request-id": self._disposals.trigger(path)})

    def _disposal(self, request: Request, _body: Body) -> Response:
        return JSONResponse(rest_messages.disposal_result(self._disposals.result(request.path_params["trigger_id"])))

    # -- ours

    def _submit(self, _request: Request, body: Body) -> Response:
        job_id = self._dispatcher.submit(Submission.from_json(body), environment_from_json(body))
        return JSONResponse({"job_id": job_id}, status_code=202)

    def _driver(self, request: Request, _body: Body) -> Response:
        job = self._of(request)
        record = job.record
        return JSONResponse(
            {
                "job_id": job.job_id,
                "pid": record.pid,
                "driver_running": not job.driver_is_gone,
                "exit_code": record.exit_code,
                "directory": str(job.directory.path),
                "log": str(job.directory.log),
            }
        )

    def _progress(self, request: Request, _body: Body) -> Response:
        return JSONResponse(rest_messages.progress(self._of(request).progress()))

    def _output(self, request: Request, _body: Body) -> Response:
        name = request.path_params["name"]
        if name not in ("stdout", "log"):
            raise HTTPException(404)
        data, ended = self._of(request).read_output(name, _number(request, "offset", 0), _OUTPUT_CHUNK)
        return Response(data, media_type="application/octet-stream", headers={"pystate-ended": str(ended).lower()})

    # -- inner workings

    def _of(self, request: Request) -> SupervisedJob:
        return self._dispatcher.job(request.path_params["job_id"])

    def _owner_only(self, handler: Handler) -> Handler:
        def checked(request: Request, body: Body) -> Response:
            if not is_authorized(request.headers, self._token):
                message = "This request needs the token of the job manager's home."
                raise UnauthorizedError(message, hint="set PYSTATE_HOME to the home of that job manager")
            return handler(request, body)

        return checked


def _route(method: str, path: str, handler: Handler, limiter: CapacityLimiter | None) -> Route:
    async def endpoint(request: Request) -> Response:
        # the flink client sends {} with its GETs, which is of no interest
        body = await _json_body(request) if method == "POST" else {}
        return await to_thread.run_sync(handler, request, body, limiter=limiter)

    return Route(path, endpoint, methods=[method], name=f"{method} {path}")


async def _json_body(request: Request) -> Body:
    data = await read_body(request.stream())
    try:
        body = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        message = f"The body of the request is not JSON: {error}."
        raise UsageError(message) from error
    if not isinstance(body, dict):
        message = "The body of the request must be a JSON object."
        raise UsageError(message)
    return body


def _number(request: Request, name: str, default: int, low: int = 0) -> int:
    text = request.query_params.get(name, str(default))
    # int() also takes "1_000" and digits of other scripts
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or int(text) < low:
        message = f"The parameter {name!r} must be a whole number from {low}."
        raise UsageError(message)
    return int(text)


def _text_or_none(body: Body, name: str) -> str | None:
    value = body.get(name)
    if value is not None and (not isinstance(value, str) or "\0" in value):
        message = f"The field {name!r} must be a text."
        raise UsageError(message)
    return value or None


def _truth(body: Body, name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        message = f"The field {name!r} must be true or false."
        raise UsageError(message)
    return bool(value)


def _directory(body: Body, name: str) -> str | None:
    value = _text_or_none(body, name)
    if value is not None and not value.startswith("/") and not _URL.match(value):
        message = f"The directory {value!r} must be an absolute path or a URL."
        raise UsageError(message, where=name)
    return value


def _message(body: Body) -> str | None:
    """Return what is to be said about a savepoint: a field of ours."""
    value = _text_or_none(body, "message")
    return None if value is None else check_message(value)


def _format(body: Body) -> str:
    value = _text_or_none(body, "formatType") or "CANONICAL"
    if value not in _FORMATS:
        message = f"The savepoint format {value!r} is not known; it must be one of {', '.join(_FORMATS)}."
        raise UsageError(message)
    return value


async def _answer_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, PystateError):
        raise error
    status = next((code for kind, code in _STATUS_CODES if isinstance(error, kind)), 500)
    return JSONResponse({"errors": [error.message], "pystate": error.to_dict()}, status_code=status)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = f"{request.method} {request.url.path}: {getattr(error, 'detail', error)}"
    return JSONResponse({"errors": [message]}, status_code=status)


async def _answer_unexpected(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, urlsplit(str(request.url)).path, exc_info=error)
    text = f"{type(error).__name__}: {error}"
    return JSONResponse({"errors": [text], "pystate": PystateError(text).to_dict()}, status_code=500)
