"""`pystate cluster`: the job manager as a process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome, read_json, write_json
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from tests.faults.processes import needs_proc
from tests.ops.jobmanager.harness import ManagerProcess, eventually
from tests.ops.jobmanager.high_availability.conftest import standby_options, wait_until_leads
from tests.waiting import LONGEST_S


@pytest.fixture
def home(own_home, tmp_path, monkeypatch):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text('"rest.port" = 0\n')
    home = PystateHome(own_home)
    yield home
    entry = read_json(home.jobmanager)
    if entry is not None:
        os.kill(entry["pid"], signal.SIGKILL)


@pytest.fixture
def manager_process(own_home):
    served = ManagerProcess(own_home)
    try:
        yield served.start()
    finally:
        if served.process is not None and served.process.poll() is None:
            served.process.send_signal(signal.SIGCONT)
        served.stop()


def test_start_status_and_stop(home, pystate):
    started = pystate("cluster", "start")
    pid = read_json(home.jobmanager)["pid"]
    again = pystate("cluster", "start")
    shown = pystate("cluster", "status")
    stopped = pystate("cluster", "stop")
    again_as_json = json.loads(pystate("cluster", "start", "--json").out)
    stopped_as_json = json.loads(pystate("cluster", "stop", "--json").out)

    assert (again_as_json["started"], stopped_as_json) == (
        True,
        {"stopped": True, "pid": again_as_json["pid"], "jobsLeft": []},
    )
    assert (started.code, started.err) == (0, f"Started the job manager (process {pid}).\n")
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", started.out)
    assert (again.code, again.out) == (0, started.out)
    assert again.err == f"The job manager is running already (process {pid}).\n"
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines()] == [
        "status",
        "address",
        "pid",
        "version",
        "uptime",
        "home",
        "role",
        "jobs",
    ]
    assert (stopped.code, stopped.out) == (0, "")
    assert stopped.err == f"Stopped the job manager (process {pid}).\n"
    assert not home.jobmanager.exists()
    once_more = pystate("cluster", "stop")
    assert (once_more.code, once_more.err) == (0, f"No job manager is running for this home ({home.root}).\n")
    gone = pystate("cluster", "status", "--json")
    assert (gone.code, json.loads(gone.out)["status"]) == (1, "stopped")
    assert "or pystate cluster start" in gone.err


def in_the_foreground(home):
    command = [sys.executable, "-m", "pystate_cli", "cluster", "start", "--foreground", "-D", "rest.port=0"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYSTATE_HOME": str(home.root)})


def test_in_the_foreground_the_command_is_the_job_manager_and_gets_its_signals(home):
    with in_the_foreground(home) as started:
        assert any(f"serves {home.root} on 127.0.0.1" in line for line in started.stderr)
        assert read_json(home.jobmanager)["pid"] == started.pid
        started.send_signal(signal.SIGTERM)
        assert started.wait(LONGEST_S) == 0
    assert read_json(home.jobmanager) is None


@needs_proc
def test_a_job_manager_that_is_ended_while_it_starts_ends_at_once_and_leaves_nothing(home):
    home.root.mkdir(parents=True, exist_ok=True)
    with home.jobmanager_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as one that starts has it: waited for
        with in_the_foreground(home) as started:
            eventually(lambda: handles(started.pid, signal.SIGTERM))
            started.send_signal(signal.SIGTERM)
            assert started.wait(LONGEST_S) == 0
            assert "Traceback" not in started.stderr.read()
    assert read_json(home.jobmanager) is None


def handles(pid, number):
    """Return whether a process handles a signal itself."""
    with contextlib.suppress(OSError):
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
        return bool(int(caught[1], 16) >> (number - 1) & 1)
    return False


def test_start_says_when_everybody_may_name_places(home, pystate):
    option = "pystate.rest.allow-unauthenticated=true"
    for _ in range(2):  # also of one that runs already
        started = pystate("cluster", "start", "-D", option)
        assert (started.code, "without a token, cancel jobs, write savepoints to every place" in started.err) == (0, True)
        assert "warning: pystate.rest.allow-unauthenticated = true" in started.err
    eventually(lambda: "whoever reaches the job manager's port may" in home.jobmanager_log.read_text())


def test_options_that_the_running_one_has_not_are_named(home, pystate):
    own = ["-D", "jobmanager.spare-drivers.min-free-memory=2048m"]
    jobs = ["-D", "state.backend.type=rocksdb"]
    pystate("cluster", "start", *own)
    same = pystate("cluster", "start", "-D", "jobmanager.spare-drivers.min-free-memory=2gb", *jobs)
    assert (same.code, "without what was asked for" in same.err) == (0, False)

    asked = ("rest.port=18499", "jobmanager.spare-drivers=3", "pystate.rest.token-file=/x")
    other = pystate("cluster", "start", *(word for option in asked for word in ("-D", option)))
    assert (other.code, other.out) == (0, same.out)
    missed = "rest.port = 18499, jobmanager.spare-drivers = 3, pystate.rest.token-file = /x"
    assert f"runs without what was asked for: {missed}. To change" in other.err


def test_a_job_manager_that_was_killed_twice_is_started_twice(home, pystate):
    for _ in range(2):
        pystate("cluster", "start")
        entry = read_json(home.jobmanager)
        os.kill(entry["pid"], signal.SIGKILL)
        os.waitpid(entry["pid"], 0)
        status = pystate("cluster", "status")
        assert status.code == 1
        assert f"The job manager of this home (process {entry['pid']}) is dead" in status.err
    assert pystate("cluster", "stop").code == 0
    assert pystate("cluster", "start").err.startswith("Started the job manager")


def test_a_stale_address_with_the_number_of_another_process_hurts_nobody(home, pystate):
    home.root.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as innocent:
        entry = {"pid": innocent.pid, "address": "127.0.0.1", "port": 1, "instance": "x", "version": "0", "started_at": 0}
        write_json(home.jobmanager, entry)

        assert pystate("cluster", "stop").code == 0
        assert pystate("cluster", "status").code == 1
        assert innocent.poll() is None
        assert pystate("cluster", "start").code == 0
        innocent.kill()


def test_stop_says_what_becomes_of_the_jobs_and_the_next_one_finds_them(manager_process, pystate):
    job = manager_process.submit()
    manager_process.wait_for(job, "RUNNING")

    stopped = pystate("cluster", "stop")

    assert stopped.code == 0
    assert "1 job goes on; the next job manager (pystate cluster start, or pystate run) finds it again." in stopped.err
    assert job in DriverLauncher(manager_process.home).find_running()
    manager_process.process.wait(LONGEST_S)
    manager_process.start()
    status = pystate("cluster", "status", "--json")
    assert json.loads(status.out)["jobs"] == {"RUNNING": 1}


def test_stop_may_cancel_the_jobs_first(manager_process, pystate):
    jobs = [manager_process.submit(), manager_process.submit("--finish", "0")]
    manager_process.wait_for(jobs[0], "RUNNING")
    manager_process.wait_for(jobs[1], "FINISHED")

    stopped = pystate("cluster", "stop", "--cancel-jobs")

    assert (stopped.code, stopped.err.splitlines()[0]) == (0, f"Job {jobs[0]} has ended (CANCELED).")
    assert "go on" not in stopped.err
    eventually(lambda: not DriverLauncher(manager_process.home).find_running().keys() & set(jobs))
    refused = pystate("cluster", "stop", "--cancel-jobs")
    assert (refused.code, "could cancel jobs" in refused.err) == (1, True)


def test_a_job_manager_that_does_not_answer_is_said_so(manager_process, pystate, tmp_path, monkeypatch):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text('"client.timeout" = "500 ms"\n')
    os.kill(manager_process.process.pid, signal.SIGSTOP)

    shown = pystate("cluster", "status")

    assert shown.code == 1
    assert "status   unresponsive" in re.sub(" +", "   ", shown.out)
    assert f"The job manager (process {manager_process.process.pid}) runs, and does not answer." in shown.err


def test_a_job_manager_that_was_stopped_is_said_to_be(manager_process, pystate, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text('"client.timeout" = "500 ms"\n')
    pid = manager_process.process.pid
    os.kill(pid, signal.SIGSTOP)

    asked = pystate("list")

    assert asked.code == 1
    assert f"its process {pid} is stopped: kill -CONT {pid} lets it go on" in asked.err


def test_commands_find_the_leader(tmp_path, pystate, own_home):
    shared = standby_options(str(tmp_path / "ha"))
    leader, standby = ManagerProcess(tmp_path / "other", shared), ManagerProcess(own_home, shared)
    lines = "".join(f'"{key}" = "{value}"\n' for key, value in shared.items())
    try:
        wait_until_leads(leader.start())
        listed_by_storage = None
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "flink-conf.toml").write_text(lines)
        job = leader.submit()
        leader.wait_for(job, "RUNNING")
        listed_by_storage = pystate("list")
        standby.start()
        shown = json.loads(pystate("cluster", "status", "--json").out)
        addressed = pystate("list", "-m", f"127.0.0.1:{standby.port}")
        refused = pystate("cluster", "stop", "--cancel-jobs")
        cancelled = pystate("cancel", job)
    finally:
        standby.stop()
        leader.stop()

    assert job in listed_by_storage.out
    assert (shown["role"], shown["leader"]) == ("standby", f"127.0.0.1:{read_port(shown)}")
    assert shown["jobs"] == {"RUNNING": 1}
    assert job in addressed.out
    assert (refused.code, "does not lead" in refused.err) == (1, True)
    assert cancelled.code == 0


def test_a_leader_that_does_not_answer_is_no_fault_of_its_standby(tmp_path, pystate, own_home):
    patient = {
        "high-availability.filesystem.lease-duration": "10 min",
        "high-availability.filesystem.renew-deadline": "5 min",
    }
    shared = {**standby_options(str(tmp_path / "ha")), **patient}
    leader, standby = ManagerProcess(tmp_path / "other", shared), ManagerProcess(own_home, shared)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flink-conf.toml").write_text("".join(f'"{key}" = "{value}"\n' for key, value in shared.items()))
    try:
        wait_until_leads(leader.start())
        standby.start()
        os.kill(leader.process.pid, signal.SIGSTOP)
        shown = pystate("cluster", "status", "--json")
    finally:
        os.kill(leader.process.pid, signal.SIGCONT)
        standby.stop()
        leader.stop()

    assert shown.code == 0
    facts = json.loads(shown.out)
    assert (facts["role"], facts["jobs"]) == ("standby", None)


def read_port(shown: dict) -> str:
    return str(shown["leader"]).rpartition(":")[2]


def test_a_damaged_address_stops_no_command(home, pystate):
    home.root.mkdir(mode=0o700)
    for damage in (b"", b"{", b"[]", b"{}"):
        home.jobmanager.write_bytes(damage)
        for words in (("list",), ("cluster", "status")):
            shown = pystate(*words)
            assert (shown.code, f"No job manager is running for this home ({home.root})." in shown.err) == (1, True)
        assert pystate("cluster", "stop").code == 0
    assert pystate("cluster", "start").err.startswith("Started the job manager")
    home.jobmanager.write_bytes(b"{")
    eventually(lambda: pystate("cluster", "status").code == 0)
