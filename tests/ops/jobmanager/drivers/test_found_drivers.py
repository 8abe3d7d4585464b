"""A driver is who proves the job's secret, or is the very process that was started for the job; arguments prove nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pystate.common.files.home import JobDirectory, PystateHome, new_job_id, write_json
from pystate.common.processes.control import ControlServer, new_secret
from pystate.common.processes.processes import signal_process, started_at
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.drivers.driver_process import AdoptedDriver, DriverLauncher
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from tests.faults.processes import needs_proc
from tests.ops.jobmanager.harness import eventually

pytestmark = needs_proc

Pose = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def home(tmp_path) -> PystateHome:
    return PystateHome(tmp_path / "home")


@pytest.fixture
def directory(home) -> JobDirectory:
    directory = home.job(new_job_id())
    directory.path.mkdir(parents=True, mode=0o700)
    directory.secret.write_bytes(new_secret())
    return directory


@pytest.fixture
def pose(home) -> Iterator[Pose]:
    """Start processes whose arguments say that they are a job's driver."""
    started: list[subprocess.Popen[bytes]] = []

    def start(directory: JobDirectory, user: int | None = None) -> subprocess.Popen[bytes]:
        script = "import os, sys; print('up', flush=True); sys.stdin.read()"
        if user is not None:
            script = script.replace("print", f"os.setuid({user}); print", 1)
        words = ["--home", str(home.root), "--job-id", directory.path.name, "--", "job.py"]
        process = subprocess.Popen(
            [sys.executable, "-c", script, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def found(home: PystateHome) -> dict[str, int]:
    return {job: driver.pid for job, driver in DriverLauncher(home, patience_s=0).find_running().items()}


def listen(directory: JobDirectory, pid: int, secret: bytes | None = None, **more: str | None) -> None:
    server = ControlServer(secret or directory.secret.read_bytes(), lambda request: request)
    server.start()
    write_json(directory.driver, {"pid": pid, "host": server.host, "port": server.port, **more}, mode=0o600)


def test_arguments_prove_nothing(home, directory, pose):
    pose(directory)
    assert found(home) == {}


def test_who_listens_where_the_folder_says_and_proves_the_secret_is_the_driver(home, directory, pose):
    poser, driver = pose(directory), pose(directory)
    listen(directory, driver.pid)
    another = pose(directory)
    assert found(home) == {directory.path.name: driver.pid}
    assert len({poser.pid, driver.pid, another.pid}) == 3


def test_who_does_not_share_the_secret_is_no_driver(home, directory, pose):
    process = pose(directory)
    listen(directory, process.pid, new_secret())
    assert found(home) == {}


def test_a_number_that_was_given_to_another_process_is_no_driver(home, directory, pose):
    process = pose(directory)
    earlier = f"{started_at(process.pid)}1"
    listen(directory, process.pid, new_secret(), started=earlier)
    write_json(directory.process, {"pid": process.pid, "started": earlier})
    assert found(home) == {}


def test_a_driver_that_is_stopped_is_known_by_its_begin(home, directory, pose):
    process = pose(directory)
    write_json(directory.process, {"pid": process.pid, "started": started_at(process.pid)})
    os.kill(process.pid, signal.SIGSTOP)
    assert found(home) == {directory.path.name: process.pid}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts processes of others")
def test_a_process_of_another_user_is_no_driver(home, directory, pose):
    process = pose(directory, user=65534)
    listen(directory, process.pid, started=started_at(process.pid))
    assert found(home) == {}


def test_a_folder_that_others_may_write_proves_nothing(home, directory, pose):
    process = pose(directory)
    listen(directory, process.pid)
    directory.path.chmod(0o777)
    assert found(home) == {}
    directory.path.chmod(0o700)
    assert found(home) == {directory.path.name: process.pid}


def test_a_driver_that_has_just_been_started_gets_time_to_prove_it(home, directory, pose, monkeypatch):
    process = pose(directory)
    asked: list[float] = []
    asking, sleep = threading.current_thread(), time.sleep

    def pause(seconds: float) -> None:
        if threading.current_thread() is not asking:  # it is one of a test before
            sleep(seconds)
            return
        asked.append(seconds)
        if len(asked) == 3:
            listen(directory, process.pid)

    monkeypatch.setattr("pystate.ops.jobmanager.drivers.found_drivers.time.sleep", pause)
    drivers = DriverLauncher(home, patience_s=60).find_running()
    assert drivers[directory.path.name].pid == process.pid
    assert len(asked) == 3


def test_nobody_is_waited_for_where_it_is_known_who_was_started(home, directory, pose, monkeypatch):
    driver, _ = pose(directory), pose(directory)
    write_json(directory.process, {"pid": driver.pid, "started": started_at(driver.pid)})
    driver.kill()
    driver.wait()
    monkeypatch.setattr("pystate.ops.jobmanager.drivers.found_drivers.time.sleep", pytest.fail)
    assert DriverLauncher(home, patience_s=60).find_running() == {}


def test_a_job_does_not_go_on_in_a_process_that_poses_as_its_driver_nor_is_that_one_killed(home, directory, pose):
    poser = pose(directory)
    job_id = directory.path.name
    JobRecord(job_id, "job", 1, RecordPhase.STARTED, pid=poser.pid).write(directory)
    dispatcher = Dispatcher(home, DriverLauncher(home, patience_s=0))
    dispatcher.recover()

    eventually(lambda: dispatcher.job(job_id).state().value == "FAILED")
    failure = dispatcher.job(job_id).status()["failure"]
    assert failure["message"].startswith("The job's driver can't be started again: "), "nothing was submitted here"
    assert poser.poll() is None


def test_a_signal_meets_the_process_that_was_meant_or_none(directory, pose):
    process = pose(directory)
    started = started_at(process.pid)
    assert started is not None
    assert not signal_process(process.pid, f"{started}1", signal.SIGKILL)
    assert not signal_process(process.pid, None, signal.SIGKILL)
    assert process.poll() is None
    assert signal_process(process.pid, started, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert started_at(process.pid) is None
    assert not signal_process(process.pid, started, signal.SIGKILL)


def test_waiting_for_a_driver_whose_number_another_process_has_ends_at_once(home, directory, pose):
    process = pose(directory)
    AdoptedDriver(process.pid, home.root, started=f"{started_at(process.pid)}1").wait()
    DriverLauncher(home).end_replaced(directory.path.name, AdoptedDriver(process.pid, home.root, started="another"))
    assert process.poll() is None
