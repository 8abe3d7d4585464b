"""A driver that gives no sign of life is told of, and replaced by another one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.files.home import JobDirectory
from pystate.common.processes.processes import cpu_ticks
from pystate.ops.jobmanager.drivers.driver_heartbeat import DriverHeartbeat, HeartbeatTerms, Sign
from pystate_cli.client import job_manager
from tests.ops.jobmanager.drivers.test_driver_restart import details, pid_of, wait_for_another
from tests.ops.jobmanager.harness import ManagerThread, eventually

TERMS = HeartbeatTerms(interval_ms=10_000, timeout_ms=50_000)
QUICK = {"heartbeat.interval": "100 ms", "heartbeat.timeout": "3 s"}


def silence_of(*signs, passed_ms=10_000):
    silence = None
    for number, sign in enumerate(signs):
        silence = TERMS.after(silence, sign, passed_ms, 1_000 + number)
    return silence


@pytest.mark.parametrize("sign", [Sign.STOPPED, Sign.HANGS])
def test_one_that_does_nothing_for_the_whole_time_is_lost(sign):
    assert not TERMS.is_lost(silence_of(*[sign] * 5))
    lost = silence_of(*[sign] * 6)
    assert TERMS.is_lost(lost)
    assert (lost.since, lost.lasted_ms) == (1_000, 50_000)


def test_one_whose_process_works_is_told_of_but_not_replaced():
    silence = silence_of(*[Sign.RUNS] * 100, Sign.HANGS)
    assert TERMS.is_told(silence)
    assert not TERMS.is_lost(silence)


def test_a_late_answer_is_not_told_of_but_a_stopped_driver_is_at_once():
    assert not TERMS.is_told(silence_of(Sign.RUNS, Sign.HANGS))
    assert TERMS.is_told(silence_of(Sign.STOPPED))


def test_an_answer_ends_the_silence():
    assert silence_of(Sign.STOPPED, Sign.STOPPED, Sign.ANSWERS) is None


def test_what_passes_while_the_job_manager_itself_is_stopped_does_not_count():
    assert not TERMS.is_lost(silence_of(Sign.STOPPED, Sign.STOPPED, passed_ms=10**9))


def test_one_that_may_not_be_replaced_yet_is_looked_at_again(monkeypatch, tmp_path):
    answers, lost = iter([False, False, True]), []
    heartbeat = DriverHeartbeat(
        JobDirectory(tmp_path), 1, HeartbeatTerms(interval_ms=1, timeout_ms=1), lambda silence: None,
        lambda silence: lost.append(silence) or next(answers),
    )  # fmt: skip
    monkeypatch.setattr(heartbeat, "_look", lambda: Sign.STOPPED)

    heartbeat.run()

    assert len(lost) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_the_processor_time_of_a_process_grows_while_it_works():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        begun = cpu_ticks(process.pid)
        eventually(lambda: cpu_ticks(process.pid) > begun)
        process.kill()
    assert cpu_ticks(process.pid) is None


def test_the_command_that_starts_a_job_manager_hands_the_options_on():
    assert job_manager._properties(Configuration(QUICK)) == [word for key in QUICK for word in ("-D", f"{key}={QUICK[key]}")]


@pytest.fixture
def watching(tmp_path):
    manager = ManagerThread(tmp_path / "home").start(Configuration(QUICK))
    yield manager
    manager.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether a process is stopped")
def test_a_stopped_driver_is_told_of_and_killed_and_another_goes_on(watching):
    job = watching.submit("--restart", "5", "10")
    watching.wait_for(job, "RUNNING")
    pid = pid_of(watching, job)

    os.kill(pid, signal.SIGSTOP)

    (listed,) = eventually(
        lambda: [
            one
            for one in watching.request("GET", "/jobs/overview")[1]["jobs"]
            if one["pystate"]["silent-since"] is not None or one["pystate"]["restarts"]
        ]
    )
    assert listed["state"] in ("RUNNING", "RESTARTING")
    wait_for_another(watching, job, pid)
    told = details(watching, job)["pystate"]
    assert told["attempt"] == 1
    assert told["failure"]["class"] == "DriverLostError"
    assert "it was stopped (SIGSTOP, a debugger). It was killed after" in told["failure"]["pystate"]["message"]
    assert told["waits-for"] is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whether a process is stopped")
def test_a_driver_that_goes_on_in_time_keeps_its_job(tmp_path):
    manager = ManagerThread(tmp_path / "home").start(Configuration({**QUICK, "heartbeat.timeout": "10 min"}))
    try:
        job = manager.submit("--restart", "5", "10")
        manager.wait_for(job, "RUNNING")
        pid = pid_of(manager, job)
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: details(manager, job)["pystate"]["waits-for"])
        refused = manager.request("GET", f"/jobs/{job}/checkpoints")
        assert refused[0] != 503 or f"kill -CONT {pid}" in str(refused[1])
        os.kill(pid, signal.SIGCONT)
        eventually(lambda: details(manager, job)["pystate"]["waits-for"] is None)
        assert (pid_of(manager, job), details(manager, job)["pystate"]["attempt"]) == (pid, 0)
    finally:
        manager.stop()
