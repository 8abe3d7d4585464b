"""The commands on real jobs: drivers as processes of their own, under a job manager that the first `run` starts."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pystate.core.snapshot.reading.snapshot_reader import SnapshotReader
from tests.waiting import LONGEST_S

JOB_ID = re.compile(r"[0-9a-f]{32}\n")
ROOT = Path(__file__).parents[3]

COUNT_WORDS = Path(__file__).with_name("count_words.py")


class Shell:
    """Runs commands as an operator would, in a home of its own."""

    def __init__(self, tmp_path, timeout=LONGEST_S):
        self.timeout = timeout
        self.home = tmp_path / "a home with spaces"
        self.folder = tmp_path / "in"
        self.folder.mkdir()
        self.program = tmp_path / "count_words.py"
        self.program.write_text(COUNT_WORDS.read_text())
        self.environment = {**os.environ, "PYSTATE_HOME": str(self.home), "PYSTATE_CONF_DIR": str(ROOT / "conf")}
        self.environment.pop("PYTHONPATH", None)

    def __call__(self, *arguments, exit_code=0):
        command = [sys.executable, "-m", "pystate_cli", *map(str, arguments)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=self.timeout, cwd=self.folder
        )
        assert done.returncode == exit_code, f"{done.stdout}\n{done.stderr}"
        return done

    def run(self, *options, mode="1000"):
        done = self("run", "-d", *options, self.program, self.folder, mode)
        assert JOB_ID.fullmatch(done.stdout), "stdout is the job id alone"
        return done.stdout.strip()

    def log(self, job_id):
        return (self.home / "jobs" / job_id / "job.log").read_text()

    def wait_for_log(self, job_id, text):
        deadline = time.monotonic() + 60
        while text not in self.log(job_id):
            assert time.monotonic() < deadline, self.log(job_id)
            time.sleep(0.1)

    def wait_for_all(self, job_id, lines):
        deadline = time.monotonic() + 120
        while missing := [line for line in lines if f"{line}," not in (log := self.log(job_id)) and f"'{line}'" not in log]:
            assert time.monotonic() < deadline, (missing[:9], log)
            time.sleep(0.3)

    def add(self, name, words):
        part = self.folder.with_name("part")
        part.write_text("\n".join(words))
        part.rename(self.folder / name)

    def close(self):
        address = self.home / "jobmanager.json"
        if address.exists():  # first, for it would start the drivers again
            kill(json.loads(address.read_text())["pid"])
        for status in self.home.glob("jobs/*/driver.json"):
            kill(json.loads(status.read_text())["pid"])


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.fixture
def shell(tmp_path):
    made = Shell(tmp_path)
    yield made
    made.close()


def state(path):
    return dict(SnapshotReader(path).keyed_entries("count", "count"))


@pytest.mark.slow  # tests/cli has the commands without Spark, e2e/snapshots/test_rescale.py the state at other parallelisms
@pytest.mark.timeout(240)
def test_run_savepoint_cancel_resume_at_another_parallelism(shell, tmp_path):
    shell.add("1.txt", ["hello", "world", "hello"])
    first = shell.run("-p", "2")
    shell.wait_for_log(first, "('hello', 2)")
    assert f"{first} : word count (RUNNING)" in shell("list").stdout

    savepoint = shell("savepoint", first)
    path = savepoint.stdout.strip()
    assert re.fullmatch(rf"file:{shell.home}/savepoints/savepoint-{first[:6]}-[0-9a-f]{{12}}", path)
    assert savepoint.stdout.count("\n") == 1
    assert f"Triggering savepoint for job {first}." in savepoint.stderr
    assert state(path) == {"hello": 2, "world": 1}

    shell.add("2.txt", ["hello", "flink"])
    shell.wait_for_log(first, "('hello', 3)")
    target = tmp_path / "my savepoints"
    cancelled = shell("cancel", "-s", target, first)
    path = cancelled.stdout.strip()
    assert path.startswith(f"file:{target}/savepoint-")
    assert f"{first} : word count (CANCELED)" in shell("list", "-a").stdout
    assert "RUNNING" not in shell("list").stdout
    assert not list((shell.home / "checkpoints").glob("*/chk-*")), "a cancelled job leaves no checkpoint unless told to"

    second = shell.run("-p", "3", "-s", path)
    shell.add("3.txt", ["hello", "spark"])
    shell.wait_for_log(second, "('hello', 4)")
    assert "('hello', 1)" not in shell.log(second), "nothing is read twice"
    final = shell("cancel", "-s", second).stdout.strip()
    assert state(final) == dict(Counter("hello world hello hello flink hello spark".split()))
    table = shell("checkpoints", second).stdout
    assert "savepoint" in table
    assert "COMPLETED" in table

    refused = shell("run", "-d", "-s", tmp_path / "nowhere", shell.program, shell.folder, "1000", exit_code=1)
    assert refused.stdout == ""
    assert "nowhere" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow  # tests/cli/commands/test_run.py has it without Spark
@pytest.mark.timeout(180)
def test_an_attached_run_prints_to_stdout_and_ends_with_its_job(shell):
    shell.add("1.txt", ["hello", "world", "hello"])
    done = shell("run", "-p", "1", shell.program, shell.folder, "bounded")
    assert sorted(done.stdout.splitlines()) == ["('hello', 1)", "('hello', 2)", "('world', 1)"]
    assert "Job has been submitted with JobID" in done.stderr
    assert "has finished." in done.stderr
    assert "(FINISHED)" in shell("list", "-a").stdout

    shell.program.write_text("import no_such_module\n")
    broken = shell("run", "-d", shell.program, exit_code=1)
    assert "No module named 'no_such_module'" in broken.stderr
    shell.program.write_text("print('nothing to run')\n")
    assert "never calls execute()" in shell("run", "-d", shell.program, exit_code=1).stderr


@pytest.mark.slow  # tests/runtime/driver/failures/test_embedded_restarts.py and `run_job` have jobs without a job manager
@pytest.mark.timeout(120)
def test_a_job_file_runs_as_plain_python(shell):
    shell.add("1.txt", ["hello", "world", "hello"])
    command = [sys.executable, str(shell.program), str(shell.folder), "bounded"]
    done = subprocess.run(command, env=shell.environment, capture_output=True, text=True, timeout=LONGEST_S, check=True)
    assert sorted(line.split("> ")[-1] for line in done.stdout.splitlines()) == [
        "('hello', 1)",
        "('hello', 2)",
        "('world', 1)",
    ]
    assert " WARN " not in done.stderr, "Spark's noise goes to the job's log"


def lines_of(files):
    return [f"{number}-{line}" for number in files for line in range(200)]


@pytest.mark.slow  # tests/e2e/snapshots/test_between_engines.py has it without processes and commands
@pytest.mark.timeout(400)
def test_files_go_on_in_the_other_engine_over_a_killed_slot(shell, tmp_path):
    shell.program.write_text(COUNT_WORDS.with_name("count_lines.py").read_text())
    pids = tmp_path / "pids"
    pids.mkdir()

    def start(engine, elements, *options):
        done = shell(
            "run",
            "-d",
            "-p",
            "2",
            f"-Dexecution.engine={engine}",
            "-Dexecution.checkpointing.interval=300 ms",
            *options,
            shell.program,
            shell.folder,
            pids,
            elements,
        )
        return done.stdout.strip()

    for number in range(8):
        shell.add(f"{number}.txt", lines_of([number]))
    first = start("real-time", 300)
    shell.wait_for_log(first, "element-9'")
    os.kill(int(next(pids.iterdir()).name), signal.SIGKILL)
    shell.wait_for_log(first, "Attempt 1 starts")
    shell("wait", first, "--for", "running")
    path = shell("stop", first).stdout.strip()
    counted = state(path)
    assert set(counted.values()) == {1}

    second = start("micro-batch", 300, "-s", path)
    shell.add("8.txt", lines_of([8]))
    expected = [*lines_of(range(9)), *(f"element-{number}" for number in range(300))]
    shell.wait_for_all(second, set(expected) - set(counted))
    path = shell("stop", second).stdout.strip()
    assert state(path) == dict.fromkeys(expected, 1)

    third = start("real-time", 310, "-s", path)
    shell.add("9.txt", lines_of([9]))
    shell.wait_for_all(third, [*lines_of([9]), "element-309"])
    path = shell("cancel", "-s", third).stdout.strip()
    assert state(path) == dict.fromkeys([*lines_of(range(10)), *(f"element-{number}" for number in range(310))], 1)

    fourth = start("micro-batch", 0)  # what Spark has read goes on in slots
    shell.wait_for_all(fourth, lines_of(range(10)))
    path = shell("stop", fourth).stdout.strip()
    fifth = start("real-time", 0, "-s", path)
    shell.add("10.txt", lines_of([10]))
    shell.wait_for_all(fifth, lines_of([10]))
    path = shell("cancel", "-s", fifth).stdout.strip()
    assert state(path) == dict.fromkeys(lines_of(range(11)), 1)
