"""The routes with which programs that run their jobs themselves register these."""

from __future__ import annotations

from typing import Any

from pystate.common.errors import UsageError
from pystate.common.files.home import parse_job_id
from pystate.ops.jobmanager.rest.parameters import Parameter, required_text
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import TEXT
from pystate.ops.jobmanager.web.request_guard import MAX_BODY_BYTES
from pystate.runtime.rest.registration_messages import ProvenMessage, RegistrationChallenge


def _job_id(name: str, value: Any) -> str:
    return parse_job_id(required_text(name, value))


def _long_text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isascii():
        message = f"The field {name!r} must be a text in ASCII, as JSON can be."
        raise UsageError(message)
    return value


_HEX: dict[str, Any] = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
_JOB = Parameter("job_id", "The job, 32 hex digits.", _HEX, _job_id, required=True)
_INCARNATION = Parameter("incarnation", "Random digits of this start of the program.", TEXT, required_text, required=True)
_MESSAGE = Parameter("message", "What the program tells: JSON as text.", TEXT, _long_text, required=True)
_PROOF = Parameter("proof", "HMAC-SHA256 of it, with the token as key.", TEXT, required_text, required=True)


def _challenge(request: RestRequest) -> RegistrationChallenge:
    request.dispatcher.registered.check(request[_JOB], request[_INCARNATION])
    return request.context.registrations.challenge()


def _register(request: RestRequest) -> ProvenMessage:
    said = ProvenMessage(message=request[_MESSAGE], proof=request[_PROOF])
    return request.context.registrations.register(said, request.dispatcher.registered)


ROUTES = (
    RestRoute(
        "POST",
        "/pystate/registrations/challenges",
        _challenge,
        "Ask what the token is to be proved over, for a job that a program runs itself.",
        RegistrationChallenge,
        status=201,
        body=(_JOB, _INCARNATION),
        asks_driver=True,
        owner_only=True,
        is_proved=True,
        refusals=(409,),
    ),
    RestRoute(
        "POST",
        "/pystate/registrations",
        _register,
        "Register such a job, or tell that its program lives and what has changed.",
        ProvenMessage,
        body=(_MESSAGE, _PROOF),
        max_body=MAX_BODY_BYTES,
        asks_driver=True,
        owner_only=True,
        is_proved=True,
        refusals=(409,),
    ),
)
