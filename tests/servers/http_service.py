"""A service that speaks HTTP on loopback, and knows what it was sent: it does each Idempotency-Key once."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.servers.nginx import free_port


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HttpService:
    """The service; `answer` decides on a status, a body, and whether the request is done.

    Answers have `headers`, and where there is a `pace_s` they come byte by byte, so far apart.
    """

    def __init__(self, tls: tuple[str, str] | None = None) -> None:
        self.port = free_port()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/in"
        self.asked: list[Asked] = []
        self.posted: list[object] = []
        self.resources: dict[str, object] = {}
        self.answer: Callable[[Asked], tuple[int, bytes, bool]] = lambda _: (200, b"", True)
        self.headers: dict[str, str] = {}
        self.pace_s = 0.0
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._tls = tls
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _take(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, said = service.take(Asked(self.command, self.path, dict(self.headers), body))
                if status == 0:  # no answer
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(said)))
                for name, value in service.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(OSError):  # who asked may have seen enough
                    for piece in [said[place : place + 1] for place in range(len(said))] if service.pace_s else [said]:
                        self.wfile.write(piece)
                        time.sleep(service.pace_s)

            do_POST = do_PUT = do_DELETE = _take  # noqa: N815 - the names of the base class

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
                pass

        server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        server.daemon_threads = True
        if self._tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self._server = server
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take(self, asked: Asked) -> tuple[int, bytes]:
        with self._lock:
            self.asked.append(asked)
            status, said, does = self.answer(asked)
            key = asked.headers["Idempotency-Key"]
            if does and key not in self._known:
                self._known.add(key)
                if asked.method == "POST":
                    self.posted += json.loads(asked.body)
                elif asked.method == "PUT":
                    self.resources[asked.path] = json.loads(asked.body)
                elif self.resources.pop(asked.path, None) is None:
                    return 404, b""
        return status, said


@contextmanager
def running_service(tls: tuple[str, str] | None = None) -> Iterator[HttpService]:
    """Run one."""
    service = HttpService(tls)
    service.start()
    try:
        yield service
    finally:
        service.stop()
