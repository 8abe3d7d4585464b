"""Requests of the job manager to itself: the routes' handlers, without a connection, in the name of the home's owner."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import parse_qsl

from pystate.ops.jobmanager.rest.route import RestContext, RestRequest, RestRoute, values_of
from pystate.runtime.rest.message import RestMessage

Message = TypeVar("Message", bound=RestMessage)


class OwnCalls:
    """Calls handlers on the caller's thread.

    Args:
        routes: All of them.
        context: The context of handlers.
    """

    def __init__(self, routes: Iterable[RestRoute], context: RestContext) -> None:
        self._context = context
        ordered = sorted(routes, key=lambda route: route.precedence)
        self._routes = [
            (route.method, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path)), route) for route in ordered
        ]

    def get(self, path: str, kind: type[Message]) -> Message:
        """Return the resource at a path."""
        return self._call("GET", path, None, kind)

    def post(self, path: str, body: RestMessage, kind: type[Message]) -> Message:
        """Send a POST and return the answer."""
        return self._call("POST", path, body, kind)

    def patch(self, path: str) -> None:
        """Send a PATCH without a body."""
        self._call("PATCH", path, None, RestMessage)

    def delete(self, path: str) -> None:
        """Send a DELETE."""
        self._call("DELETE", path, None, RestMessage)

    def _call(self, method: str, target: str, body: RestMessage | None, kind: type[Message]) -> Message:
        path, _, query = target.partition("?")
        verb = (one for one in self._routes if one[0] == method)
        route, found = next((route, match) for _, pattern, route in verb if (match := pattern.fullmatch(path)))
        fields = {} if body is None else body.to_plain()
        values = values_of(route, found.groupdict(), dict(parse_qsl(query)), fields)
        answer = route.handler(RestRequest(self._context, values, fields, is_ours=True))
        if isinstance(answer, kind):
            return answer
        assert isinstance(answer, dict)  # noqa: S101 - what a driver has answered
        return kind.from_plain(answer)
