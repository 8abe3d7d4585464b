"""Errors as REST answers: status codes, and bodies like Flink's."""

from __future__ import annotations

import json
import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import (
    JobNotFoundError,
    JobTerminatedError,
    NoSnapshotError,
    PystateError,
    SnapshotError,
    StorageError,
    UsageError,
)
from pystate.common.files.refused_files import NoSpaceError, is_of_files, refused
from pystate.common.text.bounded_text import bounded_text
from pystate.core.queryable.outcomes import QueryOutcome
from pystate.core.queryable.query_errors import (
    AnswerTooLargeError,
    BadQueryError,
    QueriesOverloadedError,
    QueryableStateError,
    QueryForbiddenError,
    UnknownKeyOrNamespaceError,
    UnknownKvStateLocationError,
    UnknownLocationError,
    VersionGoneError,
    WrongKeyTypeError,
    WrongNamespaceError,
)
from pystate.ops.jobmanager.disposal.savepoint_disposal import DisposalNotFoundError, TooManyDisposalsError
from pystate.ops.jobmanager.disposal.storage_threads import StorageSilentError
from pystate.ops.jobmanager.drivers.driver_gateway import DriverUnreachableError
from pystate.ops.jobmanager.leadership import LeadershipLostError
from pystate.ops.jobmanager.rescalings import RescalingNotFoundError, RescalingRefusedError
from pystate.ops.jobmanager.resubmission import NotKeptError, SuccessorThereError
from pystate.ops.jobmanager.supervision.cached_operations import OperationNotFoundError, RequestRefusedError
from pystate.ops.jobmanager.supervision.job_checkpoints import CheckpointNotFoundError
from pystate.ops.jobmanager.web.request_guard import RequestTooLargeError, RequestTooSlowError
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from pystate.runtime.job_folder.registration import RegistrationRefusedError, SecretRefusedError
from pystate.runtime.logs.log_reader import LogGoneError
from pystate.runtime.rest.failure_messages import ErrorResponseBody, OurError

logger = logging.getLogger(__name__)

CLIENT_HEADER = "pystate-client"
"""The header of requests of our own client, which gets errors with their place and hint."""


_QUERIES = "/queryable-state"
"""What the paths of queries have after the job."""


class UnauthorizedError(PystateError):
    """The request isn't authenticated."""


class NotFoundError(PystateError):
    """The resource of a path doesn't exist."""


_OF_QUERIES: dict[type[PystateError], int] = {
    UnknownKvStateLocationError: 404,
    UnknownKeyOrNamespaceError: 404,
    WrongKeyTypeError: 400,
    WrongNamespaceError: 400,
    BadQueryError: 400,
    QueryForbiddenError: 403,
    VersionGoneError: 409,
    AnswerTooLargeError: 413,
    UnknownLocationError: 503,
    QueriesOverloadedError: 503,
}

STATUS_CODES: dict[type[PystateError], int] = {
    UsageError: 400,
    UnauthorizedError: 401,
    RequestRefusedError: 400,
    JobNotFoundError: 404,
    OperationNotFoundError: 404,
    CheckpointNotFoundError: 404,
    DisposalNotFoundError: 404,
    NotFoundError: 404,
    NotKeptError: 404,
    JobTerminatedError: 409,
    RegistrationRefusedError: 409,
    SecretRefusedError: 409,
    RescalingNotFoundError: 404,
    RescalingRefusedError: 409,
    SuccessorThereError: 409,
    RequestTooSlowError: 408,
    RequestTooLargeError: 413,
    DriverUnreachableError: 503,
    TooManyDisposalsError: 503,
    LeadershipLostError: 503,
    LogGoneError: 416,
    NoSpaceError: 507,
    NoSnapshotError: 404,
    StorageSilentError: 503,
    StorageError: 503,
    SnapshotError: 422,
    **_OF_QUERIES,
}
"""What errors answer; others answer 500."""


