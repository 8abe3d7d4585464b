"""`pystate checkpoint`, and operations that are triggered now and asked for later."""

from __future__ import annotations

import json
import re

import pytest

UNKNOWN = "0" * 31 + "1"


def test_checkpoint_prints_its_id_and_tells_the_rest_aside(manager, running, pystate):
    assert pystate("checkpoint", running) == (
        0,
        "7\n",
        f"Triggering checkpoint for job {running}.\n"
        "Waiting for response...\n"
        f"Checkpoint 7 for job {running} completed.\n"
        "You can resume your program from this checkpoint with the run command.\n",
    )


@pytest.mark.parametrize("flag", ["-full", "--full"])
def test_a_full_checkpoint_is_said_to_be_one(manager, running, pystate, flag):
    assert f"Checkpoint(FULL) 7 for job {running} completed.\n" in pystate("checkpoint", flag, running).err


def test_checkpoint_as_json(manager, running, pystate):
    assert json.loads(pystate("checkpoint", running, "--json").out) == {"jobId": running, "checkpointId": 7}


@pytest.mark.parametrize(
    ("words", "poll", "result"),
    [
        (("savepoint", "JOB", "/tmp/s", "-detached"), "savepoint", "/tmp/s/savepoint-JOB6-0123456789ab"),
        (("savepoint", "JOB", "/tmp/s", "--detached"), "savepoint", "/tmp/s/savepoint-JOB6-0123456789ab"),
        (("stop", "-p", "/tmp/s", "-detached", "JOB"), "savepoint", "/tmp/s/savepoint-JOB6-0123456789ab"),
        (("checkpoint", "-detached", "JOB"), "checkpoint", "7"),
    ],
)
def test_what_is_triggered_detached_can_be_asked_for(manager, pystate, words, poll, result):
    job = manager.submit()
    manager.wait_for(job, "RUNNING")

    code, out, err = pystate(*(job if word == "JOB" else word for word in words))

    assert code == 0
    assert re.fullmatch(r"[0-9a-f]{32}\n", out)
    trigger = out.strip()
    assert f"triggerId: {trigger}\nIts result: pystate {poll} {job} --trigger-id {trigger}\n" in err
    result = result.replace("JOB6", job[:6])
    assert pystate(poll, job, "--trigger-id", trigger, "--wait") == (0, f"{result}\n", "")
    assert pystate(poll, job, "--trigger-id", trigger) == (0, f"{result}\n", "")


@pytest.mark.parametrize("command", ["savepoint", "checkpoint"])
def test_what_is_not_complete_is_said_to_be_in_progress(manager, pystate, command):
    job = manager.submit("--savepoint", "60")
    manager.wait_for(job, "RUNNING")
    trigger = pystate(command, job, *(["/tmp/s"] if command == "savepoint" else []), "--detached").out.strip()

    assert pystate(command, job, "--trigger-id", trigger) == (
        0,
        "IN_PROGRESS\n",
        "1 of 2 subtasks have acknowledged.\n",
    )
    assert json.loads(pystate(command, job, "--trigger-id", trigger, "--json").out)["status"] == {"id": "IN_PROGRESS"}


def test_a_detached_savepoint_that_failed_is_the_error_of_who_asks(manager, pystate):
    job = manager.submit("--savepoint-fails", "--savepoint", "0")
    manager.wait_for(job, "RUNNING")
    trigger = pystate("savepoint", job, "/tmp/s", "--detached").out.strip()

    code, out, err = pystate("savepoint", job, "--trigger-id", trigger, "--wait")

    assert (code, out) == (1, "")
    assert err == "error: The savepoint can't be written.\n  at: /tmp/s\n  try: free some space\n"
    assert pystate("savepoint", job, "--trigger-id", trigger).code == 1


def test_wrong_words_beside_a_trigger_id(manager, running, pystate):
    trigger = "a" * 32
    assert pystate("savepoint", running, "/tmp/s", "--trigger-id", trigger).code == 2
    assert pystate("savepoint", running, "--detached", "--trigger-id", trigger).code == 2
    assert pystate("savepoint", running, "--wait").code == 2
    assert pystate("checkpoint", running, "--full", "--trigger-id", trigger).code == 2
    assert pystate("checkpoint", running, "--trigger-id", "nothex") == (
        2,
        "",
        'error: "nothex" is no trigger id, which has 32 hex digits.\n'
        "  try: give the one that the command with --detached has printed\n",
    )
    code, _, err = pystate("checkpoint", running, "--trigger-id", trigger)
    assert (code, err) == (1, f"error: There is no operation with trigger id {trigger} of job {running}.\n")


def test_a_job_is_found_by_its_application(manager, pystate):
    first = manager.submit("--application", "local-1795000000001")
    second = manager.submit("--application", "local-1795000000002")
    for job in (first, second):
        manager.wait_for(job, "RUNNING")

    assert f"for job {second} completed" in pystate("checkpoint", "-yid", "local-1795000000002").err
    assert pystate("checkpoint", "--application-id", "local-1795000000001", first).code == 0
    assert pystate("cancel", "-yid", "local-1795000000001").code == 0
    assert manager.state(first) == "CANCELED"
    assert (
        pystate("cancel", "-s", "/tmp/s", "-yid", "local-1795000000002").out
        == f"/tmp/s/savepoint-{second[:6]}-0123456789ab\n"
    )


def test_applications_that_mean_no_job_or_another_one(manager, running, pystate):
    other = manager.submit("--application", "local-1795000000001")
    manager.wait_for(other, "RUNNING")

    code, _, err = pystate("checkpoint", "-yid", "application_1_1")
    assert (code, err.splitlines()[0]) == (1, 'error: No job is the Spark application "application_1_1".')
    code, _, err = pystate("checkpoint", running, "-yid", "local-1795000000001")
    assert code == 2
    assert f'"{running}" is not the job of the application "local-1795000000001", which is {other}.' in err


@pytest.mark.parametrize("command", ["checkpoint", "checkpoints", "exceptions", "logs", "stop", "cancel", "savepoint"])
def test_a_command_without_a_job_asks_for_one_before_it_asks_anybody(pystate, command):
    code, out, err = pystate(command)

    assert (code, out) == (2, "")
    assert err.startswith("error: Missing JobID.")


def test_checkpoint_of_no_job(manager, pystate):
    code, _, err = pystate("checkpoint", UNKNOWN)
    assert code == 1
    assert err.endswith(f"error: There is no job with id {UNKNOWN}.\n  try: pystate list -a\n")
