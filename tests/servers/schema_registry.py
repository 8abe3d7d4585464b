"""Apicurio's schema registry on loopback, from what `make servers` brings; its data are in memory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.servers.nginx import free_port
from tests.servers.places import SERVERS
from tests.servers.started_services import wait_until_it_answers
from tests.waiting import LONGEST_S

FOLDER = SERVERS / "registry"
_JAVA = ("java", "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1")


def missing() -> str | None:
    """Say why there is no registry here; None where there is one."""
    if not (FOLDER / ".complete").is_file():
        return "there is no schema registry here: run `make servers`"
    return None if shutil.which("java") else "there is no Java here"


class SchemaRegistry:
    """The registry; `url` is that of its API that is Confluent's. A killed one comes back with the schemas it was given.

    Args:
        folder: Its own.
    """

    def __init__(self, folder: Path) -> None:
        (program,) = FOLDER.glob("*-runner.jar")
        port, self._log = free_port(), folder / "log"
        self._command = [*_JAVA, f"-Dquarkus.http.port={port}", "-jar", str(program)]
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start it, and wait until it answers; schemas get the ids that they had, since they come in their order."""
        with self._log.open("ab") as file:
            self._process = subprocess.Popen(self._command, stdout=file, stderr=file, cwd=self._log.parent)
        wait_until_it_answers(f"{self.url}/subjects", self._process, self._log)
        for subject, schema in self._schemas:
            self._post(subject, schema)

    def register(self, subject: str, schema: str) -> int:
        """Give it a schema, and return its id."""
        self._schemas.append((subject, schema))
        return self._post(subject, schema)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LONGEST_S)

    def _post(self, subject: str, schema: str) -> int:
        answer = requests.post(f"{self.url}/subjects/{subject}/versions", json={"schema": schema}, timeout=60)
        answer.raise_for_status()
        return int(answer.json()["id"])


@contextmanager
def running_registry(folder: Path) -> Iterator[SchemaRegistry]:
    """Run one."""
    server = SchemaRegistry(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run it, and give the URL of its API that is Confluent's."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with running_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server.url