class Json(JSONResponse):
    """JSON in ASCII: strings of a job may contain what UTF-8 can't encode."""

    def render(self, content: Any) -> bytes:
        """Return the bytes."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def unauthorized(security: RestSecurity) -> UnauthorizedError:
    """Return the answer to an unauthenticated request."""
    if security.token is not None:
        message = "This job manager asks for a token."
        return UnauthorizedError(message, hint=f"set {SecurityOptions.REST_TOKEN_FILE.key} to the file that holds it")
    message = "This request needs the token of the job manager's home."
    return UnauthorizedError(message, hint="set PYSTATE_HOME to the home of that job manager")


def place_unauthorized(field: str) -> UnauthorizedError:
    """Return the answer to an unauthenticated request that names a place.

    Args:
        field: The field of the request's body that names it.
    """
    option = SecurityOptions.REST_ALLOW_UNAUTHENTICATED.key
    message = (
        f"A request that names a place ({field}) needs the token of the job manager's home, unless {option} = true lets "
        "everybody who reaches its port name one."
    )
    hint = "set PYSTATE_HOME to the home of that job manager, or leave the directory out for the configured one"
    return UnauthorizedError(message, hint=hint)


async def answer_error(request: Request, error: Exception) -> Response:
    """Answer a `PystateError`."""
    if not isinstance(error, PystateError):
        raise error
    status = _status_code(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return Json(_body(request, error), status_code=status, headers=headers)


async def answer_http_error(request: Request, error: Exception) -> Response:
    """Answer a request that no route serves."""
    status, headers = (error.status_code, error.headers) if isinstance(error, HTTPException) else (500, None)
    detail = "Not found" if status == 404 else f"{request.method}: {getattr(error, 'detail', error)}"
    return Json(
        ErrorResponseBody(errors=[bounded_text(f"{detail}: {request.scope['path']}")]).to_plain(),
        status_code=status,
        headers=headers,
    )


async def answer_gone_client(_request: Request, _error: Exception) -> Response:
    """Answer a client that disconnected before its request was complete; nobody reads it, and it isn't an error."""
    return Response(status_code=400)


async def answer_error_of_the_machine(request: Request, error: Exception) -> Response:
    """Answer an error of files, such as a full disk."""
    if not (isinstance(error, OSError) and is_of_files(error)):
        raise error
    logger.warning("%s %s failed: %s", request.method, request.scope["path"], error)
    shown = refused(error)
    return Json(_body(request, shown), status_code=_status_code(shown))


async def answer_unexpected(request: Request, error: Exception) -> Response:
    """Answer an unexpected error: a bug."""
    logger.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    return Json(_body(request, PystateError(f"{type(error).__name__}: {error}")), status_code=500)


def _status_code(error: PystateError) -> int:
    return next((code for kind, code in STATUS_CODES.items() if isinstance(error, kind)), 500)


def _body(request: Request, error: PystateError) -> dict[str, Any]:
    """Return an error as JSON. Flink's client expects a single field, so pystate's own is added only on request."""
    message = bounded_text(error.message)
    outcome = _outcome(request, error)
    if CLIENT_HEADER in request.headers:
        return ErrorResponseBody(errors=[message], outcome=outcome, pystate=OurError.from_plain(_bounded(error))).to_plain()
    if isinstance(error, JobNotFoundError) and "job_id" in request.path_params:
        # Flink's words: its Kubernetes operator looks for them
        message = f"Job {request.path_params['job_id'].lower()} not found"
    return ErrorResponseBody(errors=[message], outcome=outcome).to_plain()


def _bounded(error: PystateError) -> dict[str, Any]:
    plain = error.to_dict()
    return {**plain, **{name: bounded_text(plain[name]) for name in ("message", "where", "hint") if plain[name]}}


def _outcome(request: Request, error: PystateError) -> str | None:
    """Return the machine-readable reason why state can't be read; None if it isn't a query."""
    if isinstance(error, QueryableStateError):
        return error.outcome.value
    if _QUERIES not in request.scope["path"]:
        return None
    if isinstance(error, JobNotFoundError):
        return QueryOutcome.UNKNOWN_JOB.value
    return QueryOutcome.BAD_REQUEST.value if isinstance(error, UsageError) else None
