"""Definition of a route: path, parameters, answer, and handler. The OpenAPI document is generated from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from starlette.responses import Response

from pystate.common.errors import UsageError
from pystate.ops.jobmanager.disks import Disks
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.disposal.savepoint_disposal import SavepointDisposals
from pystate.ops.jobmanager.registration.registrations import Registrations
from pystate.ops.jobmanager.rescalings import Rescalings
from pystate.ops.jobmanager.rest.failed_triggers import FailedTriggers
from pystate.ops.jobmanager.rest.parameters import JOB_ID, PATH_PARAMETERS, Parameter
from pystate.ops.jobmanager.rest.schemas import Schema, schema_of
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.ops.jobmanager.web.request_guard import MAX_SMALL_BODY_BYTES
from pystate.runtime.rest.message import RestMessage

T = TypeVar("T")

_PLACEHOLDER = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class RestContext:
    """The context of handlers; one per job manager.

    Attributes:
        dispatcher: The jobs.
        disposals: The deletions of savepoints.
        rescalings: The rescales that this job manager does itself.
        configuration: The options of the job manager, as text.
        shut_down: Makes the job manager end soon.
        failed_triggers: The failed triggers.
        disks: The free space of disks.
        login_code: Returns a code that one log-in at the dashboard may use.
        registrations: The registrations of programs of other homes.
    """

    dispatcher: Dispatcher
    disposals: SavepointDisposals
    rescalings: Rescalings
    disks: Disks
    configuration: Mapping[str, str] = field(default_factory=dict)
    shut_down: Callable[[], None] = lambda: None
    failed_triggers: FailedTriggers = field(default_factory=FailedTriggers)
    login_code: Callable[[], str] = lambda: ""
    registrations: Registrations = field(default_factory=Registrations)


class RestRequest:
    """A request with validated parameters: `request[PARAMETER]` is the value.

    Args:
        context: The context of handlers.
        values: The validated values by parameter.
        body: Its JSON body.
        is_ours: Whether it is from pystate's client, which shows the answer to users.
    """

    def __init__(
        self, context: RestContext, values: Mapping[Parameter[Any], Any], body: dict[str, Any], *, is_ours: bool = False
    ) -> None:
        self.context = context
        self.body = body
        self.is_ours = is_ours
        self._values = values

    def __getitem__(self, parameter: Parameter[T]) -> T:
        value: T = self._values[parameter]
        return value

    @property
    def dispatcher(self) -> Dispatcher:
        """The jobs."""
        return self.context.dispatcher

    @property
    def job(self) -> SupervisedJob:
        """The job of the path.

        Raises:
            JobNotFoundError: There is no job with this id.
        """
        return self.dispatcher.job(self[JOB_ID])


Handler = Callable[[RestRequest], "RestMessage | Sequence[RestMessage] | dict[str, Any] | Response"]
"""Serves a request on a thread; returns the answer, as its JSON where it comes so from the driver, or what is no JSON."""


def values_of(
    route: RestRoute, path: Mapping[str, Any], query: Mapping[str, Any], body: Mapping[str, Any]
) -> dict[Parameter[Any], Any]:
    """Return the validated values of a request.

    Args:
        route: What it asks for.
        path: What is in its path, by name.
        query: What is in its query.
        body: The fields of its body.

    Raises:
        UsageError: One is missing, or malformed.
    """
    values: dict[Parameter[Any], Any] = {}
    for given, parameters in ((path, route.path_parameters), (query, route.query), (body, route.body or ())):
        for parameter in parameters:
            value = values[parameter] = parameter.read(parameter.name, given.get(parameter.name))
            if value is None and parameter.required:
                message = f"The field {parameter.name!r} is missing."
                raise UsageError(message)
    return values


@dataclass(frozen=True)
class RestRoute:
    """One route.

    Args:
        method: The HTTP method.
        path: The path, with placeholders of `PATH_PARAMETERS`. Those outside of `/pystate/` are served below `/v1`, too.
        handler: Serves the request.
        summary: What it does, in one line.
        answer: The class of its answer, or a list of one; None if it isn't JSON.
        status: The status code of the answer.
        query: The parameters of the query.
        body: The fields of the body; None without a body.
        max_body: The maximum size of the body in bytes.
        media_type: The media type of the answer.
        asks_driver: Whether it waits for the job's driver. Such requests have their own threads.
        reads_storage: Whether it reads where snapshots are, which may hang. Such requests have their own threads and an end.
        owner_only: Whether it needs the token of the home even if REST needs none.
        is_public: Whether it never needs a token.
        is_proved: Whether a proof of the token does in place of the token itself.
        refusals: Its further status codes.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any
    status: int = 200
    query: tuple[Parameter[Any], ...] = ()
    body: tuple[Parameter[Any], ...] | None = None
    max_body: int = MAX_SMALL_BODY_BYTES
    media_type: str = "application/json"
    asks_driver: bool = False
    reads_storage: bool = False
    owner_only: bool = False
    is_public: bool = False
    is_proved: bool = False
    refusals: tuple[int, ...] = ()

    @property
    def path_parameters(self) -> tuple[Parameter[Any], ...]:
        """The parameters of the path, in order."""
        return tuple(PATH_PARAMETERS[name] for name in _PLACEHOLDER.findall(self.path))

    @cached_property
    def response(self) -> Schema | None:
        """The schema of its answer; None if it isn't JSON."""
        return None if self.answer is None else schema_of(self.answer)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths it is served at."""
        return (self.path,) if self.path.startswith("/pystate/") else (self.path, f"/v1{self.path}")

    @property
    def precedence(self) -> tuple[bool, ...]:
        """The sort key of routes, by which a fixed word takes precedence over a placeholder."""
        return tuple(segment.startswith("{") for segment in self.path.split("/"))
