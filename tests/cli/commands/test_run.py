"""`pystate run`, attached and detached."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest

from pystate.common.files.home import read_json
from pystate.runtime.rest.job_messages import JobIdsWithStatusOverview
from pystate_cli.client.rest_client import RestClient
from pystate_cli.commands.run import run_arguments
from pystate_cli.console.console import Console
from pystate_cli.running import detached_start
from tests.cli.conftest import without_times
from tests.fixtures import all_kinds
from tests.ops.jobmanager.fake_driver import USER_TRACE
from tests.ops.jobmanager.harness import eventually
from tests.waiting import LONGEST_S


def only_job(manager) -> str:
    return str(eventually(lambda: manager.request("GET", "/jobs")[1]["jobs"])[0]["id"])


def test_detached_prints_the_id_once_the_job_runs(manager, pystate):
    code, out, err = pystate("run", "-d", manager.job_file, "--init", "0.3")

    job = only_job(manager)
    assert (code, out) == (0, f"{job}\n")
    assert err == f"Job has been submitted with JobID {job}\n"
    assert manager.state(job) == "RUNNING"


def test_options_after_the_program_are_its_own_with_a_warning_or_a_dash(manager, pystate):
    code, _, err = pystate("run", "-d", manager.job_file, "--finish", "0", "-p", "2")
    assert code == 0
    assert err.startswith(f"warning: -p after {manager.job_file} goes to the program; put pystate's own before it, or --")

    code, out, err = pystate("run", "-d", manager.job_file, "--", "--finish", "0", "-p", "2")
    assert (code, err) == (0, f"Job has been submitted with JobID {out}")
    submission = json.loads(manager.home.job(out.strip()).submission.read_text())
    assert submission["arguments"] == ["--finish", "0", "-p", "2"]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 2)])
def test_on_a_terminal_options_after_the_program_are_asked_about(manager, pystate, monkeypatch, answer, code):
    monkeypatch.setattr(Console, "can_ask", True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    done = pystate("run", "-d", manager.job_file, "--finish", "0", "-p", "2")

    assert done.code == code
    assert done.err.startswith(f"-p after {manager.job_file} goes to the program, not to pystate. Go on? [y/N]\n")


def test_a_job_that_can_not_start_is_the_error_of_the_detached_run(manager, pystate):
    code, out, err = pystate("run", "-d", manager.job_file, "--fail-init")

    assert (code, out) == (1, "")
    assert err == (
        f"Job has been submitted with JobID {only_job(manager)}\n"
        "error: The savepoint does not fit.\n"
        "  at: operator 'count'\n"
        "  try: run -n leaves it out\n"
    )


def test_failures_are_told_while_a_detached_job_starts(manager, pystate):
    code, out, err = pystate("run", "-d", manager.job_file, "--fail-starts", "1", "1.5")

    job = only_job(manager)
    assert (code, out) == (0, f"{job}\n")
    assert err == (
        f"Job has been submitted with JobID {job}\n"
        "warning: attempt 0 failed and the job restarts: ConnectionError: at 0x0\n"
        "  at: count (uid count), subtask 0\n"
        '      File "/jobs/lib/shares.py", line 7, in share\n'
    )


def test_what_a_job_waits_for_is_told_once_while_it_starts(manager, pystate):
    held = "Waiting for 6 cores: the Spark master spark://m:7077 has 16 cores, none free: another application holds them."
    err = pystate("run", "-d", manager.job_file, "--waits-for", held, "--init", "2.5").err

    assert err == f"Job has been submitted with JobID {only_job(manager)}\nwarning: {held}\n"


def test_a_detached_job_that_does_not_run_in_time_goes_on(manager, pystate):
    code, out, err = pystate("run", "-d", "--timeout", "0.3", manager.job_file, "--never-runs")

    job = only_job(manager)
    assert (code, out) == (1, "")
    assert err == (
        f"Job has been submitted with JobID {job}\n"
        f"error: Job {job} does not run after 0.3 s: it is INITIALIZING, and goes on.\n"
        f"  try: pystate exceptions {job}; pystate cancel {job} ends it\n"
    )
    assert manager.state(job) == "INITIALIZING"


def test_the_timeout_is_one_of_detached_jobs(manager, pystate):
    assert pystate("run", "--timeout", "3", manager.job_file) == (
        2,
        "",
        "error: --timeout is about the start of a detached job.\n"
        "  try: add -d; pystate wait has a --timeout for the end of a job\n",
    )


def test_a_stack_trace_is_shown_with_v(manager, pystate):
    assert "RestoreError: The savepoint does not fit." in pystate("run", "-v", "-d", manager.job_file, "--fail-init").err


def test_a_job_that_is_cancelled_before_it_runs(manager, pystate):
    def cancel() -> None:
        manager.request("PATCH", f"/jobs/{only_job(manager)}")

    threading.Thread(target=cancel).start()
    code, out, err = pystate("run", "-d", manager.job_file, "--init", "0.7")

    assert (code, out) == (1, "")
    assert err.endswith("was cancelled before it ran.\n")


def test_attached_hands_the_output_on_until_the_program_ends(manager, pystate):
    code, out, err = pystate("run", manager.job_file, "--print", "2", "--finish", "0.2", "--warn")

    job = only_job(manager)
    assert (code, out) == (0, "1> line 0\n1> line 1\nafter the end\n")
    assert without_times(err) == (
        f"Job has been submitted with JobID {job}\n"
        "warning: the operator 'map' has no uid\n"
        "Program execution finished\n"
        f"Job with JobID {job} has finished.\n"
        "Job Runtime: N ms\n"
    )


def test_a_job_that_ends_before_it_was_seen_to_run_has_its_warnings_told(manager, pystate):
    code, _, err = pystate("run", manager.job_file, "--finish", "0", "--warn")

    assert code == 0
    assert err.splitlines()[1] == "warning: the operator 'map' has no uid"


@pytest.mark.parametrize("detached", [(), ("-d",)])
def test_the_start_says_what_the_job_promises(manager, pystate, detached):
    code, _, err = pystate("run", *detached, manager.job_file, "--finish", "0.2", "--promise", "--warn")

    arrow = "→" if "→" in err else "->"  # as stderr's encoding allows
    assert code == 0
    assert err.splitlines()[1:3] == [
        "warning: the operator 'map' has no uid",
        f"words {arrow} Print  at-least-once  what is printed is printed again",
    ]


def test_an_attached_job_that_fails(manager, pystate):
    code, out, err = pystate("run", manager.job_file, "--print", "1", "--fail", "0")

    job = only_job(manager)
    assert (code, out) == (1, "1> line 0\n")
    assert err == (
        f"Job has been submitted with JobID {job}\n"
        "error: The function of 'count' raised ValueError: no.\n"
        "  at: count\n"
        f"  try: pystate exceptions -v {job}, or see {manager.home.job(job).log}\n"
    )


def test_an_exception_of_the_user_shows_the_users_last_frame(manager, pystate):
    code, out, err = pystate("run", manager.job_file, "--fail-user", "0")

    job = only_job(manager)
    assert (code, out) == (1, "")
    assert err == (
        f"Job has been submitted with JobID {job}\n"
        "error: ZeroDivisionError: division by zero\n"
        "  at: count (uid count), subtask 1\n"
        '      File "/jobs/lib/shares.py", line 7, in share\n'
        f"  try: pystate exceptions -v {job}, or see {manager.home.job(job).log}\n"
    )


def test_with_v_the_whole_trace_follows_the_sentence(manager, pystate):
    err = pystate("run", "-v", manager.job_file, "--fail-user", "0").err

    assert err.endswith(USER_TRACE)
    assert err.count("Traceback") == 1, "how the command itself got there is of no interest"
    assert err.index("error: ZeroDivisionError") < err.index("Traceback")


def test_a_job_file_with_a_syntax_error_starts_nothing(manager, pystate):
    manager.job_file.write_text("x = 1\nfor x in :\n    pass\n")

    for flags in ((), ("-d",)):
        code, out, err = pystate("run", *flags, manager.job_file)
        assert (code, out) == (1, "")
        assert err.splitlines()[:3] == [
            "error: SyntaxError: invalid syntax",
            f'  at: File "{manager.job_file}", line 2',
            "    for x in :",
        ]
    assert manager.request("GET", "/jobs")[1]["jobs"] == []


def test_what_is_no_source_file_is_left_to_python(manager, pystate):
    archive = manager.job_file.with_suffix(".zip")
    archive.write_bytes(b"PK\0\0")

    assert pystate("run", archive, "--finish", "0").code == 0


def test_an_attached_job_whose_driver_is_killed(manager, pystate):
    code, _, err = pystate("run", "-D", "restart-strategy.type=none", manager.job_file, "--die", "0", "-9")

    assert code == 1
    assert "error: The driver process ended with signal SIGKILL.\n" in err


def test_an_attached_job_that_is_cancelled_elsewhere(manager, pystate):
    def cancel() -> None:
        job = only_job(manager)
        manager.wait_for(job, "RUNNING")
        manager.request("PATCH", f"/jobs/{job}")

    threading.Thread(target=cancel).start()
    code, out, err = pystate("run", manager.job_file)

    assert (code, out) == (1, "")
    assert err.endswith(f"error: Job was cancelled.\n  at: job {only_job(manager)}\n")


def test_an_attached_run_tells_of_restarts(manager, pystate):
    words = ("--die", "0.3", "-9", "--die-until", "1", "--restart", "3", "50", "--finish", "1.5")
    code, _, err = pystate("run", manager.job_file, *words)

    assert code == 0, err
    assert "warning: attempt 0 failed and the job restarts: The driver process ended with signal SIGKILL." in err
    assert err.count("warning:") == 1


def test_a_program_that_fails_after_its_job(manager, pystate):
    code, _, err = pystate("run", manager.job_file, "--finish", "0", "--exit", "3")

    assert code == 1
    assert "has finished.\n" in err
    assert "error: The program ended with exit code 3 after its job had finished.\n" in err


def test_a_job_goes_on_where_its_output_can_not_be_written(manager):
    command = [sys.executable, "-m", "pystate_cli", "run", str(manager.job_file), "--print", "3"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    job = only_job(manager)
    assert done.returncode == 1
    assert f"Let go of job {job}, which goes on: its output can't be written here.\n" in done.stderr
    assert "error: The result can't be written to stdout: No space left on device.\n" in done.stderr
    assert manager.state(job) == "RUNNING"


def test_what_a_program_fails_of_after_its_job_is_said(manager, pystate):
    words = ("--finish", "0", "--fail-after", "The program calls execute() a second time")
    said = "The program failed after its job had finished: The program calls execute() a second time"

    code, _, err = pystate("run", manager.job_file, *words)
    assert code == 1
    assert err.endswith(f"error: {said}\n  try: make two programs of it\n")

    code, out, err = pystate("run", "-d", manager.job_file, *words, "--init", "0")
    job = out.strip()
    code, out, err = pystate("wait", job)
    assert (code, out) == (0, f"{job} FINISHED\n")
    assert err == f"warning: Job {job}: {said}\n  try: make two programs of it\n"
    answer = json.loads(pystate("wait", "--json", job).out)["jobs"][0]
    assert (answer["state"], answer["failure"], answer["programFailure"]["message"]) == ("FINISHED", None, said)
    assert "The program calls execute() a second time" in pystate("exceptions", job).out


def test_a_start_that_meets_the_end_of_the_job_tells_of_the_program_too(manager, pystate, monkeypatch):
    monkeypatch.setattr("pystate_cli.running.detached_start.DetachedStart.wait", lambda self: await_end(self))
    words = ("--finish", "0", "--fail-after", "no second job")

    code, out, err = pystate("run", "-d", manager.job_file, *words)

    assert (code, out) == (1, f"{only_job(manager)}\n")
    assert "error: The program failed after its job had finished: no second job\n" in err


def await_end(start):
    from pystate_cli.running.waiting import await_end as until_it_has_ended

    return until_it_has_ended(start._client, start._job_id)


def test_what_was_given_reaches_the_driver(manager, pystate, tmp_path):
    all_kinds.write_savepoint(tmp_path / "sp", [])
    pystate("run", "-d", "-p", 3, "-s", "sp", "-n", "-D", "pipeline.name=x y", manager.job_file, "-p", "x", "--finish", 0)

    submission = read_json(manager.home.job(only_job(manager)).submission)
    assert submission["parallelism"] == 3
    assert submission["savepoint_path"] == str(tmp_path / "sp")
    assert submission["allow_non_restored_state"] is True
    assert submission["configuration"]["pipeline.name"] == "x y"
    assert submission["arguments"] == ["-p", "x", "--finish", "0"]
    assert submission["working_directory"] == str(tmp_path)
    assert submission["attached"] is False


def test_an_older_name_of_a_key_is_noticed(manager, pystate):
    err = pystate("run", "-d", "-D", "state.backend=memory", manager.job_file, "--finish", "0").err

    assert "warning: 'state.backend' is read as 'state.backend.type'" in err


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["job.py", "-py", "x"], ["job.py", "-py", "x"]),
        (["-py", "job.py"], ["job.py"]),
        (["-d", "-py", "job.py", "-p", "2", "in", "-p", "9"], ["-d", "-p", "2", "job.py", "in", "-p", "9"]),
        (["--python", "job.py", "--bogus", "-d"], ["job.py", "--bogus", "-d"]),
        (["--python=job.py", "-p2", "-Dk=v", "--parallelism=3"], ["-p2", "-Dk=v", "--parallelism=3", "job.py"]),
        (["-D", "k=-py", "job.py"], ["-D", "k=-py", "job.py"]),
    ],
)
def test_py_names_the_job_file_as_in_flink(words, result):
    assert run_arguments(words) == result


def test_wrong_calls_of_run(pystate, tmp_path):
    job = tmp_path / "job.py"
    job.write_text("")

    assert pystate("run", "nosuch.py") == (
        2,
        "",
        f"error: The job file does not exist: nosuch.py\n  at: {tmp_path}\n"
        "  try: give the path of a Python program; pystate new NAME makes one\n",
    )
    assert pystate("run", tmp_path).code == 2
    assert pystate("run").err == "error: Missing argument 'JOB.PY'.\n  try: pystate run --help\n"
    assert pystate("run", "-py").code == 2
    assert pystate("run", "-p", "0", job).code == 2
    assert pystate("run", "--bogus", job).code == 2
    assert pystate("run", "-D", "foo", job).err.startswith("error: -D takes key=value, not 'foo'.\n")
    assert pystate("run", "-D", "state.bakend.type=x", job).code == 2
    assert pystate("run", "--conf-dir", "nowhere", job).code == 1


def test_ctrl_c_leaves_a_detached_job_alone(manager, pystate, monkeypatch):
    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pystate_cli.running.detached_start.job_state", interrupt)

    code, out, err = pystate("run", "-d", manager.job_file)

    job = only_job(manager)
    assert (code, out) == (130, "")
    assert err.splitlines()[1] == f"Job {job} goes on; pystate cancel {job} ends it."


def test_a_job_manager_that_dies_after_a_submission_is_no_failure_of_it(manager, pystate, monkeypatch):
    asked = detached_start.job_state

    def gone(client: RestClient, job: str) -> object:
        monkeypatch.setattr(client, "_peer", ("127.0.0.1", 1))
        client._connection = client._new_connection()
        return asked(client, job)

    monkeypatch.setattr(detached_start, "job_state", gone)

    code, out, err = pystate("run", "-d", manager.job_file)

    job = only_job(manager)
    assert (code, out) == (0, f"{job}\n"), err
    assert "warning: No job manager answers" in err
    assert f"Job {job} was submitted, and goes on; pystate wait {job} --for running" in err


@pytest.mark.parametrize("place", ["putheader", "endheaders", "getresponse"])
def test_a_request_cut_by_ctrl_c_does_not_spoil_the_next_one(manager, monkeypatch, place):
    client = RestClient("127.0.0.1", manager.port, timeout=LONGEST_S)

    def interrupt(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(http.client.HTTPConnection, place, interrupt)
        client.get("/jobs", JobIdsWithStatusOverview)

    assert client.get("/jobs", JobIdsWithStatusOverview).jobs == []


def start(manager, *words: object, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pystate_cli", "run", *options, str(manager.job_file), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def running_attached(manager, *options: str) -> tuple[subprocess.Popen[bytes], str]:
    process = start(manager, "--print", "1", options=options)
    job = only_job(manager)
    manager.wait_for(job, "RUNNING")
    assert process.stdout is not None
    assert process.stdout.readline() == b"1> line 0\n"
    return process, job


def test_ctrl_c_lets_go_of_an_attached_job(manager):
    process, job = running_attached(manager)

    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=LONGEST_S)

    assert process.returncode == 130
    assert err.decode().splitlines()[1:] == [
        f"Let go of job {job}, which goes on. Ctrl-C once more within 3 seconds cancels it.",
        f"What it prints: pystate logs -f --stdout {job}",
        f"To end it: pystate cancel {job}",
    ]
    assert manager.state(job) == "RUNNING"


def test_a_second_ctrl_c_cancels_an_attached_job(manager):
    process, job = running_attached(manager)
    assert process.stderr is not None
    assert b"submitted" in process.stderr.readline()

    os.killpg(process.pid, signal.SIGINT)
    assert process.stderr.readline().startswith(b"Let go of job")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=LONGEST_S)

    assert process.returncode == 130
    assert err.decode().splitlines() == [
        f"Cancelling job {job}. Ctrl-C once more leaves at once.",
        f"Cancelled job {job}.",
    ]
    assert manager.state(job) == "CANCELED"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_attached_job_goes_with_its_command_if_that_is_wanted(manager, number):
    process, job = running_attached(manager, "-sae")

    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=LONGEST_S)

    assert process.returncode == 130
    assert err.decode().splitlines()[1:] == [
        f"Cancelling job {job}. Ctrl-C once more leaves at once.",
        f"Cancelled job {job}.",
    ]
    assert manager.state(job) == "CANCELED"


def test_a_job_may_be_given_a_name(manager, pystate):
    job = pystate("run", "-d", "--name", "count A", manager.job_file, "--name", "the program's").out.strip()

    assert [entry["name"] for entry in manager.request("GET", "/jobs/overview")[1]["jobs"]] == ["count A"]
    assert pystate("run", "-d", "--name", " ", manager.job_file).code == 2
    assert pystate("cancel", "count A").code == 0
    assert manager.state(job) == "CANCELED"


def test_a_reader_that_went_away_ends_an_attached_job(manager):
    process = start(manager, "--print", "2", "--init", "0.5")
    assert process.stdout is not None
    process.stdout.close()

    assert process.wait(LONGEST_S) == 1
    manager.wait_for(only_job(manager), "CANCELED")
    process.communicate()


@pytest.mark.parametrize("words", [("-s", "PATH"), ("-D", "execution.state-recovery.path=PATH")])
def test_a_savepoint_that_is_not_there_is_told_before_a_job_is_recorded(manager, pystate, tmp_path, words):
    path = str(tmp_path / "savepoint-aaaaaa-0123456789ab")
    code, out, err = pystate("run", "-d", *(word.replace("PATH", path) for word in words), manager.job_file)

    assert (code, out) == (1, "")
    assert err.startswith(f"error: Cannot find checkpoint or savepoint file/directory '{path}' on file system 'file'.\n")
    assert manager.request("GET", "/jobs")[1]["jobs"] == []


def test_the_path_of_another_machine_is_left_to_the_job(manager, pystate, tmp_path):
    code, _, _ = pystate("run", "-d", "-m", f"127.0.0.1:{manager.port}", "-s", "/there/only", manager.job_file)

    assert code == 0


def test_a_working_directory_that_was_deleted_is_named(pystate, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    ended = pystate("run", tmp_path / "job.py")
    assert (ended.code, "The working directory was deleted" in ended.err) == (2, True)
