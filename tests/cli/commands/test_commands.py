"""Whole outputs of the commands that ask about jobs or end them."""

from __future__ import annotations

import json
import os
import re

import pytest

from pystate import __version__
from pystate.common.build import commit
from pystate.common.errors import UsageError
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate_cli.commands.cancel import split_arguments
from pystate_cli.console.json_keys import with_our_keys
from tests.runtime.checkpoint.stats.statistics import Statistics

UNKNOWN = "0" * 31 + "1"
A, B = "a" * 32, "b" * 32
HELP = "  try: pystate list -a\n"


def test_list_in_a_pipe_is_what_the_flink_client_prints(manager, running, pystate):
    code, out, err = pystate("list")

    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"\d\d\.\d\d\.\d{{4}} \d\d:\d\d:\d\d : {running} : fake \(RUNNING\)", lines[1])
    assert lines[3] == "No scheduled jobs."


@pytest.mark.parametrize(
    ("flags", "states"),
    [
        ((), ["RUNNING", "INITIALIZING"]),
        (("-r",), ["RUNNING"]),
        (("-s",), ["INITIALIZING"]),
        (("-r", "-s"), ["RUNNING", "INITIALIZING"]),
        (("-a",), ["RUNNING", "INITIALIZING", "FINISHED"]),
    ],
)
def test_list_shows_the_groups_asked_for(manager, running, pystate, flags, states):
    ended = manager.submit("--finish", "0")
    starting = manager.submit("--init", "60")
    manager.wait_for(ended, "FINISHED")
    manager.wait_for(starting, "INITIALIZING")

    listed = json.loads(pystate("list", "--json", *flags).out)["jobs"]

    assert [job["state"] for job in listed] == states


def test_list_without_jobs(manager, pystate):
    assert pystate("list") == (0, "No running jobs.\nNo scheduled jobs.\n", "")


def test_list_on_a_terminal_is_a_table(manager, running, pystate, monkeypatch):
    monkeypatch.setattr("pystate_cli.console.console.Console.is_terminal", True)

    lines = pystate("list").out.splitlines()

    assert lines[0].split() == ["Job", "ID", "Name", "State", "Started", "Duration", "Tasks"]
    assert lines[2].split()[:4] == [running, "fake", "●", "RUNNING"]


def test_savepoint_prints_its_path_and_tells_the_rest_aside(manager, running, pystate):
    path = f"/tmp/s/savepoint-{running[:6]}-0123456789ab"

    assert pystate("savepoint", running, "/tmp/s") == (
        0,
        f"{path}\n",
        f"Triggering savepoint for job {running}.\n"
        "Waiting for response...\n"
        f"Savepoint completed. Path: {path}\n"
        "You can resume your program from this savepoint with the run command.\n",
    )


def test_a_relative_directory_is_one_of_the_caller(manager, running, pystate):
    assert pystate("savepoint", running, "mine").out.startswith(f"{os.getcwd()}/mine/savepoint-")
    assert pystate("savepoint", running, "s3://bucket/x").out.startswith("s3://bucket/x/savepoint-")


def test_savepoint_without_a_directory_anywhere(manager, running, pystate):
    assert pystate("savepoint", running) == (
        1,
        "",
        f"Triggering savepoint for job {running}.\n"
        "error: Config key [execution.checkpointing.savepoint-dir] is not set. "
        "Property [target-directory] must be provided.\n",
    )


def test_savepoint_that_fails(manager, pystate):
    job = manager.submit("--savepoint-fails")
    manager.wait_for(job, "RUNNING")

    code, out, err = pystate("savepoint", job, "/tmp/s")

    assert (code, out) == (1, "")
    assert err.endswith("error: The savepoint can't be written.\n  at: /tmp/s\n  try: free some space\n")


