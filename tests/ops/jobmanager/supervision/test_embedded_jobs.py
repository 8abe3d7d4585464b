"""Jobs that programs run themselves are listed by the home's job manager, with what their files tell."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest

from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.job_store import JobStoreTerms
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from tests.ops.jobmanager.harness import PYTHON_PATH
from tests.waiting import wait_until as eventually

JOB = "ab" * 16
PROGRAM = """
import os, sys
from dataclasses import replace
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.common.processes.control import new_secret
from pystate.common.files.home import PystateHome, write_file_atomically
from pystate.runtime.driver.control_endpoint import ControlEndpoint
from pystate.runtime.execution.status import JobStatusStore
from pystate.common.job_status import JobStatus
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile

directory = PystateHome(sys.argv[1]).job(sys.argv[2])
directory.path.mkdir(parents=True, mode=0o700, exist_ok=True)
EmbeddedProgramFile.of_this_process(sys.argv[2]).write_to(directory.embedded)
write_file_atomically(directory.secret, new_secret())
directory.log.write_text("a line of Spark's\\n")
before = JobStatusFile.read_from(directory.status)
if before is not None:  # as a program does that goes on with its job
    replace(before, state=JobStatus.RUNNING, end_time=-1).write_to(directory.status)
status = JobStatusStore(directory, "counts")

class Master:
    def cancel(self):
        status.update(JobStatus.CANCELED)

endpoint = ControlEndpoint(directory, status)
endpoint.start()
endpoint.serve(Master())
for state in (JobStatus.RESTARTING if before else JobStatus.CREATED, JobStatus.RUNNING):
    status.update(state)
print("runs", flush=True)
input()
"""


@contextmanager
def running_program(tmp_path):
    """Run a program that runs a job in the home; yield its process."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "home"), JOB],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": PYTHON_PATH},
    )
    assert started.stdout.readline() == b"runs\n"
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


@pytest.fixture
def program(tmp_path):
    with running_program(tmp_path) as started:
        yield started


def _listed(manager):
    (job,) = manager.request("GET", "/jobs/overview")[1]["jobs"]
    assert job["jid"] == JOB
    return job["name"], job["state"], job["pystate"]["embedded"]["pid"]


def test_a_job_of_a_program_is_listed_with_its_process_and_its_log(manager, program):
    assert _listed(manager) == ("counts", "RUNNING", program.pid)
    status, log = manager.request("GET", f"/pystate/jobs/{JOB}/log?offset=0")
    assert (status, log) == (200, b"a line of Spark's\n")


def test_a_job_whose_program_was_killed_has_failed_at_the_next_look(manager, program):
    assert _listed(manager)[1] == "RUNNING"
    program.kill()
    program.communicate()

    assert _listed(manager) == ("counts", "FAILED", program.pid)
    assert JobStatusFile.read_from(manager.home.job(JOB).status).state is JobStatus.FAILED
    exceptions = manager.request("GET", f"/jobs/{JOB}/exceptions")[1]
    assert f"process {program.pid}" in str(exceptions["exceptionHistory"])
    assert manager.request("GET", f"/jobs/{JOB}/checkpoints")[0] in (200, 404)


@pytest.mark.parametrize("seen", [True, False], ids=["its end was seen", "at once"])
def test_a_job_that_goes_on_in_another_process_is_listed_with_that(manager, program, tmp_path, seen):
    assert _listed(manager) == ("counts", "RUNNING", program.pid)
    program.kill()
    program.communicate()
    assert not seen or _listed(manager)[1] == "FAILED"
    with running_program(tmp_path) as again:
        assert _listed(manager) == ("counts", "RUNNING", again.pid)
        assert JobStatusFile.read_from(manager.home.job(JOB).status).state is JobStatus.RUNNING
        assert manager.request("PATCH", f"/jobs/{JOB}?mode=cancel")[0] == 202
        eventually(lambda: manager.state(JOB) == "CANCELED")


def test_a_job_of_a_program_has_no_submission(manager, program, caplog):
    caplog.set_level("INFO")
    code, answer = manager.request("GET", f"/pystate/jobs/{JOB}/submission")
    assert (code, "its own program" in answer["errors"][0]) == (404, True)
    code, config = manager.request("GET", f"/jobs/{JOB}/config")
    assert (code, config["pystate"]["configuration"]) == (200, {})
    assert config["execution-config"]["restart-strategy"] == "not known: the job is run by its own program"
    assert manager.request("GET", "/pystate/disks")[0] == 200
    assert "the places of job" not in caplog.text


def test_a_job_of_a_program_can_be_cancelled(manager, program):
    assert manager.request("PATCH", f"/jobs/{JOB}?mode=cancel")[0] == 202
    eventually(lambda: manager.state(JOB) == "CANCELED")


def test_a_job_manager_starts_no_driver_for_a_job_of_a_program(manager_process, program):
    manager_process.stop()
    program.kill()
    program.communicate()
    manager_process.start()
    assert manager_process.state(JOB) == "FAILED"
    assert not manager_process.home.job(JOB).record.exists()
    status, answer = manager_process.request("POST", f"/pystate/jobs/{JOB}/resubmission", {"parallelism": 3})
    assert status == 409 or "own program" in str(answer)


def test_the_folder_of_a_job_stays_while_its_program_lives_and_is_forgotten_then(served, tmp_path, program):
    dispatcher = served.dispatcher
    dispatcher._store._terms = JobStoreTerms(expiration_ms=0)
    status = JobStatusFile.read_from(PystateHome(tmp_path / "home").job(JOB).status)
    status.moved_to(JobStatus.FINISHED, 1).write_to(PystateHome(tmp_path / "home").job(JOB).status)
    (job,) = dispatcher.jobs()
    dispatcher.expire_jobs()
    assert job.directory.path.is_dir()
    program.kill()
    program.communicate()
    dispatcher.expire_jobs()
    assert not job.directory.path.exists()
    assert dispatcher.jobs() == []
