"""The driver, its JVM and the job manager killed: the job comes back by itself, from its latest checkpoint."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pystate.common.files.home import read_json, write_json
from pystate.runtime.job_folder.temporary_folders import folder_prefix
from tests.e2e.commands.test_command_line import Shell, state
from tests.engines import MICRO_BATCH, on_both_engines
from tests.faults.injection import IN_DRIVERS, Action, Faults
from tests.faults.processes import command_of, descendants, is_gone, kill, needs_proc
from tests.faults.workload import RECOVERING, Watched
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.timeout(300), on_both_engines]

ROOT = Path(__file__).parents[2]
PAIR = re.compile(r"\('(word-\d+)', (\d+)\)")


class Job:
    """A detached word count, as an operator sees it."""

    def __init__(self, shell: Shell, root: Path, engine: str = MICRO_BATCH) -> None:
        self.shell = shell
        self.watched = Watched(root)
        shell.folder = self.watched.folder
        options = {**RECOVERING, "execution.engine": engine}
        self.options = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]

    def start(self):
        self.id = self.shell.run("-p", "2", *self.options)
        self.directory = self.shell.home / "jobs" / self.id
        return self

    @property
    def driver(self) -> int:
        return int(read_json(self.directory / "driver.json")["pid"])

    @property
    def job_manager(self) -> int:
        return int(read_json(self.shell.home / "jobmanager.json")["pid"])

    def start_job_manager(self) -> None:
        command = [sys.executable, "-m", "pystate.ops.jobmanager", "--home", str(self.shell.home), "--port", "0"]
        with (self.shell.home / "jobmanager.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=self.shell.environment
            )
        wait_until(lambda: (read_json(self.shell.home / "jobmanager.json") or {}).get("pid") == process.pid)

    def kill_job_manager(self) -> None:
        pid = self.job_manager
        kill(pid)
        wait_until(lambda: is_gone(pid))

    @property
    def status(self) -> dict:
        return read_json(self.directory / "status.json")

    @property
    def log(self) -> str:
        return (self.directory / "job.log").read_text()

    def wait_for_log(self, line: str) -> None:
        """Wait for what the driver has said: a process of its own writes the log, which may be behind the driver's end."""
        wait_until(lambda: line in self.log)

    def seen(self) -> set:
        return {(word, int(count)) for word, count in PAIR.findall(self.log)}

    def wait_for_words(self):
        wait_until(lambda: self.seen() >= self.watched.pairs)

    def wait_for_checkpoint(self):
        def latest():
            return max(
                (int(path.parent.name[4:]) for path in self.shell.home.glob("checkpoints/*/chk-*/_metadata")), default=0
            )

        seen = latest()
        return wait_until(lambda: latest() > seen and latest())

    def wait_for_attempt(self, number):
        wait_until(lambda: self.status["attempt"] == number and self.status["state"] == "RUNNING")

    def check_exact(self):
        self.wait_for_words()
        path = self.shell("cancel", "-s", self.id).stdout.strip()
        assert state(path) == dict(self.watched.words), "state is neither lost nor doubled"
        assert self.seen() == self.watched.pairs, "every row came out, and none with a count that never was"


@pytest.fixture
def job(tmp_path, engine):
    shell = Shell(tmp_path)
    yield Job(shell, tmp_path, engine)
    shell.close()


