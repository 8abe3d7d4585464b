"""A home on a disk that is full at each step of a job: nothing is lost, and all goes on once there is room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pystate.common.files.home import read_json
from pystate.ops.jobmanager.drivers.driver_process import DRIVER_COMMAND, DriverLauncher
from pystate_cli.command_line import run_command_line
from tests.ops.jobmanager.drivers.test_driver_restart import details, failure_of, pid_of, starts, wait_for_another
from tests.ops.jobmanager.harness import PYTHON_PATH, REPOSITORY, ManagerProcess, eventually
from tests.ops.jobmanager.high_availability.conftest import LEASE, raw_get, standby_options, wait_until_leads
from tests.ops.jobmanager.small_disk import IS_ROOT, SmallDisk, can_unshare, needs_root, small_disk

PROGRAM = """
import pathlib, sys, time
print("a line of the program", file=sys.stderr)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
print("more than the file has room for" * 1000, file=sys.stderr)
raise ValueError("why it failed")
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def managers(tmp_path: Path) -> Iterator[Callable[..., ManagerProcess]]:
    started: list[ManagerProcess] = []

    def start(root: Path, settings: dict[str, str] | None = None, **options: object) -> ManagerProcess:
        manager = ManagerProcess(root, settings, **options)
        started.append(manager)
        return manager.start()

    yield start
    for manager in started:
        manager.stop()


@pytest.fixture
def manager(disk: SmallDisk, managers: Callable[..., ManagerProcess]) -> ManagerProcess:
    return managers(disk.root / "home")


def log_of(manager: ManagerProcess) -> str:
    return manager.home.jobmanager_log.read_text()


def record_of(manager: ManagerProcess, job: str) -> dict:
    return dict(read_json(manager.home.job(job).record))


@pytest.mark.skipif(IS_ROOT or not can_unshare(), reason="the tests below run as they are, or nobody may unshare")
def test_all_of_these_in_a_namespace_of_our_own() -> None:
    command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-x", __file__]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@needs_root
def test_a_submission_to_a_full_disk_is_refused_and_the_next_one_is_not(manager, disk):
    with disk.full():
        status, answer = manager.request("POST", "/pystate/jobs", manager.submission())
        assert (status, answer["errors"]) == (507, ["The job's files can't be written: No space left on device."])
        assert os.listdir(manager.home.jobs) == []

    manager.wait_for(manager.submit(), "RUNNING")


@needs_root
def test_a_driver_that_is_killed_on_a_full_disk_is_followed_by_one_other_once_there_is_room(manager, disk):
    job = manager.submit("--restart", "1", "10")
    manager.wait_for(job, "RUNNING")
    with disk.full():
        pid = pid_of(manager, job)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: job not in DriverLauncher(manager.home).find_running())
        time.sleep(1)  # it would have been restarted by then
        assert manager.state(job) in ("RUNNING", "RESTARTING")

    wait_for_another(manager, job, pid)

    assert details(manager, job)["pystate"]["attempt"] == 1
    assert starts(manager, job) == 2


@needs_root
def test_a_cancel_on_a_full_disk_ends_a_job_for_good(manager, disk):
    """Also where its driver was killed, and the job manager is killed, too."""
    job = manager.submit("--restart", "3", "10")
    manager.wait_for(job, "RUNNING")
    disk.fill()
    os.kill(pid_of(manager, job), signal.SIGKILL)
    eventually(lambda: job not in DriverLauncher(manager.home).find_running())

    assert manager.request("PATCH", f"/jobs/{job}")[0] == 202

    manager.wait_for(job, "CANCELED")
    assert record_of(manager, job)["cancel_requested"]
    manager.kill()
    disk.free()
    manager.start()
    assert manager.state(job) == "CANCELED"
    assert starts(manager, job) == 1


@needs_root
def test_a_cancel_on_a_full_disk_reaches_a_driver_that_lives(manager, disk):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    with disk.full():
        assert manager.request("PATCH", f"/jobs/{job}")[0] == 202
        manager.wait_for(job, "CANCELED")


