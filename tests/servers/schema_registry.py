"""Apicurio's schema registry on loopback, from what `make servers` brings; its data are in memory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

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


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run it, and give the URL of its API that is Confluent's."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    (program,) = FOLDER.glob("*-runner.jar")
    port, log = free_port(), tmp_path_factory.mktemp("registry") / "log"
    with log.open("wb") as file:
        command = [*_JAVA, f"-Dquarkus.http.port={port}", "-jar", str(program)]
        process = subprocess.Popen(command, stdout=file, stderr=file, cwd=log.parent)
        try:
            url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
            wait_until_it_answers(f"{url}/subjects", process, log)
            yield url
        finally:
            process.terminate()
            process.wait(LONGEST_S)
