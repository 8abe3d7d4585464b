"""What the job manager serves to browsers beside REST: the pages, log-ins, and answers that follow what changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pystate.common.errors import UsageError
from pystate.common.text.bounded_text import shown
from pystate.ops.jobmanager.dashboard.assets import INDEX, answer_asset
from pystate.ops.jobmanager.dashboard.sessions import PAGE_KEY, SESSION_SECONDS, DashboardSessions, page_key
from pystate.ops.jobmanager.dashboard.watches import MOST_TARGETS, TooManyStreamsError, Watches, ask_app
from pystate.ops.jobmanager.leadership import LEADS
from pystate.ops.jobmanager.rest.json_body import parse_body
from pystate.ops.jobmanager.rest.parameters import text_or_none
from pystate.ops.jobmanager.rest.rest_errors import Json, unauthorized
from pystate.ops.jobmanager.web.request_guard import MAX_SMALL_BODY_BYTES, WATCH, read_body
from pystate.ops.jobmanager.web.rest_security import RestSecurity
from pystate.ops.jobmanager.web.url_prefix import URL_PREFIX

SESSION = "/pystate/session"
FIGURES = "/pystate/jobs/figures"
_NOT_STORED = {"Cache-Control": "no-store"}


def dashboard_routes(rest: ASGIApp, security: RestSecurity, sessions: DashboardSessions) -> list[Route]:
    """Return the routes.

    Args:
        rest: Answers what is watched.
        security: The authentication of requests.
        sessions: The log-ins.
    """
    watches = Watches(
        lambda target: ask_app(rest, target, _owner(security)), asks_all=lambda target: target.startswith(FIGURES)
    )

    async def page(request: Request) -> Response:
        answer = answer_asset(request, request.path_params.get("name", INDEX))
        if answer is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return answer

    async def session(request: Request) -> Response:
        """Tell whether the page is logged in, log it in, or log it out."""
        if request.method == "POST":
            return await _log_in(request, security, sessions)
        if request.method == "DELETE":
            sessions.log_out(request.headers, page_key(request.scope))
            answer = Response(status_code=HTTPStatus.NO_CONTENT, headers=_NOT_STORED)
            answer.delete_cookie(sessions.cookie, path=_cookie_path(request), httponly=True, samesite="strict")
            return answer
        logged_in = security.allows(request.headers, owner_only=True)
        return Json({"logged-in": logged_in, "token-needed": security.token is not None}, headers=_NOT_STORED)

    async def watch(request: Request) -> Response:
        targets = _targets(request)
        key = request.scope.get(PAGE_KEY)

        leads = request.scope.get(LEADS, lambda: True)

        def is_allowed() -> bool:
            return leads() and (key is None or sessions.token(request.headers, key) is not None)

        with ExitStack() as stack:
            try:
                stack.enter_context(watches.place(owner=security.allows(request.headers, owner_only=True)))
            except TooManyStreamsError:
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, "too many streams are open") from None
            stream = watches.stream(targets, lambda target: ask_app(rest, target, request.headers.raw), is_allowed)
            return _Held(stream, stack.pop_all())

    return [
        Route("/", page),
        Route("/ui/{name:path}", page),
        Route(SESSION, session, methods=["GET", "POST", "DELETE"]),
        Route(WATCH, watch),
    ]


class _Held(StreamingResponse):
    """A stream that holds its place until it has ended, however it ends."""

    def __init__(self, stream: AsyncIterator[bytes], place: ExitStack) -> None:
        super().__init__(stream, media_type="text/event-stream", headers={**_NOT_STORED, "X-Accel-Buffering": "no"})
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            if scope["method"] == "HEAD":
                self.body_iterator = _nothing()
            await super().__call__(scope, receive, send)


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


async def _log_in(request: Request, security: RestSecurity, sessions: DashboardSessions) -> Response:
    body = parse_body(await read_body(request.stream(), MAX_SMALL_BODY_BYTES))
    given = {name: text_or_none(name, body.get(name)) for name in ("token", "code")}
    opened = sessions.log_in(token=given["token"], code=given["code"])
    if opened is None:
        raise unauthorized(security)
    answer = Json({"page": opened.key}, headers=_NOT_STORED)
    answer.set_cookie(
        sessions.cookie,
        opened.cookie,
        max_age=int(SESSION_SECONDS),
        path=_cookie_path(request),
        secure=security.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


def _cookie_path(request: Request) -> str:
    """Return where browsers send the cookie to: not to other servers behind the same proxy, where that tells the path."""
    return f"{request.scope.get(URL_PREFIX, '')}/"


def _targets(request: Request) -> list[str]:
    targets = list(dict.fromkeys(request.query_params.getlist("path")))
    if not 1 <= len(targets) <= MOST_TARGETS:
        message = f"From 1 to {MOST_TARGETS} paths can be watched at a time; these are {len(targets)}."
        raise UsageError(message)
    for target in targets:
        if not target.startswith("/") or target.startswith(WATCH) or not target.isascii():
            message = f"The path {shown(target)} can't be watched; it must be one of REST, as in GET."
            raise UsageError(message)
    return targets


def _owner(security: RestSecurity) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {security.home_token}".encode())]
