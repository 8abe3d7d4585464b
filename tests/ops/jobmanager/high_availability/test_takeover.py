"""Job managers of two homes with one storage; the leading one is killed, or stopped and continued."""

from __future__ import annotations

import os
import signal

import pytest

from pystate.common.files.home import read_json
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.runtime.job_folder.job_record import JobRecord, record_token
from tests.ops.jobmanager.harness import eventually
from tests.ops.jobmanager.high_availability.conftest import raw_get, wait_until_leads
from tests.waiting import LONGEST_S


def driver_of(manager, job: str) -> int:
    return int((read_json(manager.home.job(job).driver) or {"pid": 0})["pid"])


def starts(manager, job: str) -> int:
    return manager.home.job(job).log.read_text().count("a line of noise")


on_each_storage = pytest.mark.parametrize(
    "job_managers",
    ["folder", pytest.param("s3", marks=pytest.mark.slow)],  # s3 in every run: the other two here, and test_storage.py
    indirect=True,
)


def test_a_standby_says_where_the_leader_is(job_managers):
    leader = job_managers("a")
    wait_until_leads(leader)
    standby = job_managers("b")
    there = f"127.0.0.1:{leader.port}"

    assert raw_get(standby, "/jobs/overview?x=1") == (307, f"http://{there}/jobs/overview?x=1")
    status, refusal = standby.request("POST", "/pystate/jobs", standby.submission())
    assert (status, refusal["pystate"]["class"]) == (503, "LeadershipLostError")
    assert refusal["errors"] == [f"This job manager does not lead. The leading one is at {there}."]
    assert refusal["pystate"]["hint"] == f"call the leading one: -m {there}"
    config = standby.request("GET", "/config")[1]
    assert config["pystate-leader"]["address"] == there
    assert "pystate-leader" not in leader.request("GET", "/config")[1]


@on_each_storage
def test_a_standby_takes_over_from_a_killed_leader_and_its_drivers_go_on(job_managers):
    first = job_managers("a")
    wait_until_leads(first)
    second = job_managers("b")
    running, finished = first.submit(), first.submit("--finish", "0")
    first.wait_for(running, "RUNNING")
    first.wait_for(finished, "FINISHED")
    pid = driver_of(first, running)

    first.kill()

    wait_until_leads(second)
    assert (second.state(running), second.state(finished)) == ("RUNNING", "FINISHED")
    assert driver_of(second, running) == pid
    assert starts(second, running) == 1
    body = {"target-directory": "/tmp/s", "cancel-job": True}
    answer = second.request("POST", f"/jobs/{running}/savepoints", body)[1]
    assert second.operation(running, answer["request-id"])["location"].startswith("/tmp/s/")
    second.wait_for(running, "CANCELED")
    again = second.submit("--finish", "0")
    second.wait_for(again, "FINISHED")

    first.start()
    assert raw_get(first, "/jobs")[0] == 307
    assert {job["id"] for job in first.request("GET", "/jobs")[1]["jobs"]} == {running, finished, again}


def test_a_leader_that_ends_hands_over_at_once(job_managers):
    first = job_managers("a")
    wait_until_leads(first)
    second = job_managers("b")
    job = first.submit()
    first.wait_for(job, "RUNNING")

    first.process.terminate()
    first.process.wait(LONGEST_S)

    wait_until_leads(second)
    assert second.state(job) == "RUNNING"


@on_each_storage
def test_a_stopped_leader_that_is_continued_does_nothing(job_managers):
    first = job_managers("a")
    wait_until_leads(first)
    second = job_managers("b")
    job, other = first.submit("--restart", "5", "10"), first.submit("--restart", "5", "10")
    for each in (job, other):
        first.wait_for(each, "RUNNING")
    pids = {driver_of(first, job), driver_of(first, other)}

    os.kill(first.process.pid, signal.SIGSTOP)
    wait_until_leads(second)
    # both of these deaths are for the new leader to mend; the old one sees them as soon as it is continued
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not pids & {driver_of(second, job), driver_of(second, other), 0})
    for each in (job, other):
        second.wait_for(each, "RUNNING")
    records = {each: JobRecord.read(second.home.job(each)) for each in (job, other)}
    os.kill(first.process.pid, signal.SIGCONT)

    eventually(lambda: raw_get(first, "/jobs")[0] == 307)
    eventually(lambda: first.home.jobmanager_log.read_text().count("is left alone") >= 2)
    status, refusal = first.request("PATCH", f"/jobs/{job}")
    assert (status, refusal["pystate"]["class"]) == (503, "LeadershipLostError")
    for each in (job, other):
        assert second.state(each) == "RUNNING"
        assert starts(second, each) == 2
        assert JobRecord.read(second.home.job(each)) == records[each]
        assert record_token(second.home.job(each)) == 2
    found = DriverLauncher(second.home).find_running()
    assert {found[each].pid for each in (job, other)} == {driver_of(second, job), driver_of(second, other)}

    second.kill()
    wait_until_leads(first)
    assert (first.state(job), first.state(other)) == ("RUNNING", "RUNNING")


@pytest.mark.slow
@pytest.mark.parametrize("job_managers", ["folder", "s3"], indirect=True)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_next_leader_goes_on_with_a_rescale_and_the_last_one_leaves_it_alone(job_managers, tmp_path, end):
    first = job_managers("a")
    wait_until_leads(first)
    second = job_managers("b")
    gate = tmp_path / "gate"
    gate.touch()
    settings = {"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")}
    job = first.submit("--init-until", str(gate), configuration=settings)
    first.wait_for(job, "RUNNING")
    gate.unlink()
    trigger = first.request("PATCH", f"/jobs/{job}/rescaling?parallelism=3")[1]["request-id"]
    eventually(lambda: len(first.request("GET", "/jobs")[1]["jobs"]) == 2)

    os.kill(first.process.pid, end)
    wait_until_leads(second)
    gate.touch()

    def told() -> dict:
        return second.request("GET", f"/jobs/{job}/rescaling/{trigger}")[1]

    eventually(lambda: told()["status"]["id"] == "COMPLETED")
    assert told()["operation"] == {}, told()
    successor = told()["pystate"]["job-id"]
    if end is signal.SIGSTOP:
        os.kill(first.process.pid, signal.SIGCONT)
        eventually(lambda: raw_get(first, "/jobs")[0] == 307)
        eventually(lambda: "is left to the next job manager" in first.home.jobmanager_log.read_text())
    states = {one["id"]: one["status"] for one in second.request("GET", "/jobs")[1]["jobs"]}
    assert states == {job: "FINISHED", successor: "RUNNING"}
    assert read_json(second.home.job(job).rescaling)["runs"] == successor
    assert starts(second, successor) == 1
