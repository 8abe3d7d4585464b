"""Passes requests to the dispatcher while this job manager leads; otherwise answers with the address of the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pystate.ops.jobmanager.high_availability.leader_election import Term
from pystate.ops.jobmanager.high_availability.lease_files import host_and_port
from pystate.ops.jobmanager.leadership import LEADS, LeadershipLostError
from pystate.ops.jobmanager.rest.rest_errors import answer_error, unauthorized
from pystate.ops.jobmanager.rest.status_answers import dashboard_config
from pystate.ops.jobmanager.web.request_guard import RequestGuard
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from pystate.ops.jobmanager.web.url_prefix import URL_PREFIX
from pystate.runtime.rest.cluster_messages import Leader, StandbyConfiguration
from pystate.runtime.rest.failure_messages import ErrorResponseBody, OurError

logger = logging.getLogger(__name__)

LEADER_ONLY_HEADER = "pystate-leader-only"
"""Asks a standby for nothing but its refusal, which sends a proxy on to the job manager that leads."""
_CONFIG_PATHS = ("/config", "/v1/config")
_READING = ("GET", "HEAD")


class LeaderGate:
    """The web application of a job manager that may be leader or standby.

    Args:
        leader: Returns the address of the leader, like `LeaseStore.leader`.
        address: The address the server listens on.
        instance: Random digits that identify this process.
        security: The authentication of requests, also at a standby: the address of the leader is protected, too.
    """

    def __init__(
        self, leader: Callable[[], dict[str, Any] | None], address: str, instance: str, security: RestSecurity
    ) -> None:
        self._leader = leader
        self._security = security
        self._instance = instance
        self._led: tuple[Term, ASGIApp] | None = None
        self._standby = RequestGuard(self._answer_as_standby, address, instance)

    def lead(self, term: Term, app: ASGIApp) -> None:
        """Serve requests with an application during a term."""
        self._led = (term, app)

    def follow(self) -> None:
        """Stop serving requests as leader."""
        self._led = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        led = self._led
        if led is None or not led[0].is_valid:
            await self._standby(scope, receive, send)
            return
        term, app = led
        # an answer without an end must not go on as the leader's when another one leads
        await app({**scope, LEADS: lambda: self._led is led and term.is_valid}, receive, send)

    async def _answer_as_standby(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        if not (self._security.allows(request.headers, owner_only=False) or self._security.is_proved(request.headers)):
            refusal = await answer_error(request, unauthorized(self._security))
            await refusal(scope, receive, send)
            return
        try:
            entry = await to_thread.run_sync(self._leader)
        except OSError as error:
            logger.warning("nobody can tell which job manager leads: %s", error)
            entry = None
        # the own entry stays until another one leads; clients must not be redirected in circles
        other = None if entry is None or entry["instance"] == self._instance else entry
        await self._answer(request, other)(scope, receive, send)

    def _answer(self, request: Request, leader: dict[str, Any] | None) -> Response:
        other = None if leader is None else host_and_port(leader)
        may_be_read = request.method in _READING and LEADER_ONLY_HEADER not in request.headers
        if may_be_read and request.url.path in _CONFIG_PATHS:
            shown = None if other is None or leader is None else Leader(address=other, instance=leader["instance"])
            return JSONResponse(StandbyConfiguration(**vars(dashboard_config()), pystate_leader=shown).to_plain())
        if leader is not None and may_be_read:
            query = f"?{request.url.query}" if request.url.query else ""
            location = f"{leader['scheme']}://{other}{request.scope.get(URL_PREFIX, '')}{request.url.path}{query}"
            return JSONResponse({}, status_code=307, headers={"Location": location})
        message = "This job manager does not lead."
        hint = f"call the leading one: -m {other}" if other else "try again in a moment: none leads yet"
        error = LeadershipLostError(message, hint=hint)
        text = f"{message} The leading one is at {other}." if other else f"{message} None does at the moment."
        refusal = ErrorResponseBody(errors=[text], pystate=OurError.from_plain(error.to_dict()))
        return JSONResponse(refusal.to_plain(), status_code=503)
