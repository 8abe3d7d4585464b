from __future__ import annotations

import os
import signal

import pytest

from pystate.common.files.home import read_json
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from tests.ops.jobmanager.harness import eventually
from tests.waiting import LONGEST_S


def pid_of(manager, job: str) -> int:
    return int((read_json(manager.home.job(job).process) or {"pid": 0})["pid"])


def test_a_killed_job_manager_comes_back_to_its_running_drivers(manager_process):
    manager = manager_process
    running, finished = manager.submit(), manager.submit("--finish", "0")
    manager.wait_for(running, "RUNNING")
    manager.wait_for(finished, "FINISHED")
    pid = pid_of(manager, running)

    manager.kill()
    manager.start()

    assert manager.state(running) == "RUNNING"
    assert manager.state(finished) == "FINISHED"
    assert pid_of(manager, running) == pid
    body = {"target-directory": "/tmp/s", "cancel-job": True}
    answer = manager.request("POST", f"/jobs/{running}/savepoints", body)[1]
    assert manager.operation(running, answer["request-id"])["location"].startswith("/tmp/s/")
    manager.wait_for(running, "CANCELED")


def test_a_driver_that_dies_while_no_job_manager_runs_fails_its_job(manager_process):
    manager = manager_process
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    manager.kill()
    os.kill(pid_of(manager, job), signal.SIGKILL)
    eventually(lambda: job not in DriverLauncher(manager.home).find_running())
    manager.start()

    assert manager.state(job) == "FAILED"
    cause = manager.request("GET", f"/jobs/{job}/execution-result")[1]["job-execution-result"]["failure-cause"]
    assert cause["pystate"]["message"] == "The driver process has ended, and no job manager saw how."


def test_the_end_of_a_driver_that_an_earlier_job_manager_started_is_seen(manager_process):
    manager = manager_process
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    manager.kill()
    manager.start()

    os.kill(pid_of(manager, job), signal.SIGKILL)

    manager.wait_for(job, "FAILED")
    cause = manager.request("GET", f"/jobs/{job}/execution-result")[1]["job-execution-result"]["failure-cause"]
    assert "its exit code is not known" in cause["pystate"]["message"]


@pytest.mark.parametrize("adopted", [True, False])
def test_a_driver_that_dies_unseen_before_it_has_come_to_its_job_is_started_again(manager_process, adopted, tmp_path):
    manager = manager_process
    job = manager.submit("--init-until", str(tmp_path / "come"))
    eventually(lambda: pid_of(manager, job))
    first = pid_of(manager, job)

    manager.kill()
    if adopted:
        manager.start()
    os.kill(first, signal.SIGKILL)
    if not adopted:
        eventually(lambda: job not in DriverLauncher(manager.home).find_running())
        manager.start()
    (tmp_path / "come").touch()

    manager.wait_for(job, "RUNNING")
    assert pid_of(manager, job) != first


def test_one_that_dies_again_before_it_has_come_to_its_job_fails_it(manager_process):
    manager = manager_process
    job = manager.submit("--init", "60")
    first = eventually(lambda: pid_of(manager, job))
    manager.kill()
    os.kill(first, signal.SIGKILL)
    eventually(lambda: job not in DriverLauncher(manager.home).find_running())
    manager.start()
    second = eventually(lambda: pid_of(manager, job) not in (None, first) and pid_of(manager, job))
    os.kill(second, signal.SIGKILL)
    manager.wait_for(job, "FAILED")


def test_a_request_to_cancel_outlives_the_job_manager(manager_process):
    manager = manager_process
    job = manager.submit("--listen-after", "1.5")
    manager.wait_for(job, "INITIALIZING")
    assert manager.request("PATCH", f"/jobs/{job}")[0] == 202

    manager.kill()
    manager.start()

    manager.wait_for(job, "CANCELED")


def test_a_driver_started_by_a_job_manager_that_died_before_it_could_say_so_is_found(manager_process):
    manager = manager_process
    job = manager.submit()
    manager.wait_for(job, "RUNNING")
    manager.kill()
    directory = manager.home.job(job)
    JobRecord.read(directory).with_changes(phase=RecordPhase.SUBMITTED).write(directory)

    manager.start()

    assert manager.state(job) == "RUNNING"


