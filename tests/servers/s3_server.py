"""An S3 server on loopback: moto's, which can be told to fail, and which remembers what it was asked."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import requests
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.waiting import LONGEST_S

ACCESS_KEY, SECRET_KEY = "AKIAOFTHETESTS", "a-secret-that-nobody-prints"


class _Quiet(WSGIRequestHandler):
    def log_request(self, *_: Any) -> None:
        """Say nothing."""


@dataclass
class S3Server:
    """The server.

    Attributes:
        asked: Method and path with query of each request.
        failures: Statuses of the next answers, in the place of what moto would say.
        fails: Whether a request is one that takes a failure.
    """

    url: str = ""
    asked: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    fails: Callable[[str], bool] = lambda _: True

    @property
    def options(self) -> dict[str, str]:
        """The configuration that reaches it."""
        return {
            "s3.endpoint": self.url,
            "s3.access-key": ACCESS_KEY,
            "s3.secret-key": SECRET_KEY,
            "s3.region": "us-east-1",
            "s3.path.style.access": "true",
            "s3.upload.min.part.size": "5 mb",
        }

    def new_bucket(self) -> str:
        """Make a bucket, forget what was asked and what was to fail; return its name."""
        self.failures.clear()
        self.fails = lambda _: True
        name = f"bucket-{secrets.token_hex(6)}"
        requests.put(f"{self.url}/{name}", timeout=60).raise_for_status()
        self.asked.clear()
        self.copied.clear()
        return name

    def __call__(self, environment: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        asked = f"{environment['REQUEST_METHOD']} {environment['PATH_INFO']}?{environment['QUERY_STRING']}"
        self.asked.append(asked)
        if "HTTP_X_AMZ_COPY_SOURCE" in environment:
            self.copied.append(asked)
        if self.failures and self.fails(asked):
            status = self.failures.pop(0)
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
            code = {403: "AccessDenied", 404: "NoSuchUpload", 501: "NotImplemented"}.get(status, "ServiceUnavailable")
            start_response(f"{status} Failed", [("Content-Type", "application/xml")])
            body = f"<Error><Code>{code}</Code><Message>told to fail</Message></Error>".encode()
            return [] if asked.startswith("HEAD") else [body]
        # S3 has one object of all that are to be new; moto looks whether there is one, and then writes
        with self._conditional if "HTTP_IF_NONE_MATCH" in environment else nullcontext():
            answer: Iterable[bytes] = self._moto(environment, start_response)
        return answer

    def __post_init__(self) -> None:
        """Make the application."""
        from moto.moto_server.werkzeug_app import (
            DomainDispatcherApplication,
            create_backend_app,
        )  # dear, and few have a server

        self._moto = DomainDispatcherApplication(create_backend_app)
        self._conditional = threading.Lock()


@contextmanager
def running_s3_server() -> Iterator[S3Server]:
    """Run a server on a free port of loopback, in threads of this process."""
    application = S3Server()
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Quiet)
    application.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, name="S3 server", daemon=True)
    thread.start()
    try:
        yield application
    finally:
        server.shutdown()
        thread.join(LONGEST_S)
        server.server_close()
