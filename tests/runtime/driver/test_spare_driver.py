"""A spare driver's side of the pipes, with a stand-in for Spark: it ends with its manager, or becomes a job's driver."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pystate.common.files.home import new_job_id
from pystate.runtime.job_folder.spare_messages import SpareReport, TakenJob, WarmUp
from tests.waiting import LONGEST_S, wait_until

PROGRAM = """
import os, subprocess, sys
from pystate.ops.warm_start import spare_driver

class Session:
    jvm = subprocess.Popen(["sleep", "60"])

def warm(self, asked, folder):
    print("noise of the warming")
    if asked.configuration.get("fails"):
        raise RuntimeError("no Java")
    assert folder.is_dir()
    return Session()

def run(home, job_id, job_file, arguments, warm, pipe):
    print("of the job", flush=True)
    printed = os.read(pipe[0], 1000)
    (home.root / "ran").write_text(f"{job_id} {job_file} {arguments} {os.environ['OF_THE_JOB']} {printed!r}")
    Session.jvm.kill()
    return 3

spare_driver.SpareDriver._warm = warm
spare_driver.run_driver = run
spare_driver.end_process(spare_driver.main())
"""


@pytest.fixture
def spare(tmp_path):
    spare_id = new_job_id()
    command = [sys.executable, "-c", PROGRAM, "--home", str(tmp_path), "--spare", spare_id]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "OLD": "x"})
    yield process, spare_id
    process.kill()
    process.wait()


def warmed(spare, **configuration: str) -> SpareReport:
    process, spare_id = spare
    process.stdin.write(WarmUp(spare_id, configuration).to_line())
    process.stdin.flush()
    return SpareReport.from_line(process.stdout.readline())


def test_it_runs_the_job_that_it_is_given_in_the_jobs_environment(spare, tmp_path):
    assert warmed(spare).failure is None
    wait_until(lambda: list((tmp_path / "spare-drivers").iterdir()) == [])  # it goes once the report is on its way
    job = TakenJob("e" * 32, "/jobs/one.py", ["x"], {"OF_THE_JOB": "its own", "PATH": os.environ["PATH"]})
    spare[0].stdin.write(job.to_line())
    spare[0].stdin.close()
    assert spare[0].wait(LONGEST_S) == 3
    ran = (tmp_path / "ran").read_text()
    assert ran == f"{'e' * 32} /jobs/one.py ['x'] its own b'of the job\\n'", "what the warming has printed is no job's"


def test_it_ends_when_its_job_manager_does(spare, tmp_path):
    assert warmed(spare).failure is None
    spare[0].stdin.close()
    assert spare[0].wait(LONGEST_S) == 0
    assert not (tmp_path / "ran").exists()


def test_half_a_job_is_none(spare, tmp_path):
    assert warmed(spare).failure is None
    spare[0].stdin.write(TakenJob("e" * 32, "/jobs/one.py", [], {}).to_line()[:-5])
    spare[0].stdin.close()
    assert spare[0].wait(LONGEST_S) == 0
    assert not (tmp_path / "ran").exists()


def test_what_kept_it_from_getting_warm_is_told_with_what_was_printed(spare, tmp_path):
    failure = warmed(spare, fails="yes").failure
    assert failure is not None
    assert failure.startswith("RuntimeError: no Java")
    assert "noise of the warming" in failure
    assert spare[0].wait(LONGEST_S) == 1
    assert list((tmp_path / "spare-drivers").iterdir()) == []
