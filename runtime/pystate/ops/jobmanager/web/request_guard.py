"""Checks the host, origin and size of requests before anything else."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pystate.common.errors import PystateError
from pystate.common.text.bounded_text import shown

MAX_BODY_BYTES = 4 << 20
"""The largest body of a submission, which only the owner of the home may send."""
MAX_SMALL_BODY_BYTES = 64 << 10
"""The largest body of every other request."""
MAX_TARGET_BYTES = 8 << 10
"""The longest path and query together; twice what Flink reads."""
MAX_HEADER_BYTES = 32 << 10
"""The most bytes of all headers together; four times what Flink reads."""
MAX_HEADERS = 128
_DISCARDED_BYTES = 8 << 20
"""What is read past the bound and thrown away: a client that still sends would see a broken connection, not the refusal."""
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""
INSTANCE_HEADER = "pystate-instance"
_ENDS = "The job manager ends, and does not wait for what this request waits for. Jobs go on without it."
WATCH = "/pystate/watch"
"""The path of answers that end only with their reader, or with the server."""


class RequestTooLargeError(PystateError):
    """A request is larger than allowed."""


class RequestTooSlowError(PystateError):
    """The body of a request hasn't arrived in time."""


class RequestGuard:
    """Rejects cross-site requests of browsers and too large requests; adds the instance to every answer.

    Args:
        app: Serves the requests that pass.
        address: The address the job manager listens on.
        instance: Random digits that distinguish this process from later ones on the same port.
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

        began = False

        async def send_named(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                message["headers"] = [*message["headers"], (INSTANCE_HEADER.encode(), self._instance)]
            await send(message)

        refusal = _excess(scope) or self._refusal(Headers(scope=scope))
        if refusal is not None:
            status, message = refusal
            response = JSONResponse({"errors": [message]}, status_code=status)
            await response(scope, receive, send_named)
            return
        try:
            await self._app(scope, receive, send_named)
        except asyncio.CancelledError:  # it ends, and the answer isn't there
            if not began:
                await JSONResponse({"errors": [_ENDS]}, status_code=503)(scope, receive, send_named)

    def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        if len(headers.getlist("host")) > 1:
            return 400, "A request has one host."
        host = headers.get("host", "")
        if not self._is_ours(host):
            return 403, f"The host name {shown(host)} is not one of this job manager."
        # a page of another site may make a browser send simple requests; browsers add their origin. Where a proxy has
        # replaced the host to compare it with, they still say where a request is from, which no page can forge
        origin = headers.get("origin")
        if origin is not None and _host_of(origin) != host.lower() and headers.get("sec-fetch-site") != "same-origin":
            return 403, f"Requests from pages of {shown(origin)} are refused."
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
            return False  # a foreign host name: DNS rebinding
        return address.is_loopback or self._any_address


async def read_body(chunks: AsyncIterator[bytes], most: int, seconds: float = BODY_SECONDS) -> bytes:
    """Read a request's body.

    Args:
        chunks: The received chunks.
        most: The maximum size in bytes.
        seconds: The timeout for all of it.

    Raises:
        RequestTooLargeError: It is larger.
        RequestTooSlowError: It takes longer.
    """
    try:
        return await asyncio.wait_for(_bytes_of(chunks, most), seconds)
    except asyncio.TimeoutError as error:
        message = f"The body of the request has not arrived within {seconds:g} s."
        raise RequestTooSlowError(message) from error


async def _bytes_of(chunks: AsyncIterator[bytes], most: int) -> bytes:
    body, total = bytearray(), 0
    async for chunk in chunks:
        total += len(chunk)
        if total <= most:
            body += chunk
        else:
            body.clear()
            if total > most + _DISCARDED_BYTES:
                break
    if total > most:
        message = f"The body of the request is larger than {most} bytes."
        raise RequestTooLargeError(message)
    return bytes(body)


def _excess(scope: Scope) -> tuple[int, str] | None:
    """Return the answer to a request that is too large before its body; None if it isn't."""
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_TARGET_BYTES:
        return 414, f"The path and the query of the request are longer than {MAX_TARGET_BYTES} bytes."
    headers = scope["headers"]
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) for name, value in headers) > MAX_HEADER_BYTES:
        return 431, f"The request has more than {MAX_HEADERS} headers, or more than {MAX_HEADER_BYTES} bytes of them."
    return None


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None  # no page has such an origin


def _is_unspecified(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False
