from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from pystate.common.errors import PystateError
from pystate.common.files.home import JobDirectory, PystateHome, read_json
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.drivers.driver_process import JOB_ID_VARIABLE, DriverLauncher
from pystate.runtime.job_folder.recovery_terms import RecoveryTerms
from pystate.runtime.job_folder.restart_strategies import FixedDelayRestartBackoffTimeStrategy
from tests.ops.jobmanager.harness import eventually


def pid_of(manager, job: str) -> int:
    return int((read_json(manager.home.job(job).driver) or {"pid": 0})["pid"])


def details(manager, job: str) -> dict:
    return manager.request("GET", f"/jobs/{job}")[1]


def failure_of(manager, job: str) -> str:
    result = manager.request("GET", f"/jobs/{job}/execution-result")[1]
    return str(result["job-execution-result"]["failure-cause"]["pystate"]["message"])


def starts(manager, job: str) -> int:
    return manager.home.job(job).log.read_text().count("a line of noise")


def wait_for_another(manager, job: str, pid: int) -> int:
    eventually(lambda: pid_of(manager, job) not in (0, pid))
    manager.wait_for(job, "RUNNING")
    return pid_of(manager, job)


def test_a_killed_driver_is_started_again_and_the_job_says_restarting_meanwhile(manager):
    job = manager.submit("--restart", "3", "700")
    manager.wait_for(job, "RUNNING")
    pid = pid_of(manager, job)

    os.kill(pid, signal.SIGKILL)
    manager.wait_for(job, "RESTARTING")

    listed = manager.request("GET", "/jobs/overview")[1]["jobs"]
    assert [(entry["jid"], entry["state"], entry["pystate"]["restarts"]) for entry in listed] == [(job, "RESTARTING", 1)]
    (entry,) = manager.request("GET", f"/jobs/{job}/exceptions")[1]["exceptionHistory"]["entries"]
    assert "SIGKILL" in entry["stacktrace"]
    wait_for_another(manager, job, pid)
    assert details(manager, job)["pystate"]["attempt"] == 1
    assert manager.home.job(job).environment.exists()


def test_what_a_driver_says_it_ends_of_counts_more_than_its_exit_code(manager):
    job = manager.submit("--restart", "1", "10", "--die", "0", "7", "--last-word", "Spark is gone.")
    manager.wait_for(job, "FAILED")

    entries = manager.request("GET", f"/jobs/{job}/exceptions")[1]["exceptionHistory"]["entries"]
    assert [(one["pystate"]["attempt"], one["exceptionName"]) for one in entries] == [
        (1, "SparkLostError"),
        (0, "SparkLostError"),
    ]
    assert failure_of(manager, job) == "Spark is gone."


def test_failures_of_drivers_and_of_the_job_stand_in_one_history(manager):
    job = manager.submit("--restart", "5", "10", "--die", "0", "-9", "--die-until", "2", "--fail-user", "0")
    manager.wait_for(job, "FAILED")

    entries = manager.request("GET", f"/jobs/{job}/exceptions")[1]["exceptionHistory"]["entries"]
    assert [(one["pystate"]["attempt"], one["exceptionName"]) for one in entries] == [
        (2, "ZeroDivisionError"),
        (1, "DriverLostError"),
        (0, "DriverLostError"),
    ]
    assert "ZeroDivisionError" in entries[0]["stacktrace"]
    assert [one["timestamp"] for one in entries] == sorted((one["timestamp"] for one in entries), reverse=True)


def fixed_delay(attempts: int) -> dict[str, str]:
    """What the job is submitted with: its driver has said nothing of restarts yet."""
    keys = {"type": "fixed-delay", "fixed-delay.attempts": str(attempts), "fixed-delay.delay": "10 ms"}
    return {f"restart-strategy.{key}": value for key, value in keys.items()}


