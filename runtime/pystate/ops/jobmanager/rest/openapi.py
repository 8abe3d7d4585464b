"""The OpenAPI document, generated from the routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pystate
from pystate.ops.jobmanager.rest.parameters import Parameter
from pystate.ops.jobmanager.rest.route import RestRequest, RestRoute
from pystate.ops.jobmanager.rest.schemas import Schema, schema_of
from pystate.runtime.rest.failure_messages import ErrorResponseBody

OPENAPI_VERSION = "3.1.0"

_JSON = "application/json"
_ERRORS_REF = {"$ref": "#/components/schemas/Errors"}
_REFUSALS = {
    400: "The request is malformed.",
    401: "The request does not have the token it needs.",
    403: "The request was sent by a page of another site, or to a name that isn't this job manager's.",
    404: "There is no such thing.",
    408: "The body of the request has not arrived in time.",
    409: "The job has ended, so that it can't be done any more.",
    413: "The request is too large.",
    414: "The path and the query are too long.",
    422: "The snapshot is damaged, can't be read here, or has nothing of that name.",
    431: "The headers are too long.",
    503: "The job's driver can't be reached at the moment, or too much waits already.",
    507: "The job manager's disk is full.",
}


def openapi_document(routes: Iterable[RestRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in sorted(routes, key=lambda route: (route.path, route.method)):
        for path in route.paths:
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, path)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "pystate job manager",
            "version": pystate.__version__,
            "description": "The REST of Flink's job manager, and below /pystate what Flink has none for. "
            "Every path of Flink's is served below /v1 too.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Errors": schema_of(ErrorResponseBody)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def openapi_route(routes: Iterable[RestRoute]) -> RestRoute:
    """Return the route that serves the document of all routes, including itself."""

    def serve(_request: RestRequest) -> dict[str, Any]:
        return document

    route = RestRoute("GET", "/pystate/openapi.json", serve, "All routes, described for programs.", Any, is_public=True)
    document = openapi_document([*routes, route])
    return route


def _operation(route: RestRoute, path: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route, path),
        "summary": route.summary,
        "parameters": [
            *(_parameter(parameter, "path") for parameter in route.path_parameters),
            *(_parameter(parameter, "query") for parameter in route.query),
        ],
        "responses": _responses(route),
        "security": _security(route),
    }
    if route.body is not None:
        operation["requestBody"] = {"required": bool(_required(route)), "content": {_JSON: {"schema": _body(route)}}}
    return operation


def _operation_id(route: RestRoute, path: str) -> str:
    words = [word.strip("{}") for word in path.replace("-", "_").replace(".", "_").split("/") if word]
    return "_".join([route.method.lower(), *words])


def _parameter(parameter: Parameter[Any], place: str) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": place,
        "required": parameter.required,
        "description": parameter.description,
        "schema": parameter.schema,
    }


def _required(route: RestRoute) -> list[str]:
    return [field.name for field in route.body or () if field.required]


def _body(route: RestRoute) -> Schema:
    properties = {field.name: {"description": field.description, **field.schema} for field in route.body or ()}
    schema: Schema = {"type": "object", "properties": properties}
    required = _required(route)
    return {**schema, "required": required} if required else schema


def _security(route: RestRoute) -> list[dict[str, list[str]]]:
    if route.is_public:
        return []
    # without the option for a token most routes need none, which an empty entry expresses
    return [{"token": []}] if route.owner_only else [{"token": []}, {}]


def _responses(route: RestRoute) -> dict[str, Any]:
    content = {route.media_type: {"schema": _answer(route)}}
    responses: dict[str, Any] = {str(route.status): {"description": route.summary, "content": content}}
    for status in sorted(_possible_refusals(route)):
        responses[str(status)] = {"description": _REFUSALS[status], "content": {_JSON: {"schema": _ERRORS_REF}}}
    return responses


def _answer(route: RestRoute) -> Schema:
    if route.response is not None:
        return route.response
    return {"type": "string"} if route.media_type.startswith("text/") else {}


def _possible_refusals(route: RestRoute) -> set[int]:
    possible = {403, 414, 431, *route.refusals}
    if not route.is_public:
        possible.add(401)
    if route.path_parameters:
        possible |= {400, 404}
    if route.query:
        possible.add(400)
    if route.body is not None:
        possible |= {400, 408, 413}
    if route.asks_driver:
        possible.add(503)
    return possible
