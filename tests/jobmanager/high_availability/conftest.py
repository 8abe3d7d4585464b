from __future__ import annotations

import contextlib
import http.client
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.checkpoint.file_systems.conftest import hdfs_cluster, make_place, s3_server, settings
from tests.jobmanager.harness import ManagerProcess, eventually

__all__ = ["hdfs_cluster", "s3_server", "settings"]

LEASE = {"lease-duration": "2 s", "renew-deadline": "1500 ms", "retry-period": "200 ms"}


def standby_options(storage: str) -> dict[str, str]:
    """Return the options of job managers that stand in for each other."""
    return {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": storage,
        **{f"high-availability.filesystem.{key}": value for key, value in LEASE.items()},
    }


def raw_get(manager: ManagerProcess, path: str) -> tuple[int, str | None]:
    """Ask without following redirects; return status and location."""
    connection = http.client.HTTPConnection("127.0.0.1", manager.port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Location"]


def wait_until_leads(manager: ManagerProcess) -> None:
    """Wait until a job manager leads."""
    eventually(lambda: raw_get(manager, "/jobs")[0] == 200, 30)


@pytest.fixture(params=["folder", "s3"])
def job_managers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], ManagerProcess]]:
    """Give job managers with homes of their own, which share one storage."""
    started: list[ManagerProcess] = []
    storage = str(tmp_path / "ha") if request.param == "folder" else make_place("s3", request).uri

    def start(name: str) -> ManagerProcess:
        (tmp_path / name).mkdir()
        started.append(ManagerProcess(tmp_path / name / "home", standby_options(storage)))
        return started[-1].start()

    yield start
    for manager in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(manager.process.pid, signal.SIGCONT)
        manager.stop()