@pytest.mark.slow  # five starts of a driver; tests/faults/test_driver_takeover.py has them without
def test_a_job_outlives_its_driver_and_its_job_manager(job):
    job.watched.add(3)
    job.start().wait_for_words()
    checkpoint = job.wait_for_checkpoint()
    first = job.driver
    left = descendants(first)
    assert any("java" in command_of(pid) for pid in left)

    kill(first)
    wait_until(lambda: job.status["state"] == "RESTARTING")
    assert f"{job.id} : word count (RESTARTING)" in job.shell("list").stdout
    job.watched.add(3)
    job.wait_for_attempt(1)
    number = int(re.findall(r"Attempt 1 starts from checkpoint (\d+) ", job.log)[-1])
    assert number >= checkpoint
    assert "signal SIGKILL" in job.status["failure"]["message"]
    assert [pid for pid in left if not is_gone(pid)] == [], "nothing of the dead driver is left"
    job.wait_for_words()
    assert job.wait_for_checkpoint() > number, "checkpoint ids go on"
    scratch = list(Path("/dev/shm").glob(f"{folder_prefix(job.id)}*"))
    assert len(scratch) == 1, "the dead driver's is removed"
    slots = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(folder_prefix(job.id))]
    assert sorted(name.split("-")[2] for name in slots) == ["1", "1"]

    # a job manager that comes back finds its driver again, and starts another one when it dies
    second = job.driver
    job.kill_job_manager()
    job.start_job_manager()
    assert f"{job.id} : word count (RUNNING)" in job.shell("list").stdout
    assert job.driver == second
    job.kill_job_manager()
    kill(second)
    wait_until(lambda: is_gone(second))
    job.watched.add(3)
    job.start_job_manager()
    assert f"{job.id} : word count (RESTARTING)" in job.shell("list").stdout
    job.wait_for_attempt(2)
    job.check_exact()
    assert not (job.directory / "environment.json").exists()


@pytest.mark.slow
def test_a_job_outlives_its_jvm_and_a_stopped_driver_is_left_alone(job):
    job.watched.add(3)
    job.start().wait_for_words()
    job.wait_for_checkpoint()
    first = job.driver

    os.kill(first, signal.SIGSTOP)
    time.sleep(2)
    assert job.status["attempt"] == 0
    assert job.driver == first
    os.kill(first, signal.SIGCONT)
    job.watched.add(1)
    job.wait_for_words()
    assert job.status["attempt"] == 0, "a driver that was only slow is not started twice"

    jvms = [pid for pid in descendants(first) if command_of(pid).split(" ")[0].endswith("java")]
    for jvm in jvms:
        kill(jvm)
    job.watched.add(3)
    job.wait_for_attempt(1)
    assert job.driver != first
    job.wait_for_log("The job's Spark application is gone")
    job.wait_for_log("from checkpoint")
    job.check_exact()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_driver_killed_at_each_of_its_steps_of_a_checkpoint_loses_nothing(job, tmp_path):
    faults = Faults(tmp_path / "faults")
    install = (
        "import sys, pathlib\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.faults.injection import Faults\n"
        f"Faults(pathlib.Path({str(faults.folder)!r})).install()\n"
    )
    job.shell.program.write_text(install + job.shell.program.read_text())
    job.watched.add(3)
    job.start().wait_for_words()
    for attempt, step in enumerate(IN_DRIVERS, start=1):
        job.wait_for_checkpoint()
        driver = job.driver
        faults.arm(step, Action.KILL)
        job.watched.add(2)
        wait_until(lambda step=step: faults.struck(step))
        assert faults.struck(step) == [driver]
        job.wait_for_attempt(attempt)
        job.wait_for_words()
    job.check_exact()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stopped_driver_that_was_replaced_ends_when_it_goes_on(job):
    job.watched.add(3)
    job.start().wait_for_words()
    job.wait_for_checkpoint()
    first = job.driver
    left = descendants(first)
    os.kill(first, signal.SIGSTOP)
    try:
        job.kill_job_manager()  # it would leave a driver alone that is alive; this one is replaced by hand
        write_json(job.directory / "status.json", {**job.status, "state": "RESTARTING", "attempt": 1})
        command = [sys.executable, "-m", "pystate.runtime.driver", "--home", str(job.shell.home), "--job-id", job.id, "--"]
        with (job.directory / "job.log").open("ab") as log:
            program = [str(job.shell.program), str(job.shell.folder), "1000"]
            second = subprocess.Popen(
                [*command, *program], stdout=log, stderr=log, start_new_session=True, env=job.shell.environment
            )
        job.watched.add(3)
        job.wait_for_attempt(1)
        job.wait_for_words()
        job.wait_for_checkpoint()
    finally:
        os.kill(first, signal.SIGCONT)
    wait_until(lambda: is_gone(first))
    job.wait_for_log("has taken the job over")
    wait_until(lambda: all(is_gone(pid) for pid in left))
    assert job.status["attempt"] == 1
    assert job.status["state"] == "RUNNING"
    assert job.driver == second.pid
    job.watched.add(3)
    job.wait_for_words()
    job.wait_for_checkpoint()
    assert second.poll() is None
    job.start_job_manager()
    job.check_exact()