@pytest.mark.parametrize(
    "words",
    [
        ("savepoint", "JOB", ""),
        ("savepoint", "-d", ""),
        ("stop", "-p", "", "JOB"),
        ("cancel", "-s", "", "JOB"),
        ("cancel", "-s", "JOB", " "),
        ("rescale", "JOB", "-p", "2", "--savepointPath", ""),
        ("run", "-s", "", "FILE"),
        ("info", "-s", "", "FILE"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(manager, running, pystate, words):
    named = {"JOB": running, "FILE": str(manager.job_file)}

    code, out, err = pystate(*(named.get(word, word) for word in words))

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "is empty: is a variable of your script not set?" in err
    assert manager.state(running) == "RUNNING"


@pytest.mark.parametrize("words", [("savepoint", "JOB", "/tmp/s"), ("stop", "-p", "/tmp/s", "JOB")])
def test_a_savepoint_in_a_pipe_says_which_epoch_it_waits_for(manager, pystate, words):
    job = manager.submit("--savepoint-waits", "--savepoint", "1")
    manager.wait_for(job, "RUNNING")

    outcome = pystate(*(job if word == "JOB" else word for word in words))

    assert outcome.code == 0
    assert outcome.err.count("The savepoint waits for the end of epoch 2, which has run for 9.0 s.\n") == 1


def test_cancel_returns_when_the_job_has_ended(manager, running, pystate):
    expected = f"Cancelling job {running}.\nCancelled job {running}.\n"

    assert pystate("cancel", running) == (0, "", expected)
    assert manager.state(running) == "CANCELED"
    assert pystate("cancel", running) == (0, "", expected)


def test_cancel_of_a_job_that_has_finished(manager, pystate):
    job = manager.submit("--finish", "0")
    manager.wait_for(job, "FINISHED")

    assert pystate("cancel", job) == (
        1,
        "",
        f"Cancelling job {job}.\n"
        f"Could not cancel job {job}.\n"
        "error: Job cancellation failed because the job has already reached another terminal state (FINISHED).\n",
    )


@pytest.mark.parametrize(
    ("order", "where"),
    [
        (("-s", "DIR", "JOB"), "DIR"),
        (("-s", "JOB", "DIR"), "DIR"),
        (("JOB", "-s", "DIR"), "DIR"),
        (("--withSavepoint", "DIR", "JOB"), "DIR"),
        (("-s", "NAME", "DIR"), "DIR"),
        (("-s", "DIR", "NAME"), "DIR"),
        (("-s", "PREFIX", "DIR"), "DIR"),
        (("DIR", "PREFIX", "-s"), "DIR"),
        (("-s", "JOB"), None),
        (("JOB", "-s"), None),
    ],
)
def test_cancel_with_savepoint(manager, pystate, tmp_path, order, where):
    default = {"execution.checkpointing.savepoint-dir": str(tmp_path / "default")}
    job = manager.submit("--name", "word-count", configuration=default)
    manager.wait_for(job, "RUNNING")
    given = str(tmp_path / "given")
    words = {"DIR": given, "JOB": job, "NAME": "word-count", "PREFIX": job[:5]}

    code, out, err = pystate("cancel", *(words.get(word, word) for word in order))

    directory, told = (given, given) if where else (str(tmp_path / "default"), "default savepoint directory")
    path = f"{directory}/savepoint-{job[:6]}-0123456789ab"
    assert (code, out) == (0, f"{path}\n")
    assert err == (
        f"Cancelling job {job} with CANONICAL savepoint to {told}.\nCancelled job {job}. Savepoint stored in {path}.\n"
    )
    assert manager.state(job) == "CANCELED"


def test_a_job_goes_on_when_its_last_savepoint_fails(manager, pystate):
    job = manager.submit("--savepoint-fails")
    manager.wait_for(job, "RUNNING")

    code, out, _ = pystate("cancel", "-s", "/tmp/s", job)

    assert (code, out) == (1, "")
    assert manager.state(job) == "RUNNING"


@pytest.mark.parametrize(
    ("words", "result"),
    [
        ([A], (A, None)),
        ([A, "dir"], (A, "dir")),
        (["dir", A], (A, "dir")),
        ([B, A], (A, B)),
        ([A.upper()], (A.upper(), None)),
        (["dir", "beef"], ("beef", "dir")),
        (["beef", "dir"], ("beef", "dir")),
        (["dir", "word count"], ("word count", "dir")),
        (["word count", "dir"], ("word count", "dir")),
        ([A, "word count"], (A, "word count")),
        (["word count", A], (A, "word count")),
        (["dir", "no job"], ("no job", "dir")),
    ],
)
def test_of_two_words_the_job_is_the_one_that_means_a_job(words, result):
    assert split_arguments(words, {"beef", "word count"}.__contains__) == result


def test_two_words_that_mean_jobs_are_refused():
    with pytest.raises(UsageError, match='Both "beef" and "word count" mean jobs') as error:
        split_arguments(["beef", "word count"], lambda word: True)
    assert error.value.hint == "write the directory as a path: ./beef or ./word count"


def test_wrong_words_of_cancel(pystate):
    assert pystate("cancel", "dir", A) == (2, "", f"error: A directory needs -s.\n  try: pystate cancel -s dir {A}\n")
    assert pystate("cancel", "-s", "a", "b", "c").code == 2
    assert pystate("cancel").code == 2


@pytest.mark.parametrize("command", ["savepoint", "stop", "cancel", "checkpoints", "exceptions"])
def test_unknown_and_malformed_ids(manager, pystate, command):
    code, out, err = pystate(command, UNKNOWN)
    assert (code, out) == (1, "")
    assert err.endswith(f"error: There is no job with id {UNKNOWN}.\n{HELP}")

    assert pystate(command, "nothex") == (
        2,
        "",
        'error: Cannot parse JobID from "nothex": it is neither 32 hex digits, nor at least 4 that an id begins with, '
        f"nor the name of a job.\n{HELP}",
    )
    assert pystate(command, "beef") == (
        1,
        "",
        f'error: There is no job whose id begins with "beef", and none of that name.\n{HELP}',
    )


@pytest.mark.parametrize("command", [("savepoint", "JOB", "/tmp/s"), ("stop", "-p", "/tmp/s", "JOB"), ("cancel", "JOB")])
@pytest.mark.parametrize("given", ["name", "prefix", "upper"])
def test_a_job_is_given_by_its_name_or_its_first_digits(manager, pystate, command, given):
    job = manager.submit("--name", "word count")
    manager.submit("--name", "other")
    manager.wait_for(job, "RUNNING")
    meant = {"name": "word count", "prefix": job[:8], "upper": job.upper()}[given]

    code, _, err = pystate(*(meant if word == "JOB" else word for word in command))

    assert code == 0, err
    assert job in err


def test_a_running_job_wins_over_one_that_ended_under_its_name(manager, pystate):
    ended = manager.submit("--name", "word count", "--finish", "0")
    manager.wait_for(ended, "FINISHED")
    job = manager.submit("--name", "word count")
    manager.wait_for(job, "RUNNING")

    assert pystate("cancel", "word count").err == f"Cancelling job {job}.\nCancelled job {job}.\n"


@pytest.mark.parametrize("command", [("cancel",), ("stop",), ("savepoint",), ("checkpoint",), ("rescale", "-p", "3")])
def test_a_name_is_no_job_to_be_changed_once_it_has_ended(manager, pystate, command):
    ended = manager.submit("--name", "word-count", "--finish", "0")
    manager.wait_for(ended, "FINISHED")

    code, out, err = pystate(*command, "word-count")

    assert (code, out) == (1, "")
    assert err.startswith(f'error: No job "word-count" runs. The one that ended last is {ended} (FINISHED, ')
    assert err.endswith(").\n  try: pystate list -a\n")


def test_an_ambiguous_name_lists_who_may_be_meant(manager, pystate):
    jobs = [manager.submit("--name", "word count") for _ in range(2)]
    for job in jobs:
        manager.wait_for(job, "RUNNING")

    code, out, err = pystate("cancel", "word count")

    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert lines[0] == 'error: "word count" may mean any of 2 jobs:'
    assert set(lines[1:3]) == {f"  {job}  word count  RUNNING" for job in jobs}
    assert lines[3:] == ["  try: give the id, or more digits of it"]
    assert [manager.state(job) for job in jobs] == ["RUNNING", "RUNNING"]


@pytest.mark.parametrize(
    "words", [("-p", "DIR", "JOB"), ("JOB", "-p", "DIR"), ("--savepointPath", "DIR", "JOB"), ("--savepointPath=DIR", "JOB")]
)
def test_stop_ends_the_job_after_its_savepoint(manager, running, pystate, tmp_path, words):
    path = f"{tmp_path}/mine/savepoint-{running[:6]}-0123456789ab"

    given = [word.replace("DIR", "mine").replace("JOB", running) for word in words]
    assert pystate("stop", *given) == (
        0,
        f"{path}\n",
        f'Suspending job "{running}" with a CANONICAL savepoint.\n'
        f"Triggering stop-with-savepoint for job {running}.\n"
        "Waiting for response...\n"
        f"Savepoint completed. Path: {path}\n",
    )
    assert manager.state(running) == "FINISHED"


def test_stop_without_a_directory_anywhere_leaves_the_job_alone(manager, running, pystate):
    code, out, err = pystate("stop", running)

    assert (code, out) == (1, "")
    assert "Config key [execution.checkpointing.savepoint-dir] is not set." in err
    assert manager.state(running) == "RUNNING"


@pytest.mark.parametrize("flag", ["-d", "--drain"])
def test_stop_with_drain_is_asked_of_the_driver(manager, running, pystate, tmp_path, flag):
    path = f"{tmp_path}/mine/savepoint-{running[:6]}-0123456789ab"

    code, out, err = pystate("stop", flag, "-p", "mine", running)

    assert (code, out) == (0, f"{path}\n")
    assert err.startswith(f'Draining job "{running}" with a CANONICAL savepoint.\n')
    assert "triggered stop, drained" in manager.home.job(running).log.read_text()
    assert manager.state(running) == "FINISHED"


def test_a_job_goes_on_when_the_savepoint_of_its_stop_fails(manager, pystate):
    job = manager.submit("--savepoint-fails")
    manager.wait_for(job, "RUNNING")

    code, out, err = pystate("stop", "-p", "/tmp/s", job)

    assert (code, out) == (1, "")
    assert err.endswith("error: The savepoint can't be written.\n  at: /tmp/s\n  try: free some space\n")
    assert manager.state(job) == "RUNNING"


@pytest.mark.parametrize("command", [("list",), ("savepoint", A), ("stop", A), ("cancel", "x"), ("checkpoints", A)])
def test_without_a_job_manager(pystate, own_home, command):
    code, out, err = pystate(*command)

    assert (code, out) == (1, "")
    assert err == (
        f"error: No job manager is running for this home ({own_home}).\n"
        "  try: pystate run starts one, or pystate cluster start; PYSTATE_HOME names another home\n"
    )


def test_another_job_manager_is_addressed_with_m(manager, running, pystate, monkeypatch, tmp_path):
    port = manager.port
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path / "elsewhere"))

    assert running in pystate("list", "-m", f"localhost:{port}").out
    err = pystate("list", "-m", "localhost:1").err
    assert err.startswith("error: No job manager answers at localhost:1:")
    assert err.endswith("\n  try: pystate cluster status shows where this home's is; -m HOST:PORT names another one\n")
    assert pystate("list", "-m", "a:b").code == 2


def test_checkpoints_in_a_pipe(manager, running, pystate):
    statistics = Statistics().run(1, savepoint=True).write(manager.home.job(running).checkpoints)

    code, out, err = pystate("checkpoints", running)

    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["id", "1"]
    assert out.endswith("3/3           file:/sp/savepoint-1\n")
    assert err == "1 triggered: 1 completed, 0 in progress, 0 failed\n"
    assert json.loads(pystate("checkpoints", "--json", running).out) == with_our_keys(statistics.tracker.to_rest())


def test_one_checkpoint_in_a_pipe(manager, running, pystate):
    statistics = Statistics().trigger(1, at=0).acknowledge(1, "count", 1).write(manager.home.job(running).checkpoints)

    code, out, err = pystate("checkpoints", running, "1")

    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "checkpoint 1 IN_PROGRESS, 1/3 acknowledged\n")
    assert lines[0] == [
        "operator",
        "subtask",
        "status",
        "acknowledged",
        "latest_ack",
        "duration_ms",
        "full_bytes",
        "incremental_bytes",
        "start_delay_ms",
        "alignment_ms",
        "sync_ms",
        "async_ms",
        "buffered_bytes",
        "processed_bytes",
        "persisted_bytes",
        "uid",
    ]
    acked = ["1970-01-01T00:00:00.110+00:00", "110", "46650", "9330", "34", "0", "4", "5", "0", "0", "0", "count"]
    dashes = ["-"] * 11
    assert lines[1:] == [
        ["a" * 32, "all", "IN_PROGRESS", "1/2", *acked],
        ["a" * 32, "0", "pending_or_failed", "0/1", *dashes, "count"],
        ["a" * 32, "1", "completed", "1/1", *acked],
        ["b" * 32, "all", "IN_PROGRESS", "0/1", "-", "-", "0", "0", *["-"] * 4, "0", "0", "0", "total"],
        ["b" * 32, "0", "pending_or_failed", "0/1", *dashes, "total"],
    ]
    assert len({line.index(words[3]) for line, words in zip(out.splitlines()[1:], lines[1:], strict=True)}) == 1
    details = json.loads(pystate("checkpoints", "--json", running, "1").out)
    subtasks = {one: statistics.tracker.subtask_details(1, one) for one in ("a" * 32, "b" * 32)}
    assert details["tasks"] == with_our_keys(subtasks)
    assert {**details, "tasks": {}} == with_our_keys({**(statistics.tracker.details(1) or {}), "tasks": {}})


