"""The routes of REST, and the dispatch of requests to their handlers.

Blocking work runs on threads, so that a slow driver doesn't block other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pystate.common.errors import PystateError
from pystate.common.text.plain_data import to_plain
from pystate.ops.jobmanager.disposal.storage_threads import StorageThreads
from pystate.ops.jobmanager.rest.json_body import parse_body
from pystate.ops.jobmanager.rest.openapi import openapi_route
from pystate.ops.jobmanager.rest.parameters import check_spelling
from pystate.ops.jobmanager.rest.rest_errors import (
    CLIENT_HEADER,
    Json,
    answer_error,
    answer_error_of_the_machine,
    answer_gone_client,
    answer_http_error,
    answer_unexpected,
    place_unauthorized,
    unauthorized,
)
from pystate.ops.jobmanager.rest.route import RestContext, RestRequest, RestRoute, values_of
from pystate.ops.jobmanager.rest.routes import checkpoint_routes as checkpoints
from pystate.ops.jobmanager.rest.routes import cluster_routes as cluster
from pystate.ops.jobmanager.rest.routes import job_manager_routes as job_manager
from pystate.ops.jobmanager.rest.routes import job_routes as jobs
from pystate.ops.jobmanager.rest.routes import metric_routes as metrics
from pystate.ops.jobmanager.rest.routes import pystate_jobs
from pystate.ops.jobmanager.rest.routes import query_routes as queryable_state
from pystate.ops.jobmanager.rest.routes import registration_routes as registrations
from pystate.ops.jobmanager.rest.routes import rescaling_routes as rescaling
from pystate.ops.jobmanager.rest.routes import resubmission_routes as resubmission
from pystate.ops.jobmanager.rest.routes import savepoint_routes as savepoints
from pystate.ops.jobmanager.rest.routes import snapshot_routes as snapshots
from pystate.ops.jobmanager.web.request_guard import read_body
from pystate.ops.jobmanager.web.rest_security import RestSecurity

_DESCRIBED: tuple[RestRoute, ...] = (
    *cluster.ROUTES,
    *job_manager.ROUTES,
    *jobs.ROUTES,
    *checkpoints.ROUTES,
    *metrics.ROUTES,
    *savepoints.ROUTES,
    *snapshots.ROUTES,
    *pystate_jobs.ROUTES,
    *registrations.ROUTES,
    *rescaling.ROUTES,
    *resubmission.ROUTES,
    *queryable_state.ROUTES,
)
# a module with further routes has its own tuple, and a line above
ROUTES = (*_DESCRIBED, openapi_route(_DESCRIBED))
"""All routes."""

_DRIVER_CALLS = 64
_STORAGE_THREADS = 8
_STORAGE_SECONDS = 120.0


HANDLERS = {
    PystateError: answer_error,
    HTTPException: answer_http_error,
    ClientDisconnect: answer_gone_client,
    OSError: answer_error_of_the_machine,  # not left to the one below: what it answers is raised once more, into the log
    Exception: answer_unexpected,
}
"""What answers errors."""


def rest_routes(context: RestContext, security: RestSecurity) -> list[BaseRoute]:
    """Return all routes.

    Args:
        context: The context of handlers.
        security: The authentication of requests.
    """
    return _starlette_routes(ROUTES, context, security)


def _starlette_routes(routes: Iterable[RestRoute], context: RestContext, security: RestSecurity) -> list[BaseRoute]:
    by_path: dict[str, dict[str, RestRoute]] = {}
    for route in sorted(routes, key=lambda route: route.precedence):
        for path in route.paths:
            by_path.setdefault(path, {})[route.method] = route
    # a hanging driver blocks its callers' threads; requests that only read files must not wait for these
    driver_calls = CapacityLimiter(_DRIVER_CALLS)
    storage = StorageThreads("snapshots", _STORAGE_THREADS, _STORAGE_SECONDS)
    return [_starlette_route(path, verbs, context, security, driver_calls, storage) for path, verbs in by_path.items()]


def _starlette_route(
    path: str,
    verbs: Mapping[str, RestRoute],
    context: RestContext,
    security: RestSecurity,
    driver_calls: CapacityLimiter,
    storage: StorageThreads,
) -> Route:
    async def endpoint(request: Request) -> Response:
        route = verbs["GET" if request.method == "HEAD" else request.method]
        allowed = route.is_public or security.allows(request.headers, owner_only=route.owner_only)
        if not allowed and not (route.is_proved and security.is_proved(request.headers)):
            raise unauthorized(security)
        # the flink client sends {} with its GETs, which is ignored
        body = {} if route.body is None else await _json_body(request, route.max_body)
        check_spelling(request.query_params, body, route.query, route.body or ())
        place = next((field.name for field in route.body or () if field.names_place and body.get(field.name)), None)
        if place is not None and not security.allows_places(request.headers):
            raise place_unauthorized(place)
        if route.reads_storage:
            return await _on_storage(storage, partial(_serve, route, context, request, body), f"GET {path}")
        limiter = driver_calls if route.asks_driver else None
        return await to_thread.run_sync(_serve, route, context, request, body, limiter=limiter)

    return Route(path, endpoint, methods=list(verbs))


async def _on_storage(threads: StorageThreads, serve: Callable[[], Response], what: str) -> Response:
    """Serve a request on a thread that is given up when its storage hangs, as one of a lost server does."""
    answers: list[Response] = []
    done = asyncio.wrap_future(threads.submit(lambda: answers.append(serve()), what))
    while not done.done():
        await asyncio.wait({done}, timeout=1.0)
        threads.look()
    await done
    return answers[0]


def _serve(route: RestRoute, context: RestContext, request: Request, body: dict[str, Any]) -> Response:
    values = values_of(route, request.path_params, request.query_params, body)
    is_ours = CLIENT_HEADER in request.headers
    answer = route.handler(RestRequest(context, values, body, is_ours=is_ours))
    return answer if isinstance(answer, Response) else Json(to_plain(answer), status_code=route.status)


async def _json_body(request: Request, most: int) -> dict[str, Any]:
    return parse_body(await read_body(request.stream(), most))
