"""A real spare driver: a job goes on in it, its job manager's death ends it, and a program from elsewhere starts in it."""

import json
import os
import shutil
import signal

import pytest

from tests.e2e.commands.test_command_line import Shell
from tests.faults.processes import is_gone, needs_proc
from tests.waiting import wait_until

pytestmark = [needs_proc, pytest.mark.slow, pytest.mark.timeout(400)]

SPARES = ("-D", "jobmanager.spare-drivers=1", "-D", "jobmanager.spare-drivers.min-free-memory=0")
RESTARTS = ("-D", "restart-strategy.type=fixed-delay", "-D", "restart-strategy.fixed-delay.delay=0 ms")
EVERY = ("-D", "execution.checkpointing.interval=300 ms")


class SpareShell(Shell):
    """A shell that looks for spare drivers."""

    def spare(self):
        """Wait for one that is ready; return its process and its JVM's."""
        wait_until(lambda: json.loads(self("cluster", "status", "--json").stdout)["spareDrivers"]["ready"])
        taken = {json.loads(path.read_text())["pid"] for path in self.home.glob("jobs/*/driver.json")}
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            said = words(pid)
            if sid(pid) == pid and "--spare" in said and str(self.home) in said and pid not in taken:
                return pid, next(one for one in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent(one) == pid)
        raise AssertionError("no process of it is found")

    def driver(self, job):
        """Return the job's driver; None between two of them."""
        file = self.home / "jobs" / job / "driver.json"
        return json.loads(file.read_text())["pid"] if file.exists() else None


def sid(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def words(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")
    except OSError:
        return []


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


@pytest.fixture
def shell(tmp_path):
    made = SpareShell(tmp_path)
    yield made
    made.close()


def test_jobs_restart_and_start_in_spare_drivers(shell, tmp_path):
    shell("cluster", "start", *SPARES)
    shell.add("1.txt", ["hello", "hello"])
    job = shell.run("-p", "1", *RESTARTS, *EVERY)
    shell.wait_for_log(job, "('hello', 2)")
    spare, _ = shell.spare()

    os.kill(shell.driver(job), signal.SIGKILL)
    wait_until(lambda: shell.driver(job) == spare)
    shell.add("2.txt", ["hello"])
    shell.wait_for_log(job, "('hello', 3)")
    assert "('a', 1)" not in shell.log(job), "what the spare has practised with is no output of the job"

    idle, jvm = shell.spare()
    os.kill(json.loads((shell.home / "jobmanager.json").read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: is_gone(idle) and is_gone(jvm))
    shell("cluster", "start", *SPARES)
    assert shell.driver(job) == spare
    shell.add("3.txt", ["hello"])
    shell.wait_for_log(job, "('hello', 4)")

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    text = shell.program.read_text()
    (elsewhere / "beside.py").write_text("def loud(word):\n    return word.upper()\n")
    shell.program = elsewhere / "two.py"
    shell.program.write_text(text.replace("yield value,", "from beside import loud\n        yield loud(value),"))
    assert "loud" in shell.program.read_text()
    spare, _ = shell.spare()
    second = shell.run("-p", "1", *EVERY)
    shell.wait_for_log(second, "('HELLO', 4)")
    assert shell.driver(second) == spare
    shell("cluster", "stop", "--cancel-jobs")
    wait_until(lambda: is_gone(spare))
    shutil.rmtree(elsewhere)