def test_a_failed_checkpoint_says_why_aside(manager, running, pystate):
    statistics = Statistics().trigger(1)
    statistics.fail(1, CheckpointFailureReason.CHECKPOINT_EXPIRED).write(manager.home.job(running).checkpoints)

    told = "checkpoint 1 FAILED, 0/3 acknowledged: The checkpoint expired before it was complete.\n"
    assert pystate("checkpoints", running, "1").err == told


def test_a_checkpoint_that_is_not_known(manager, running, pystate):
    assert pystate("checkpoints", running, "7") == (
        1,
        "",
        "error: Could not find checkpointing statistics for checkpoint 7.\n"
        f"  try: pystate checkpoints {running} lists those that are known\n",
    )
    assert pystate("checkpoints", running, "x").code == 2
    assert pystate("checkpoints", running, "1", "--summary") == (
        2,
        "",
        "error: --summary is of all checkpoints, and an ID names one.\n  try: leave one of them out\n",
    )


def test_the_summary_in_a_pipe(manager, running, pystate):
    statistics = Statistics()
    for number, after in ((1, 110), (2, 216), (3, 639)):
        statistics.trigger(number)
        for uid, subtask in (("count", 0), ("count", 1), ("total", 0)):
            statistics.acknowledge(number, uid, subtask, after=after, alignment_ms=None)
        statistics.complete(number)
    statistics.write(manager.home.job(running).checkpoints)

    code, out, err = pystate("checkpoints", running, "--summary")

    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "3 completed checkpoints and savepoints\n")
    assert lines[:2] == [
        ["figure", "min", "avg", "p50", "p90", "p95", "p99", "p999", "max"],
        ["end_to_end_duration_ms", "110", "321", "216", "639", "639", "639", "639", "639"],
    ]
    assert ["alignment_duration_ms", *["-"] * 8] in lines, "what nobody has measured is no 0"
    rest = statistics.tracker.to_rest()
    shown = json.loads(pystate("checkpoints", running, "--summary", "--json").out)
    assert shown == with_our_keys({"counts": rest["counts"], "summary": rest["summary"]})