@needs_root
def test_a_program_that_fails_before_its_job_keeps_record_log_and_exception(disk, managers, tmp_path):
    manager = managers(disk.root / "home", driver=DRIVER_COMMAND)
    manager.job_file.write_text(PROGRAM)
    job = manager.submit(str(tmp_path / "go"))
    eventually(lambda: "a line of the program" in manager.home.job(job).log.read_text())
    with disk.full():
        (tmp_path / "go").touch()
        manager.wait_for(job, "FAILED")
        assert failure_of(manager, job) == "why it failed"
        eventually(lambda: record_of(manager, job)["phase"] == "ENDED")
        manager.kill()

    manager.start()

    assert manager.state(job) == "FAILED"
    assert failure_of(manager, job) == "why it failed"
    assert "a line of the program" in manager.home.job(job).log.read_text()


@needs_root
def test_a_job_manager_that_is_started_on_a_full_disk_takes_all_jobs_over(manager, disk):
    """What the killed one has left of its address is room for the next one's."""
    jobs = [manager.submit("--restart", "3", "10") for _ in range(2)]
    for job in jobs:
        manager.wait_for(job, "RUNNING")
    pids = [pid_of(manager, job) for job in jobs]
    manager.kill()
    with disk.full():
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        manager.start()
        assert manager.request("PATCH", f"/jobs/{jobs[1]}")[0] == 202
        manager.wait_for(jobs[1], "CANCELED")
        assert manager.state(jobs[0]) in ("RUNNING", "RESTARTING")

    wait_for_another(manager, jobs[0], pids[0])

    assert manager.state(jobs[1]) == "CANCELED"


@needs_root
def test_a_job_manager_that_has_no_room_at_all_says_so(disk, monkeypatch, capfd):
    monkeypatch.setenv("PYSTATE_HOME", str(disk.root / "home"))
    monkeypatch.setenv("PYTHONPATH", PYTHON_PATH)
    with disk.full():
        assert run_command_line(["cluster", "start"]) == 1
    said = capfd.readouterr().err
    assert "error: The job manager can't write to its home: No space left on device." in said
    assert "try: make room on the disk" in said


@needs_root
def test_who_leads_goes_on_leading_and_a_takeover_waits_for_room(disk, managers, tmp_path):
    options = standby_options(str(disk.root / "ha"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = managers(tmp_path / "one" / "home", options)
    wait_until_leads(one)
    two = managers(tmp_path / "two" / "home", options)
    job = one.submit("--restart", "3", "10")
    cancelled = one.submit("--restart", "3", "10")
    one.wait_for(job, "RUNNING")
    one.wait_for(cancelled, "RUNNING")
    with disk.full():
        time.sleep(2 * float(LEASE["lease-duration"].split()[0]))
        assert [raw_get(manager, "/jobs")[0] for manager in (one, two)] == [200, 307]
        assert one.request("PATCH", f"/jobs/{cancelled}")[0] == 202
        one.wait_for(cancelled, "CANCELED")
        one.kill()
        time.sleep(2 * float(LEASE["lease-duration"].split()[0]))

    wait_until_leads(two)

    assert (two.state(job), two.state(cancelled)) == ("RUNNING", "CANCELED")
    assert log_of(two).count("the storage of the lease can't be used") <= 1


@needs_root
def test_the_state_of_the_disk_is_told(manager, disk, monkeypatch, capfd):
    monkeypatch.setenv("PYSTATE_HOME", str(manager.home.root))
    disks = manager.request("GET", "/pystate/disks")[1]["disks"]
    assert [(one["name"], one["total"], one["low"]) for one in disks] == [("home", 4 << 20, True), ("logs", 4 << 20, True)]
    assert run_command_line(["list"]) == 0
    warning = capfd.readouterr().err
    assert f"free of 4.00 MB at {manager.home.root} (home, logs): jobs fail on a full disk" in warning
    free = manager.request("GET", "/jobmanager/metrics?get=disk.home.diskFree")[1]
    assert 0 < int(free[0]["value"]) < 4 << 20


@needs_root
def test_a_read_only_home_is_said_to_be_one(disk, monkeypatch, capfd, tmp_path):
    home = disk.root / "home"
    home.mkdir()
    (tmp_path / "job.py").write_text("")
    monkeypatch.setenv("PYSTATE_HOME", str(home))
    subprocess.run(["mount", "-o", "remount,ro", str(disk.root)], check=True)  # noqa: S607
    for command in (["cluster", "start"], ["run", str(tmp_path / "job.py")]):
        assert run_command_line(command) == 1
        said = capfd.readouterr().err
        assert "Read-only file system" in said
        assert f"at: {home}" in said
        assert "try: set PYSTATE_HOME to a folder that you may write to" in said
        assert "pystate itself" not in said