def test_a_driver_killed_in_its_first_start_is_followed_by_another_as_the_submitted_strategy_says(manager):
    job = manager.submit("--die-at-start", "2", "-9", "--restart", "5", "10", configuration=fixed_delay(5))

    manager.wait_for(job, "RUNNING")

    entries = manager.request("GET", f"/jobs/{job}/exceptions")[1]["exceptionHistory"]["entries"]
    assert [(one["pystate"]["attempt"], one["exceptionName"]) for one in entries] == [
        (1, "DriverLostError"),
        (0, "DriverLostError"),
    ]
    counted = RecoveryTerms.read(JobDirectory(manager.home.job(job).path))
    assert counted is not None
    assert counted.strategy.attempts == 2, "the failures of the start count for the job"


def test_a_driver_that_is_always_killed_in_its_start_ends_as_the_strategy_says(manager):
    job = manager.submit("--die-at-start", "99", "-9", configuration=fixed_delay(4))

    manager.wait_for(job, "FAILED")

    assert details(manager, job)["pystate"]["attempt"] == 4


def test_a_program_that_ends_its_process_at_each_start_is_given_up(manager):
    job = manager.submit("--die-at-start", "99", "0", configuration=fixed_delay(1000))

    manager.wait_for(job, "FAILED")

    assert details(manager, job)["pystate"]["attempt"] == 2
    assert failure_of(manager, job) == "The driver process ended with exit code 0."


def test_without_a_strategy_a_job_whose_driver_dies_in_its_first_start_has_failed(manager):
    job = manager.submit("--die-at-start", "1", "-9")

    manager.wait_for(job, "FAILED")

    assert details(manager, job)["pystate"]["attempt"] == 0


def test_a_driver_that_keeps_dying_uses_up_its_attempts(manager):
    job = manager.submit("--restart", "2", "10", "--die", "0", "7")

    manager.wait_for(job, "FAILED")

    assert failure_of(manager, job) == "The driver process ended with exit code 7."
    assert starts(manager, job) == 3
    assert not manager.home.job(job).environment.exists(), "nothing is kept of a job that can't be started again"


def test_a_job_without_a_restart_strategy_fails_with_its_driver(manager):
    job = manager.submit("--restart", "0", "10", "--die", "0", "-9")

    manager.wait_for(job, "FAILED")

    assert failure_of(manager, job) == "The driver process ended with signal SIGKILL."
    assert starts(manager, job) == 1


def test_a_restarted_driver_may_finish_the_job(manager):
    job = manager.submit("--restart", "5", "10", "--die", "0", "-9", "--die-until", "2", "--finish", "0")

    manager.wait_for(job, "FINISHED")

    assert starts(manager, job) == 3
    assert details(manager, job)["start-time"] <= details(manager, job)["timestamps"]["RESTARTING"]


def test_a_driver_gets_the_submitters_environment_again(manager):
    environment = {**manager.submission()["environment"], "COLOUR": "blue"}
    job = manager.submit("--restart", "1", "10", "--die", "0", "-9", "--environment", environment=environment)
    manager.wait_for(job, "FAILED")

    assert manager.home.job(job).log.read_text().count('"COLOUR": "blue"') == 2


def test_a_cancel_during_the_delay_ends_the_job(manager):
    job = manager.submit("--restart", "3", "60000")
    manager.wait_for(job, "RUNNING")
    os.kill(pid_of(manager, job), signal.SIGKILL)
    manager.wait_for(job, "RESTARTING")

    assert manager.request("PATCH", f"/jobs/{job}")[0] == 202

    manager.wait_for(job, "CANCELED")
    assert starts(manager, job) == 1


def test_a_driver_that_died_after_the_savepoint_of_a_stop_is_not_started_again(manager):
    job = manager.submit("--restart", "3", "10", "--ended", "FINISHED", "--die", "0", "-9")

    manager.wait_for(job, "FINISHED")

    eventually(lambda: not manager.home.job(job).environment.exists())
    assert starts(manager, job) == 1


def test_a_stopped_driver_is_not_started_twice(manager):
    job = manager.submit("--restart", "3", "10")
    manager.wait_for(job, "RUNNING")
    pid = pid_of(manager, job)

    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)

    assert manager.state(job) == "RUNNING"
    os.kill(pid, signal.SIGCONT)
    assert (pid_of(manager, job), starts(manager, job)) == (pid, 1)


