"""Serves the job manager below a path, as a proxy does that has other servers beside it."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pystate.common.configuration.groups.security_options import SecurityOptions
from pystate.common.errors import ConfigurationError

URL_PREFIX = "pystate.url-prefix"
"""The prefix in the scope of requests that came with it."""


def check_url_prefix(prefix: str, paths: Iterable[str]) -> None:
    """Check that no path of the job manager's own begins with a prefix.

    Raises:
        ConfigurationError: One does.
    """
    taken = {path.split("/")[1] for path in paths}
    first = prefix.split("/")[1] if prefix else ""
    if prefix and first in taken:
        message = f"The prefix {prefix!r} begins with {'/' + first!r}, as paths of REST do that are served without it, too."
        raise ConfigurationError(message, where=SecurityOptions.REST_URL_PREFIX.key, hint="choose another first word")


class UrlPrefix:
    """Serves requests below a prefix, and those without it as before: a proxy may send it on or take it off.

    Args:
        app: Serves the requests, by their paths without the prefix.
        prefix: As `/streams/pystate`; empty for none.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        prefix = self._prefix
        if scope["type"] == "http" and prefix:
            path, raw = scope["path"], scope.get("raw_path")
            if path == prefix:  # addresses in the pages are relative to the folder
                await RedirectResponse(f"{prefix}/", 308)(scope, receive, send)
                return
            if path.startswith(f"{prefix}/"):
                scope = {**scope, "path": path[len(prefix) :], URL_PREFIX: prefix}
                if raw is not None and raw.startswith(prefix.encode()):
                    scope["raw_path"] = raw[len(prefix) :]
        await self._app(scope, receive, send)
