"""Job managers of one release over the running drivers of another: what is taken over, and what is refused in a sentence.

The releases are wheels of this tree with other versions, and other protocols, written into them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pystate.common.files.home import read_json
from release.build import build
from tests.ops.jobmanager.harness import REPOSITORY, ManagerProcess
from tests.waiting import LONGEST_S

pytestmark = pytest.mark.slow

Release = Callable[..., Path]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build(REPOSITORY, tmp_path_factory.mktemp("dist"), 1_700_000_000)[1]


@pytest.fixture
def release(wheel: Path, tmp_path: Path) -> Release:
    """Return a function that lays out a release: its version, the protocol that it speaks, and the oldest that it knows."""

    def lay_out(version: str, protocol: int = 1, oldest: int = 1) -> Path:
        folder = tmp_path / f"pystate-{version}"
        zipfile.ZipFile(wheel).extractall(folder)
        replace(folder / "pystate" / "__init__.py", '__version__ = "', f'__version__ = "{version}"\n')
        files = folder / "pystate" / "runtime" / "job_folder" / "small_files.py"
        replace(files, "DRIVER_PROTOCOL = ", f"DRIVER_PROTOCOL = {protocol}\n")
        replace(files, "KNOWN_DRIVER_PROTOCOLS = ", f"KNOWN_DRIVER_PROTOCOLS = range({oldest}, {protocol} + 1)\n")
        return folder

    return lay_out


def replace(file: Path, begin: str, line: str) -> None:
    lines = file.read_text().splitlines(keepends=True)
    (at,) = (number for number, each in enumerate(lines) if each.startswith(begin))
    lines[at] = line
    file.write_text("".join(lines))


class Upgraded(ManagerProcess):
    """A home whose job manager is replaced by that of another release."""

    popen = subprocess.Popen

    def upgrade(self, release: Path) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(LONGEST_S)
        self.python_path = os.pathsep.join((str(release), str(REPOSITORY)))
        self.start()
        assert self.request("GET", "/config")[1]["pystate-version"] == release.name.removeprefix("pystate-")

    def pid(self, job: str) -> int:
        return int(read_json(self.home.job(job).process)["pid"])

    def command(self, release: Path, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(release), "PYSTATE_HOME": str(self.home.root)}
        command = [sys.executable, "-m", "pystate_cli", *words]
        return subprocess.run(command, env=environment, cwd=release, capture_output=True, text=True, check=False)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Upgraded]:
    upgraded = Upgraded(tmp_path / "home")
    yield upgraded
    upgraded.stop()


def savepoint(release: Path, manager: Upgraded, job: str) -> subprocess.CompletedProcess[str]:
    return manager.command(release, "savepoint", job, str(manager.home.root / "savepoints"))


def test_a_job_manager_takes_over_drivers_of_the_release_before_and_that_one_those_of_the_next(release, manager):
    last, following = release("1.1.0"), release("1.2.0")
    manager.upgrade(last)
    old = manager.submit()
    manager.wait_for(old, "RUNNING")
    pid = manager.pid(old)

    refused = manager.command(following, "list")
    assert refused.returncode == 1
    assert "The job manager has version 1.1.0; this command has version 1.2.0." in refused.stderr
    assert f"kill {manager.process.pid} ends it, its jobs go on" in refused.stderr

    manager.upgrade(following)
    assert (manager.state(old), manager.pid(old)) == ("RUNNING", pid)
    assert read_json(manager.home.job(old).driver)["pystate_version"] == "1.1.0"
    done = savepoint(following, manager, old)
    assert done.returncode == 0, done.stderr
    new = manager.submit()
    manager.wait_for(new, "RUNNING")

    manager.upgrade(last)
    assert read_json(manager.home.job(new).driver)["pystate_version"] == "1.2.0"
    for job in (old, new):
        assert manager.state(job) == "RUNNING"
        assert savepoint(last, manager, job).returncode == 0
        assert manager.command(last, "cancel", job).returncode == 0
        manager.wait_for(job, "CANCELED")


@pytest.mark.parametrize("driver_is_newer", [False, True])
def test_a_job_manager_that_does_not_know_the_drivers_protocol_says_so_and_the_job_goes_on(
    release, manager, driver_is_newer
):
    one, other = release("1.1.0"), release("2.0.0", protocol=2, oldest=2)
    of_job, of_manager = (other, one) if driver_is_newer else (one, other)
    manager.upgrade(of_job)
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    pid = manager.pid(job)

    manager.upgrade(of_manager)
    refused = savepoint(of_manager, manager, job)
    assert refused.returncode == 1
    its, own = ((1, 2), (2, 1))[driver_is_newer]
    versions = (of_job.name.removeprefix("pystate-"), of_manager.name.removeprefix("pystate-"))
    assert (
        f"The job's driver (process {pid}) is of pystate {versions[0]} that speaks protocol {its} with job managers; "
        f"this job manager, pystate {versions[1]}, speaks {own}. The job goes on."
    ) in " ".join(refused.stderr.split())
    assert (manager.state(job), manager.pid(job)) == ("RUNNING", pid)

    manager.upgrade(of_job)
    done = savepoint(of_job, manager, job)
    assert done.returncode == 0, done.stderr


def test_a_job_manager_that_knows_both_protocols_takes_over_both(release, manager):
    last, following = release("1.1.0"), release("1.2.0", protocol=2)
    manager.upgrade(last)
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    manager.upgrade(following)

    done = savepoint(following, manager, job)
    assert done.returncode == 0, done.stderr
