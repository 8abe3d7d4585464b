"""A REST catalog of Iceberg on loopback, by Iceberg's own code from what `make servers` brings; faults on the way to it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests

from tests.servers.nginx import free_port
from tests.servers.places import SERVERS
from tests.servers.started_services import wait_until_it_answers
from tests.waiting import LONGEST_S

JARS = SERVERS / "iceberg"
_PROGRAM = Path(__file__).with_name("IcebergRestCatalog.java")
_JAVA = ("java", "-Xmx200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


def missing() -> str | None:
    """Say why there is no catalog here; None where there is one."""
    if not (JARS / ".complete").is_file():
        return "there is no REST catalog of Iceberg here: run `make servers`"
    modules = subprocess.run(["java", "--list-modules"], capture_output=True, text=True) if shutil.which("java") else None
    return None if modules is not None and "jdk.compiler" in modules.stdout else "there is no Java development kit here"


class IcebergRestServer:
    """The catalog, which forgets nothing when it is killed.

    Args:
        folder: Where its tables and its database are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._warehouse = folder / "warehouse"
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def put_tables_into(self, folder: Path) -> Path:
        """Put new tables into a folder, and return how they name it."""
        self._warehouse.unlink(missing_ok=True)
        self._warehouse.symlink_to(folder)
        return self._warehouse

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self._folder / "log"
        given = [str(self._port), str(self._folder / "catalog.db"), str(self._warehouse)]
        with log.open("ab") as file:
            command = [*_JAVA, "-cp", f"{JARS}/*", str(_PROGRAM), *given]
            self._process = subprocess.Popen(command, stdout=file, stderr=file, cwd=self._folder)
        wait_until_it_answers(f"{self.url}/v1/config", self._process, log)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LONGEST_S)


@contextmanager
def running_catalog(folder: Path) -> Iterator[IcebergRestServer]:
    """Run one."""
    server = IcebergRestServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def iceberg_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestServer]:
    """Run the catalog."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_catalog(tmp_path_factory.mktemp("iceberg-catalog")) as server:
        yield server


Fault = Callable[[Callable[[], requests.Response]], "requests.Response | int | None"]
"""What becomes of a commit: gets what sends it to the catalog; returns the answer, a status of its own, or None for none."""


class FaultyWay:
    """A proxy to the catalog, on which a commit may be lost.

    Args:
        url: The catalog.

    Attributes:
        url: The proxy.
        faults: What becomes of the next commits of a table, in order.
    """

    def __init__(self, url: str) -> None:
        self.faults: list[Fault] = []
        way = self

        class Handler(BaseHTTPRequestHandler):
            def _pass_on(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}

                def send() -> requests.Response:
                    return requests.request(self.command, url + self.path, headers=kept, data=body, timeout=LONGEST_S)

                is_commit = self.command == "POST" and self.path.endswith("/tables/t")
                answer: Any = way.faults.pop(0)(send) if is_commit and way.faults else send()
                self.close_connection = True
                if answer is None:
                    return
                status, content = (answer, b"{}") if isinstance(answer, int) else (answer.status_code, answer.content)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815 - the names that the base class calls

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