def test_a_savepoint_in_flight_when_the_driver_dies_has_failed(manager):
    job = manager.submit("--restart", "3", "10", "--savepoint", "60")
    manager.wait_for(job, "RUNNING")
    pid = pid_of(manager, job)
    body = {"target-directory": "/tmp/s", "cancel-job": False}
    trigger_id = manager.request("POST", f"/jobs/{job}/savepoints", body)[1]["request-id"]

    os.kill(pid, signal.SIGKILL)

    failure = manager.operation(job, trigger_id)["failure-cause"]
    assert "The job's driver died before its savepoint was complete; the job goes on in another one" in str(failure)
    wait_for_another(manager, job, pid)
    assert "The job's driver died" in str(manager.operation(job, trigger_id)["failure-cause"])


def test_a_driver_that_died_while_no_job_manager_ran_is_started_again(manager_process):
    manager = manager_process
    job = manager.submit("--restart", "3", "10")
    manager.wait_for(job, "RUNNING")
    pid = pid_of(manager, job)

    manager.kill()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: job not in DriverLauncher(manager.home).find_running())
    manager.start()

    wait_for_another(manager, job, pid)
    assert starts(manager, job) == 2


def test_a_restart_outlives_the_job_manager_that_had_it_in_hand(manager_process):
    manager = manager_process
    job = manager.submit("--restart", "3", "60000")
    manager.wait_for(job, "RUNNING")
    pid = pid_of(manager, job)
    os.kill(pid, signal.SIGKILL)
    manager.wait_for(job, "RESTARTING")

    manager.kill()
    manager.start()

    wait_for_another(manager, job, pid)
    assert starts(manager, job) == 2


def test_the_death_of_an_adopted_driver_is_seen_and_mended(manager_process):
    manager = manager_process
    job = manager.submit("--restart", "3", "10")
    manager.wait_for(job, "RUNNING")
    manager.kill()
    manager.start()
    pid = pid_of(manager, job)

    os.kill(pid, signal.SIGKILL)

    wait_for_another(manager, job, pid)


def test_a_job_whose_program_is_gone_is_not_restarted(manager):
    job = manager.submit("--restart", "3", "300")
    manager.wait_for(job, "RUNNING")
    manager.job_file.rename(manager.job_file.with_name("moved.py"))

    os.kill(pid_of(manager, job), signal.SIGKILL)

    manager.wait_for(job, "FAILED")
    assert "The job file does not exist" in failure_of(manager, job)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are told by their environment")
def test_what_a_dead_driver_leaves_is_ended_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("pystate.ops.jobmanager.drivers.driver_process._ORPHANS_GRACE_SECONDS", 0.2)
    job, other = "a" * 32, "b" * 32
    code = (
        "import subprocess, sys\n"
        f"variables = {{'{JOB_ID_VARIABLE}': sys.argv[1]}}\n"
        "print(subprocess.Popen(['sleep', '60'], env=variables, stdout=subprocess.DEVNULL).pid)"
    )
    drivers = []
    for owner in (job, other):
        driver = subprocess.Popen([sys.executable, "-c", code, owner], stdout=subprocess.PIPE, start_new_session=True)
        orphan = int(driver.communicate()[0])
        drivers.append((driver.pid, orphan))
    try:
        for driver_pid, _ in drivers:
            DriverLauncher(PystateHome(tmp_path)).end_orphans(job, driver_pid)
        eventually(lambda: is_gone(drivers[0][1]))
        assert not is_gone(drivers[1][1])
    finally:
        os.kill(drivers[1][1], signal.SIGKILL)


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_recovery_terms_come_back_as_they_were_written(tmp_path):
    directory = JobDirectory(tmp_path)
    assert RecoveryTerms.read(directory) is None
    terms = RecoveryTerms(FixedDelayRestartBackoffTimeStrategy(3, 50, 1), JobStatus.CANCELED)
    terms.write(directory)
    assert RecoveryTerms.read(directory) == terms
    directory.recovery.write_text('{"version": 2, "attempts": "many"}')
    with pytest.raises(PystateError, match="damaged"):
        RecoveryTerms.read(directory)
