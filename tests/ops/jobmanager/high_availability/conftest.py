from __future__ import annotations

import contextlib
import http.client
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.core.file_systems.conftest import make_place, settings
from tests.ops.jobmanager.harness import ManagerProcess, eventually
from tests.waiting import LONGEST_S

__all__ = ["settings"]

LEASE = {"lease-duration": "4 s", "renew-deadline": "3 s", "retry-period": "200 ms"}
"""What a busy machine keeps: a leader that waits for a core for longer than the deadline steps down."""
LONG_LEASE = {"lease-duration": "5 s", "renew-deadline": "4 s", "retry-period": "300 ms"}
"""For a storage that this very process serves, which may have to wait for a core."""


def standby_options(storage: str, lease: dict[str, str] = LEASE) -> dict[str, str]:
    """Return the options of job managers that stand in for each other."""
    return {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": storage,
        **{f"high-availability.filesystem.{key}": value for key, value in lease.items()},
    }


def raw_get(manager: ManagerProcess, path: str) -> tuple[int, str | None]:
    """Ask without following redirects; return status and location."""
    connection = http.client.HTTPConnection("127.0.0.1", manager.port, timeout=LONGEST_S)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Location"]


def wait_until_leads(manager: ManagerProcess) -> None:
    """Wait until a job manager leads."""
    eventually(lambda: raw_get(manager, "/jobs")[0] == 200)


@pytest.fixture(params=["folder", "s3"])
def job_managers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[str], ManagerProcess]]:
    """Give job managers with homes of their own, which share one storage."""
    started: list[ManagerProcess] = []
    if request.param == "folder":
        options = standby_options(str(tmp_path / "ha"))
    else:
        options = standby_options(make_place("s3", request).uri, LONG_LEASE)

    def start(name: str) -> ManagerProcess:
        (tmp_path / name).mkdir()
        started.append(ManagerProcess(tmp_path / name / "home", options))
        return started[-1].start()

    yield start
    for manager in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(manager.process.pid, signal.SIGCONT)
        manager.stop()
