"""The web application of a job manager: REST and the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from pystate.common.configuration.configuration import Configuration
from pystate.ops.jobmanager.dashboard.dashboard_routes import dashboard_routes
from pystate.ops.jobmanager.dashboard.sessions import DashboardSessions, SessionTokens
from pystate.ops.jobmanager.disks import Disks
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.disposal.savepoint_disposal import SavepointDisposals
from pystate.ops.jobmanager.registration.registrations import Registrations
from pystate.ops.jobmanager.rescalings import Rescalings
from pystate.ops.jobmanager.rest.app import HANDLERS, ROUTES, rest_routes
from pystate.ops.jobmanager.rest.own_calls import OwnCalls
from pystate.ops.jobmanager.rest.route import RestContext
from pystate.ops.jobmanager.web.request_guard import RequestGuard
from pystate.ops.jobmanager.web.rest_security import RestSecurity


def create_app(
    dispatcher: Dispatcher,
    *,
    address: str,
    security: RestSecurity,
    instance: str,
    configuration: Mapping[str, str] | None = None,
    shut_down: Callable[[], None] = lambda: None,
) -> ASGIApp:
    """Return the application.

    Args:
        dispatcher: The jobs.
        address: The address the server listens on.
        security: The authentication of requests.
        instance: Random digits that identify this process.
        configuration: The effective options, for display.
        shut_down: Makes the job manager end soon.
    """
    settings = configuration or {}
    disks = Disks(dispatcher, Configuration(dict(settings)))
    sessions = DashboardSessions(security, instance)
    disposals = SavepointDisposals(dispatcher.home)
    rescalings = Rescalings(dispatcher, lambda: OwnCalls(ROUTES, context))
    context = RestContext(
        dispatcher,
        disposals,
        rescalings,
        disks,
        settings,
        shut_down,
        login_code=sessions.code,
        registrations=Registrations(security.tokens, instance),
    )
    dispatcher.each_recovered(rescalings.go_on)
    rest = rest_routes(context, security)
    pages = dashboard_routes(_routed(rest), security, sessions)
    return RequestGuard(SessionTokens(_routed([*pages, *rest]), sessions), address, instance)


def _routed(routes: list[BaseRoute]) -> Starlette:
    routed = Starlette(routes=routes, exception_handlers=cast(Any, HANDLERS))
    routed.router.redirect_slashes = False
    return routed
