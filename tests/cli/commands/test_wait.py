"""`pystate wait`."""

from __future__ import annotations

import json
import threading

import pytest

from tests.runtime.checkpoint.stats.statistics import Statistics


def test_wait_exits_with_the_fate_of_the_job(manager, pystate):
    job = manager.submit("--finish", "0.3")

    assert pystate("wait", job) == (0, f"{job} FINISHED\n", "")
    assert pystate("wait", job) == (0, f"{job} FINISHED\n", ""), "one that has ended already"


def test_a_job_that_failed_says_why(manager, pystate):
    job = manager.submit("--fail", "0")

    code, out, err = pystate("wait", job)

    assert (code, out) == (1, f"{job} FAILED\n")
    assert err == (
        f"error: Job {job} failed: The function of 'count' raised ValueError: no.\n"
        "  at: count\n"
        f"  try: pystate exceptions -v {job}, or see {manager.home.job(job).log}\n"
    )


def test_a_job_that_is_cancelled_meanwhile(manager, running, pystate):
    threading.Timer(0.3, lambda: manager.request("PATCH", f"/jobs/{running}")).start()

    assert pystate("wait", running) == (1, f"{running} CANCELED\n", f"error: Job {running} was cancelled.\n")


def test_several_jobs_are_told_as_they_end(manager, pystate):
    late, failed, soon = manager.submit("--finish", "2"), manager.submit("--fail", "0.4"), manager.submit("--finish", "0")
    manager.wait_for(soon, "FINISHED")

    code, out, err = pystate("wait", late, soon, failed, late[:8])

    assert (code, out) == (1, f"{soon} FINISHED\n{failed} FAILED\n{late} FINISHED\n")
    assert err.count("error:") == 1


def test_a_timeout_leaves_the_jobs_alone(manager, running, pystate):
    ended = manager.submit("--finish", "0")
    manager.wait_for(ended, "FINISHED")

    code, out, err = pystate("wait", running, ended, "--timeout", "0.3")

    assert (code, out) == (1, f"{ended} FINISHED\n")
    assert err.startswith(f"error: Waited for 0.3 s, and not ended yet: {running}\n")
    assert manager.state(running) == "RUNNING"


def test_waiting_until_a_job_runs(manager, pystate):
    job = manager.submit("--init", "0.5")

    assert pystate("wait", "--for", "running", job) == (0, f"{job} RUNNING\n", "")
    assert manager.state(job) == "RUNNING"


def test_waiting_for_a_checkpoint(manager, running, pystate):
    checkpoints = manager.home.job(running).checkpoints
    Statistics().run(1, savepoint=True).write(checkpoints)
    code, out, err = pystate("wait", "--for", "checkpoint", "--timeout", "0", running)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: Waited for 0 s, and no checkpoint completed yet: {running}\n"), "a savepoint is none"

    threading.Timer(0.4, lambda: Statistics().run(1, savepoint=True).run(2).write(checkpoints)).start()
    assert pystate("wait", "--for", "checkpoint", running) == (0, f"{running} RUNNING 2\n", "")
    code, out, _ = pystate("wait", "--for", "checkpoint", "--json", running)
    assert (code, json.loads(out)) == (
        0,
        {"jobs": [{"jobId": running, "state": "RUNNING", "checkpointId": 2, "failure": None, "programFailure": None}]},
    )


@pytest.mark.parametrize("event", ["running", "checkpoint"])
def test_a_job_that_ends_before_has_not_done_what_was_waited_for(manager, pystate, event):
    ended, failed = manager.submit("--finish", "0"), manager.submit("--fail", "0")
    manager.wait_for(ended, "FINISHED")
    manager.wait_for(failed, "FAILED")

    code, out, err = pystate("wait", "--for", event, ended)
    assert (code, out) == (1, f"{ended} FINISHED\n")
    assert err.startswith(f"error: Job {ended} has FINISHED: ")
    code, _, err = pystate("wait", "--for", event, failed)
    assert (code, err.startswith(f"error: Job {failed} failed: ")) == (1, True)
    assert pystate("wait", "--for", "lunch", ended).code == 2


def test_wait_as_json(manager, running, pystate):
    failed = manager.submit("--fail", "0")
    manager.wait_for(failed, "FAILED")

    code, out, _ = pystate("wait", failed, running, "--timeout", "0", "--json")

    jobs = json.loads(out)["jobs"]
    assert code == 1
    assert [(job["jobId"], job["state"]) for job in jobs] == [(failed, "FAILED"), (running, "RUNNING")]
    assert jobs[0]["failure"]["where"] == "count"


def test_wrong_calls_of_wait(manager, pystate):
    assert pystate("wait").code == 2
    assert pystate("wait", "--timeout", "-1", "beef").code == 2
    assert pystate("wait", "0" * 32).code == 1


def test_a_name_means_the_job_that_runs_and_then_the_one_that_ended_last(manager, pystate):
    former = manager.submit("--name", "word-count", "--finish", "0")
    manager.wait_for(former, "FINISHED")
    successor = manager.submit("--name", "word-count", "--finish", "1.5")
    manager.wait_for(successor, "RUNNING")  # until then it has no name

    assert pystate("wait", "word-count") == (0, f"{successor} FINISHED\n", "")
    code, out, err = pystate("wait", "word-count")

    assert (code, out) == (0, f"{successor} FINISHED\n")
    assert err.startswith(f'2 jobs "word-count" have ended. This is the last: {successor} (FINISHED, ')