def test_exceptions_in_a_pipe(manager, pystate):
    job = manager.submit("--restart", "5", "10", "--die", "0", "7", "--die-until", "1", "--fail-user", "0")
    manager.wait_for(job, "FAILED")

    code, out, err = pystate("exceptions", job)

    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["attempt", "when", "class", "failure"]
    assert [line[:7].strip() for line in lines[1:]] == ["1", "0"]
    told = (
        'ZeroDivisionError: division by zero at: count (uid count), subtask 1 File "/jobs/lib/shares.py", line 7, in share'
    )
    assert lines[1].endswith(f"ZeroDivisionError         {told}")
    assert lines[2].endswith("DriverLostError           The driver process ended with exit code 7.")
    verbose = pystate("exceptions", "-v", job).out.splitlines()
    assert verbose[:3] == lines
    assert "  ZeroDivisionError: division by zero" in verbose
    history = json.loads(pystate("exceptions", "--json", job).out)["exceptionHistory"]
    assert [entry["pystate"]["attempt"] for entry in history["entries"]] == [1, 0]


def test_a_job_that_has_not_failed_has_no_exceptions(manager, running, pystate):
    assert pystate("exceptions", running) == (
        0,
        "attempt  when                           class                     failure\n",
        "Nothing has failed.\n",
    )


