"""Log-ins of browsers: cookies that stand for a token, kept in the memory of one job manager."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Receive, Scope, Send

from pystate.ops.jobmanager.web.rest_security import RestSecurity

T = TypeVar("T")

SESSION_SECONDS = 12 * 3600.0
CODE_SECONDS = 120.0
MOST_SESSIONS = 256
PAGE_HEADER = "pystate-dashboard"
"""The header of the page's own requests; pages of other sites can't set it without being allowed to."""
_READING = ("GET", "HEAD")
_OWN_SITES = ("same-origin", "none")
"""What browsers say of requests by the page itself, and of addresses that a person typed."""


class _Expiring(Generic[T]):
    """Secrets with a value each, bounded in number and in time; the oldest ones go first."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, value: T) -> str:
        """Return a new secret for a value."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._known[secret] = (self._clock() + self._seconds, value)
            while len(self._known) > MOST_SESSIONS:
                self._known.popitem(last=False)
        return secret

    def get(self, secret: str) -> T | None:
        """Return the value of a secret; None if it is unknown or has expired."""
        with self._lock:
            found = self._known.get(secret)
        return None if found is None or self._clock() >= found[0] else found[1]

    def pop(self, secret: str) -> T | None:
        """Forget a secret; return its value."""
        with self._lock:
            found = self._known.pop(secret, None)
        return None if found is None or self._clock() >= found[0] else found[1]


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
        self._sessions: _Expiring[str] = _Expiring(SESSION_SECONDS, clock)
        self._codes: _Expiring[str] = _Expiring(CODE_SECONDS, clock)

    def code(self) -> str:
        """Return a code that one log-in may use."""
        return self._codes.add(self._security.home_token)

    def log_in(self, *, token: str | None = None, code: str | None = None) -> str | None:
        """Return the cookie's value for a token or a code; None if it is wrong."""
        if code is not None:
            token = self._codes.pop(code)
        if token is None or not self._security.allows(_bearer(token), owner_only=True):
            return None
        return self._sessions.add(token)

    def log_out(self, headers: Headers) -> None:
        """Forget the session of a request."""
        self._sessions.pop(self._given(headers))

    def token(self, headers: Headers) -> str | None:
        """Return the token that a request's cookie stands for; None if it has none that is known."""
        return self._sessions.get(self._given(headers))

    def _given(self, headers: Headers) -> str:
        return cookie_parser(headers.get("cookie", "")).get(self.cookie, "")


class SessionTokens:
    """Gives requests of logged-in pages their token, as if they had sent it.

    A cookie is sent by the browser whoever makes it send a request. So it counts only where the browser says that the page
    itself has asked, and for requests that change something only with a header that no other page may set.

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
            token = self._sessions.token(headers) if _is_of_the_page(scope["method"], headers) else None
            if token is not None:
                scope = {**scope, "headers": [*scope["headers"], *_bearer(token).raw]}
        await self._app(scope, receive, send)


def _is_of_the_page(method: str, headers: Headers) -> bool:
    if "authorization" in headers or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
        return False
    return method in _READING or PAGE_HEADER in headers


def _bearer(token: str) -> Headers:
    return MutableHeaders({"authorization": f"Bearer {token}"})