def test_a_job_whose_driver_was_never_started_has_failed(manager_process):
    manager = manager_process
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")
    manager.kill()
    eventually(lambda: job not in DriverLauncher(manager.home).find_running())
    directory = manager.home.job(job)
    directory.status.unlink()
    JobRecord.read(directory).with_changes(phase=RecordPhase.SUBMITTED, exit_code=None, verdict=None).write(directory)

    manager.start()

    assert manager.state(job) == "FAILED"


def test_a_job_that_has_ended_keeps_its_end_when_its_status_file_is_lost_or_damaged(manager_process):
    manager = manager_process
    deleted, damaged, failed, of_an_older_version = (
        manager.submit(*words) for words in (("--finish", "0"), ("--finish", "0"), ("--fail-init",), ("--finish", "0"))
    )
    for job in (deleted, damaged, of_an_older_version):
        manager.wait_for(job, "FINISHED")
    manager.wait_for(failed, "FAILED")

    def has_ended(job: str) -> bool:
        record = JobRecord.read(manager.home.job(job))
        return record is not None and record.phase is RecordPhase.ENDED

    eventually(lambda: all(map(has_ended, (deleted, damaged, failed, of_an_older_version))))
    for job in (deleted, failed, of_an_older_version):
        manager.home.job(job).status.unlink()
    manager.home.job(damaged).status.write_text('{"state": "RUN')

    def cause(job: str) -> str:
        result = manager.request("GET", f"/jobs/{job}/execution-result")[1]["job-execution-result"]
        return str(result["failure-cause"]["pystate"]["message"])

    assert (manager.state(deleted), manager.state(damaged), manager.state(failed)) == ("FINISHED", "FINISHED", "FAILED")
    assert cause(failed) == "The savepoint does not fit."

    manager.kill()
    directory = manager.home.job(of_an_older_version)
    JobRecord.read(directory).with_changes(verdict=None).write(directory)
    manager.start()

    assert (manager.state(deleted), manager.state(damaged), manager.state(failed)) == ("FINISHED", "FINISHED", "FAILED")
    assert manager.state(of_an_older_version) == "FAILED"
    assert cause(of_an_older_version) == "The job has ended, and the file that says how is missing or damaged."


def test_a_damaged_record_leaves_the_other_jobs_alone(manager_process):
    manager = manager_process
    good, bad = manager.submit("--finish", "0"), manager.submit("--finish", "0")
    manager.wait_for(good, "FINISHED")
    manager.wait_for(bad, "FINISHED")
    manager.kill()
    manager.home.job(bad).record.write_text("{")
    (manager.home.jobs / "not a job").mkdir()

    manager.start()

    assert manager.state(good) == "FINISHED"
    assert {job["id"] for job in manager.request("GET", "/jobs")[1]["jobs"]} == {good, bad}
    assert str(manager.home.job(bad).record) in manager.home.jobmanager_log.read_text()


def test_a_job_with_a_damaged_record_has_failed_with_that_error_unless_its_driver_lives(manager_process):
    manager = manager_process
    running, dead = manager.submit(), manager.submit()
    for job in (running, dead):
        manager.wait_for(job, "RUNNING")
    manager.kill()
    os.kill(pid_of(manager, dead), signal.SIGKILL)
    eventually(lambda: dead not in DriverLauncher(manager.home).find_running())
    for job in (running, dead):
        manager.home.job(job).record.write_bytes(b"\0" * 100)

    manager.start()

    assert (manager.state(running), manager.state(dead)) == ("RUNNING", "FAILED")
    cause = manager.request("GET", f"/jobs/{dead}/execution-result")[1]["job-execution-result"]["failure-cause"]
    assert "The job record is damaged" in cause["pystate"]["message"]
    assert cause["pystate"]["where"].endswith("record.json.damaged")
    assert manager.request("PATCH", f"/jobs/{running}")[0] == 202
    manager.wait_for(running, "CANCELED")


def test_sigterm_ends_the_job_manager_and_leaves_the_jobs_alone(manager_process):
    manager = manager_process
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    manager.process.terminate()

    assert manager.process.wait(LONGEST_S) == 0
    assert not manager.home.jobmanager.exists()
    assert job in DriverLauncher(manager.home).find_running()