def test_list_tells_how_often_a_job_was_restarted(manager, pystate, monkeypatch):
    job = manager.submit("--restart", "5", "60000", "--die", "0", "7")
    manager.wait_for(job, "RESTARTING")
    assert pystate("list").out.splitlines()[1].endswith(f"{job} : fake (RESTARTING)"), "what the flink client prints"
    monkeypatch.setattr("pystate_cli.console.console.Console.is_terminal", True)
    assert "fake  ● RESTARTING (1) " in pystate("list").out


def test_wrong_calls_are_one_sentence_and_exit_code_2(pystate):
    assert pystate("zzz") == (2, "", "error: No such command 'zzz'.\n  try: pystate --help\n")
    code, out, err = pystate("list", "--bogus")
    assert (code, out) == (2, "")
    assert err.startswith("error: No such option: --bogus")
    assert err.endswith("  try: pystate list --help\n")


def test_version_and_help(pystate):
    outcome = pystate("version")
    assert outcome == pystate("--version") == (0, f"pystate {__version__} ({commit()})\n", "")
    assert json.loads(pystate("version", "--json").out) == {"version": __version__, "commit": commit()}
    assert pystate("--help").code == 0
    assert pystate().code == 2
    assert "Usage: pystate [OPTIONS] COMMAND" in pystate().out


def test_a_bug_of_ours_shows_its_stack_trace_with_v_only(manager, pystate, monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("pystate_cli.commands.list_jobs.group_jobs", lambda *_args, **_kwargs: broken())

    assert pystate("list") == (
        1,
        "",
        "error: KeyError: 'x'\n  at: pystate itself\n  try: run it again with -v to see the stack trace\n",
    )
    assert "Traceback" in pystate("list", "-v").err


def test_a_file_that_is_not_for_this_user_is_named_with_the_way_out(manager, pystate, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/home/other/.pystate")

    monkeypatch.setattr("pystate_cli.commands.list_jobs.group_jobs", refused)

    code, out, err = pystate("list")

    assert (code, out) == (1, "")
    assert err.startswith("error: Permission denied.\n  at: /home/other/.pystate\n")
    assert "set PYSTATE_HOME to a folder of yours" in err
