"""The command line of a real Flink against our job manager, unchanged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from tests.ops.jobmanager.harness import REPOSITORY, ManagerThread, eventually
from tests.waiting import LONGEST_S

JARS = REPOSITORY / "build" / "servers" / "flink"
UNKNOWN = "0" * 31 + "1"
pytestmark = [
    pytest.mark.skipif(not list(JARS.glob("flink-clients-*.jar")), reason="Flink's client is not here: make servers"),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no java"),
    pytest.mark.slow,
]


class FlinkClient:
    """`flink`, as its start script calls it."""

    def __init__(self, manager: ManagerThread, folder: Path) -> None:
        self._manager = manager
        self._conf = folder / "flink-conf"
        self._conf.mkdir()
        (self._conf / "config.yaml").write_text("client.timeout: 30 s\n")

    def __call__(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Return exit code and output."""
        command = ["java", "-cp", f"{JARS}/*", "org.apache.flink.client.cli.CliFrontend", verb]
        command += ["-m", f"127.0.0.1:{self._manager.port}", *arguments]
        environment = {**os.environ, "FLINK_CONF_DIR": str(self._conf)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ManagerThread]:
    # Flink's client can show no token, and names the places of its savepoints
    running = ManagerThread(tmp_path / "home").start(Configuration({"pystate.rest.allow-unauthenticated": "true"}))
    yield running
    running.stop()


@pytest.fixture
def flink(manager: ManagerThread, tmp_path: Path) -> FlinkClient:
    return FlinkClient(manager, tmp_path)


def test_it_lists_saves_checkpoints_stops_and_disposes(manager, flink, tmp_path):
    job = manager.submit("--name", "keyed-count", "--write-savepoint")
    other = manager.submit("--name", "other")
    for one in (job, other):
        manager.wait_for(one, "RUNNING")
    folder = tmp_path / "savepoints"

    code, said = flink("list")
    assert code == 0, said
    assert f"{job} : keyed-count (RUNNING)" in said
    code, said = flink("savepoint", job, f"{folder}")
    assert code == 0, said
    path = re.search(r"Savepoint completed. Path: (\S+)", said)[1]
    assert Path(path).exists()
    code, said = flink("savepoint", "-type", "native", job, str(folder))
    assert (code, "Savepoint completed" in said) == (0, True), said
    code, said = flink("savepoint", "-detached", job, str(folder))
    assert (code, "Successfully trigger manual savepoint" in said) == (0, True), said
    code, said = flink("checkpoint", "-full", job)
    assert (code, f"Checkpoint(FULL) 7 for job {job} completed." in said) == (0, True), said
    code, said = flink("stop", "--savepointPath", str(folder), job)
    assert (code, "Savepoint completed" in said) == (0, True), said
    manager.wait_for(job, "FINISHED")
    code, said = flink("cancel", other)
    assert (code, f"Cancelled job {other}" in said) == (0, True), said
    manager.wait_for(other, "CANCELED")
    code, said = flink("list", "-a")
    assert f"{job} : keyed-count (FINISHED)" in said


def test_it_cancels_with_a_savepoint(manager, flink, tmp_path):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    code, said = flink("cancel", "-s", str(tmp_path), job)

    assert (code, f"Savepoint stored in {tmp_path}/savepoint-" in said) == (0, True), said
    manager.wait_for(job, "CANCELED")


def test_it_tells_why_something_failed(manager, flink):
    failing = manager.submit("--savepoint-fails")
    manager.wait_for(failing, "RUNNING")

    code, said = flink("savepoint", failing, "/tmp/s")
    assert (code, "The savepoint can't be written." in said) == (1, True), said
    code, said = flink("savepoint", failing)
    assert (code, "Config key [execution.checkpointing.savepoint-dir] is not set" in said) == (1, True), said
    code, said = flink("cancel", UNKNOWN)
    assert (code, f"Job {UNKNOWN} not found" in said) == (1, True), said
    for command in (("savepoint", UNKNOWN, "/tmp/s"), ("checkpoint", UNKNOWN), ("stop", "-p", "/tmp/s", UNKNOWN)):
        code, said = flink(*command)
        assert (code, f"There is no job with id {UNKNOWN}." in said) == (1, True), said
    code, said = flink("savepoint", "-d", "/tmp/no/such/savepoint")
    assert (code, "/tmp/no/such/savepoint" in said) == (1, True), said
    assert eventually(lambda: manager.state(failing) == "RUNNING")
