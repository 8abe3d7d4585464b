"""Who may ask: the checks before any request is looked at."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pystate.common.errors import PystateError
from pystate.common.home import PystateHome, write_file_atomically

MAX_BODY_BYTES = 4 << 20
INSTANCE_HEADER = "pystate-instance"


class RequestTooLargeError(PystateError):
    """A request has more bytes than is read of one."""


def home_token(home: PystateHome) -> str:
    """Return the token of a home, made at first use; only its owner can read it."""
    try:
        return home.token.read_text().strip()
    except FileNotFoundError:
        token = secrets.token_hex(32)
        write_file_atomically(home.token, f"{token}\n".encode(), mode=0o600)
        return token


class RequestGuard:
    """Refuses what a browser was tricked into sending, and what is too large; names the instance in every answer.

    Args:
        app: What serves the requests that pass.
        address: The address the job manager listens on.
        instance: Random digits that tell this process from any other that may have the port later.
    """

    def __init__(self, app: ASGIApp, address: str, instance: str) -> None:
        self._app = app
        self._instance = instance.encode()
        self._any_address = _is_unspecified(address)
        self._names = {"localhost", address.lower()}
        if self._any_address:
            self._names.update({socket.gethostname().lower(), socket.getfqdn().lower()})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (INSTANCE_HEADER.encode(), self._instance)]
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        if refusal is not None:
            response = JSONResponse({"errors": [refusal]}, status_code=403)
            await response(scope, receive, send_named)
            return
        await self._app(scope, receive, send_named)

    def _refusal(self, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return f"The host name {host!r} is not one of this job manager."
        # a page of another site may make a browser send simple requests; browsers say where they come from
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return f"Requests from pages of {origin!r} are refused."
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            urlsplit(f"//{host}").port  # noqa: B018 - raises for a malformed port
        except ValueError:
            return False
        if name in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False  # a name that is not ours: DNS rebinding
        return address.is_loopback or self._any_address


async def read_body(chunks: AsyncIterator[bytes]) -> bytes:
    """Read a request's body.

    Raises:
        RequestTooLargeError: It is larger than `MAX_BODY_BYTES`.
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            message = f"The request is larger than {MAX_BODY_BYTES} bytes."
            raise RequestTooLargeError(message)
    return bytes(body)


def _is_unspecified(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False
