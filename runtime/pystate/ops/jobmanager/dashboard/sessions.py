"""Log-ins of browsers: cookies that stand for a token, kept in the memory of one job manager."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from pystate.common.bounded_dict import BoundedDict
from pystate.ops.jobmanager.web.request_guard import WATCH
from pystate.ops.jobmanager.web.rest_security import RestSecurity

T = TypeVar("T")

SESSION_SECONDS = 12 * 3600.0
CODE_SECONDS = 120.0
MOST_SESSIONS = 256
PAGE_HEADER = "pystate-dashboard"
"""The header with the page's key."""
PAGE_PARAMETER = "page"
"""The page's key in the query of `WATCH`: browsers send no headers of a page's choice for streams."""
PAGE_KEY = "pystate.page"
"""The page's key in the scope of requests that a session has given their token."""
_OWN_SITES = ("same-origin", "none")
"""What browsers say of requests by the page itself, and of addresses that a person typed."""


class _Expiring(Generic[T]):
    """Secrets with a value each, bounded in number and in time; the oldest ones go first."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._known: BoundedDict[str, T] = BoundedDict(MOST_SESSIONS, seconds, clock)
        self._lock = threading.Lock()

    def add(self, value: T) -> str:
        """Return a new secret for a value."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._known.put(secret, value)
        return secret

    def get(self, secret: str) -> T | None:
        """Return the value of a secret; None if it is unknown or has expired."""
        with self._lock:
            return self._known.get(secret)

    def pop(self, secret: str) -> T | None:
        """Forget a secret; return its value, None if it was unknown or had expired."""
        with self._lock:
            value = self._known.get(secret)
            self._known.pop(secret)
        return value


@dataclass(frozen=True)
class LogIn:
    """What a browser is given: a cookie, and a key that the page keeps; neither is worth anything without the other."""

    cookie: str
    key: str


@dataclass(frozen=True)
class _Session:
    token: str
    key: str


class DashboardSessions:
    """The log-ins at one job manager. Thread-safe.

    A person logs in with a token, or with a code that `pystate ui` asks for with one: it is good for one log-in within two
    minutes, so that no token has to be in an address or on a screen.

    Args:
        security: Checks tokens.
        instance: Random digits of this process; cookies of another job manager at another port don't collide with these.
        clock: Returns monotonic seconds.
    """

    def __init__(self, security: RestSecurity, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._security = security
        self.cookie = f"pystate-session-{instance[:8]}"
        self._sessions: _Expiring[_Session] = _Expiring(SESSION_SECONDS, clock)
        self._codes: _Expiring[str] = _Expiring(CODE_SECONDS, clock)

    def code(self) -> str:
        """Return a code that one log-in may use."""
        return self._codes.add(self._security.home_token)

    def log_in(self, *, token: str | None = None, code: str | None = None) -> LogIn | None:
        """Return the cookie's value and the page's key for a token or a code; None if it is wrong."""
        if code is not None:
            token = self._codes.pop(code)
        # tokens are ASCII: what isn't can't be a header, and is none
        if token is None or not token.isascii() or not self._security.allows(_bearer(token), owner_only=True):
            return None
        key = secrets.token_urlsafe(32)
        return LogIn(self._sessions.add(_Session(token, key)), key)

    def log_out(self, headers: Headers, key: str) -> None:
        """Forget the session of a request."""
        if self.token(headers, key) is not None:
            self._sessions.pop(self._given(headers))

    def token(self, headers: Headers, key: str) -> str | None:
        """Return the token that a request's cookie and the page's key stand for; None if they are no pair that is known."""
        session = self._sessions.get(self._given(headers))
        if session is None or not hmac.compare_digest(session.key.encode(), key.encode()):
            return None
        return session.token

    def _given(self, headers: Headers) -> str:
        return cookie_parser(headers.get("cookie", "")).get(self.cookie, "")


class SessionTokens:
    """Gives requests of logged-in pages their token, as if they had sent it.

    A cookie is sent by the browser whoever makes it send a request, and to every port of a host: a server of somebody else
    on another one gets it, too. So it counts only together with the page's key, which the page keeps where only pages of its
    own address and port find it, and where the browser says that the page itself has asked.

    Args:
        app: Serves the requests.
        sessions: The log-ins.
    """

    def __init__(self, app: ASGIApp, sessions: DashboardSessions) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            key = page_key(scope) if _is_of_the_page(headers) else ""
            token = self._sessions.token(headers, key) if key else None
            if token is not None:
                scope = {**scope, "headers": [*scope["headers"], *_bearer(token).raw], PAGE_KEY: key}
        await self._app(scope, receive, send)


def page_key(scope: Scope) -> str:
    """Return the page's key that a request shows; empty if it shows none."""
    given = Headers(scope=scope).get(PAGE_HEADER, "")
    if not given and scope["path"] == WATCH:
        given = parse_qs(scope["query_string"].decode("latin-1")).get(PAGE_PARAMETER, [""])[0]
    return given


def _is_of_the_page(headers: Headers) -> bool:
    return "authorization" not in headers and headers.get("sec-fetch-site", "none") in _OWN_SITES


def _bearer(token: str) -> Headers:
    return MutableHeaders({"authorization": f"Bearer {token}"})
