"""A home that was made too open, or is somebody else's."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.errors import ConfigurationError
from pystate.common.files.home import PystateHome
from pystate.common.files.private_home import ForeignHomeError, close_to_others
from pystate.common.files.tokens import read_token
from tests.ops.jobmanager.harness import ManagerThread

JOB = "83f146a87b5572d7c71730b6a8b1dbae"
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")


@pytest.fixture
def home(tmp_path: Path) -> PystateHome:
    """One that is as it should be."""
    made = PystateHome(tmp_path / "home")
    for folder in (made.root, made.jobs, made.jobs / JOB):
        folder.mkdir(mode=0o700)
    for path in (made.token, made.jobmanager_log, made.jobs / JOB / "job.log", made.jobs / JOB / "stdout"):
        path.touch(mode=0o600)
    made.token.write_text("the old token\n")
    (made.jobs / JOB / "status.json").write_text("{}")
    return made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_home_that_is_closed_is_left_alone(home: PystateHome, tmp_path: Path) -> None:
    assert close_to_others(home) == []
    assert home.token.read_text() == "the old token\n"
    assert close_to_others(PystateHome(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("name", "open_mode", "closed", "said"),
    [
        ("", 0o755, 0o700, "had the mode 755, so that others could look into it; it is 700 now."),
        ("", 0o777, 0o700, "had the mode 777, so that others could change it; it is 700 now."),
        ("jobs", 0o750, 0o700, "folder of jobs"),
        (f"jobs/{JOB}", 0o755, 0o700, "1 folder of jobs"),
        (f"jobs/{JOB}/job.log", 0o644, 0o600, "1 file such as"),
        (f"jobs/{JOB}/stdout", 0o640, 0o600, "1 file such as"),
        ("jobmanager.log", 0o664, 0o600, "1 file such as"),
        ("token", 0o644, 0o600, "Others could read the token"),
    ],
)
def test_what_is_too_open_is_closed_and_said_once(
    home: PystateHome, name: str, open_mode: int, closed: int, said: str
) -> None:
    place = home.root / name
    place.chmod(open_mode)

    (sentence,) = close_to_others(home)

    assert said in sentence
    assert mode(place) == closed
    assert (home.token.read_text() != "the old token\n") is (name == "token"), "who has read it must not be able to use it"
    assert close_to_others(home) == []


def test_links_in_a_home_change_nothing_elsewhere(home: PystateHome, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("x")
    victim.chmod(0o644)
    (home.jobs / JOB / "job.log.0000000000000001").symlink_to(victim)
    (home.jobs / ("b" * 32)).symlink_to(tmp_path)
    before = mode(tmp_path)

    assert close_to_others(home) == []
    assert (mode(victim), mode(tmp_path)) == (0o644, before)


def test_pipes_that_are_called_like_logs_hang_nobody(home: PystateHome) -> None:
    os.mkfifo(home.jobs / JOB / "job.log.1", 0o644)
    assert close_to_others(home) == []


@needs_root
@pytest.mark.parametrize("name", ["", "jobs", f"jobs/{JOB}", f"jobs/{JOB}/secret", "token"])
def test_what_belongs_to_another_user_is_refused(home: PystateHome, name: str) -> None:
    place = home.root / name
    if name.endswith("secret"):
        place.touch(mode=0o600)
    os.chown(place, NOBODY, NOBODY)

    with pytest.raises(ForeignHomeError, match="who could change what runs as root") as raised:
        close_to_others(home)
    assert str(place) in raised.value.message
    assert "set PYSTATE_HOME" in str(raised.value.hint)
    os.chown(place, 0, 0)


@needs_root
def test_a_token_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text("x" * 32)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        read_token(str(path), "pystate.rest.token-file")


def test_a_job_manager_closes_its_home_and_says_so(home: PystateHome, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(home.jobs / JOB)
    home.root.chmod(0o755)
    home.token.chmod(0o644)
    with caplog.at_level("WARNING"):
        manager = ManagerThread(home.root).start()
        try:
            assert manager.request("GET", "/pystate/jobs/" + JOB)[0] == 404
            old = {"Authorization": "Bearer the old token"}
            assert manager.request("GET", "/pystate/jobs/" + JOB, headers=old, token=False)[0] == 401
        finally:
            manager.stop()
    assert (mode(home.root), mode(home.token)) == (0o700, 0o600)
    assert "so that others could look into it; it is 700 now" in caplog.text


def test_files_of_a_home_are_its_owners_whatever_the_umask_is(tmp_path: Path) -> None:
    environment = {**os.environ, "PYSTATE_HOME": str(tmp_path / "home")}
    command = 'umask 000; exec "$0" -m pystate_cli cluster "$1"'
    for verb in ("start", "stop"):
        done = subprocess.run(
            ["/bin/sh", "-c", command, sys.executable, verb], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert mode(tmp_path / "home") == 0o700
        logs = list((tmp_path / "home").glob("jobmanager.log*"))
        assert logs
        assert {mode(path) for path in logs} == {0o600}


def test_files_of_jobs_are_their_owners_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        manager = ManagerThread(tmp_path / "home").start()
        try:
            job = manager.submit()
            manager.wait_for(job, "RUNNING")
            trigger = manager.request("POST", f"/jobs/{job}/savepoints", {"target-directory": "/tmp/s"})[1]["request-id"]
            manager.operation(job, trigger)
        finally:
            manager.stop()
    finally:
        os.umask(before)
    open_ones = [path for path in manager.home.root.rglob("*") if path.lstat().st_mode & 0o077]
    # the fake driver makes this folder in its own way
    assert [path for path in open_ones if path.name != "operations"] == []
