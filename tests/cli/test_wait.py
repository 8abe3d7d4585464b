"""`pystate wait`."""

from __future__ import annotations

import json
import threading


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
        f"  try: see {manager.home.job(job).log}\n"
    )


def test_a_job_that_is_cancelled_meanwhile(manager, running, pystate):
    threading.Timer(0.3, lambda: manager.request("PATCH", f"/jobs/{running}")).start()

    assert pystate("wait", running) == (1, f"{running} CANCELED\n", f"error: Job {running} was cancelled.\n")


def test_several_jobs_are_told_as_they_end(manager, pystate):
    late, failed, soon = manager.submit("--finish", "1"), manager.submit("--fail", "0.4"), manager.submit("--finish", "0")
    manager.wait_for(soon, "FINISHED")

    code, out, err = pystate("wait", late, failed, soon, late[:8])

    assert (code, out) == (1, f"{soon} FINISHED\n{failed} FAILED\n{late} FINISHED\n")
    assert err.count("error:") == 1


def test_a_timeout_leaves_the_jobs_alone(manager, running, pystate):
    ended = manager.submit("--finish", "0")
    manager.wait_for(ended, "FINISHED")

    code, out, err = pystate("wait", running, ended, "--timeout", "0.3")

    assert (code, out) == (1, f"{ended} FINISHED\n")
    assert err.startswith(f"error: Waited for 0.3 s, and not ended yet: {running}\n")
    assert manager.state(running) == "RUNNING"


def test_wait_as_json(manager, running, pystate):
    failed = manager.submit("--fail", "0")
    manager.wait_for(failed, "FAILED")

    code, out, _ = pystate("wait", failed, running, "--timeout", "0", "--json")

    jobs = json.loads(out)["jobs"]
    assert code == 1
    assert [(job["job_id"], job["state"]) for job in jobs] == [(failed, "FAILED"), (running, None)]
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
