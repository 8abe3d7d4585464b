"""Finding and starting the job manager."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pystate.common.errors import PystateError, UsageError
from pystate.common.files.home import PystateHome, read_json, write_json
from pystate.common.job_status import JobStatus
from pystate.common.processes.job_manager_address import parse_address
from pystate.ops.jobmanager.drivers.found_drivers import processes
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile
from pystate.runtime.rest.job_messages import JobIdsWithStatusOverview
from pystate_cli.client.absent_job_manager import has_embedded_jobs_only
from pystate_cli.client.job_manager import ensure_job_manager, find_job_manager
from pystate_cli.client.rest_client import NoJobManagerError, RestClient
from tests.ops.jobmanager.harness import Manager, ManagerThread, eventually
from tests.waiting import LONGEST_S


@pytest.fixture
def home(own_home) -> Iterator[PystateHome]:
    home = PystateHome(own_home)
    yield home
    entry = read_json(home.jobmanager)
    if entry is not None and entry["pid"] != os.getpid():
        os.kill(entry["pid"], signal.SIGTERM)
    eventually(lambda: not processes_of(home))


def processes_of(home: PystateHome) -> list[int]:
    return [pid for pid, command in processes() if "pystate.ops.jobmanager" in command and str(home.root) in command]


def ensure(home: PystateHome, *command: str):
    return ensure_job_manager(home, "127.0.0.1", 0, 10, command or (sys.executable, "-m", "pystate.ops.jobmanager"))


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_job_manager_is_started_once(home):
    first = ensure(home)
    pid = read_json(home.jobmanager)["pid"]
    second = ensure(home)

    assert first.get("/jobs", JobIdsWithStatusOverview) == second.get("/jobs", JobIdsWithStatusOverview)
    assert read_json(home.jobmanager)["pid"] == pid
    assert os.getsid(pid) == pid, "a signal of the terminal would end it"
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_two_runs_at_once_share_one_job_manager(home):
    addresses: list[str] = []
    threads = [threading.Thread(target=lambda: addresses.append(ensure(home).address)) for _ in range(2)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(addresses) == 2
    assert len(set(addresses)) == 1


def test_a_stale_address_with_a_dead_process_is_recognised(home):
    home.root.mkdir()
    write_json(home.jobmanager, {"pid": dead_pid(), "address": "127.0.0.1", "port": 1, "instance": "x"})

    with pytest.raises(NoJobManagerError):
        find_job_manager(home, None, 10)
    assert ensure(home).get("/jobs", JobIdsWithStatusOverview).jobs == []


def test_a_stale_address_with_a_foreign_program_on_the_port_is_recognised(manager, home, tmp_path, monkeypatch):
    foreign = read_json(manager.home.jobmanager)
    other = PystateHome(tmp_path / "other")
    other.root.mkdir()
    write_json(other.jobmanager, {**foreign, "instance": "another"})
    (other.token).write_text("secret")

    with pytest.raises(NoJobManagerError, match="No job manager is running for this home"):
        find_job_manager(other, None, 10)


def test_a_stale_address_with_a_dead_port_is_recognised(home):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home.root.mkdir()
    write_json(home.jobmanager, {"pid": os.getpid(), "address": "127.0.0.1", "port": port, "instance": "x"})

    with pytest.raises(NoJobManagerError):
        find_job_manager(home, None, 10)


def test_a_job_manager_that_does_not_come_up_is_explained_with_its_last_words(home):
    program = "import sys; print('one'); sys.exit('the disk is on fire')"

    with pytest.raises(PystateError) as caught:
        ensure(home, sys.executable, "-c", program)

    assert caught.value.message == (
        "The job manager ended at once with exit code 1.\n  | the disk is on fire\n  | one"
    ) or caught.value.message == ("The job manager ended at once with exit code 1.\n  | one\n  | the disk is on fire")
    assert caught.value.hint == f"see {home.jobmanager_log}"


def test_a_job_manager_that_was_killed_is_said_to_be_dead(tmp_path):
    home = PystateHome(tmp_path / "killed")
    home.root.mkdir()
    pid = dead_pid()
    write_json(home.jobmanager, {"pid": pid, "address": "127.0.0.1", "port": 1, "instance": "x"})

    with pytest.raises(NoJobManagerError) as caught:
        find_job_manager(home, None, 10)

    assert str(caught.value) == (
        f"The job manager of this home (process {pid}) is dead.\n"
        f"  at: {home.root}\n"
        "  try: pystate cluster start brings it back, and it finds its jobs again"
    )


ALL = [
    ("list",), ("watch", "JOB"), ("logs", "JOB"), ("exceptions", "JOB"), ("metrics", "JOB"), ("wait", "JOB"),
    ("stop", "JOB"), ("cancel", "JOB"), ("cancel", "-s", "a", "b"), ("rescale", "JOB", "-p", "2"), ("savepoint", "JOB"),
    ("checkpoint", "JOB"), ("checkpoints", "JOB"), ("cluster", "status"),
]  # fmt: skip


@contextlib.contextmanager
def kill_the_manager(manager: Manager) -> Iterator[tuple[str, int]]:
    """Yield a job that runs beside one that has ended, and the id of a process that was the job manager of both."""
    job, ended = manager.submit(), manager.submit("--finish", "0")
    manager.wait_for(job, "RUNNING")
    manager.wait_for(ended, "FINISHED")
    entry = manager.home.jobmanager.read_bytes()
    pid = dead_pid()
    write_json(manager.home.jobmanager, {**read_json(manager.home.jobmanager), "pid": pid})
    yield job, pid
    manager.home.jobmanager.write_bytes(entry)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Manager, str, int]]:
    manager = ManagerThread(tmp_path_factory.mktemp("killed") / "home").start()
    with kill_the_manager(manager) as (job, pid):
        yield manager, job, pid
    manager.stop()


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_says_that_the_jobs_of_a_killed_job_manager_go_on(killed, pystate, words, monkeypatch):
    manager, job, pid = killed
    monkeypatch.setenv("PYSTATE_HOME", str(manager.home.root))

    code, out, err = pystate(*(job if word == "JOB" else word for word in words))

    assert (code, out) == (1, "")
    assert err == (
        f"error: The job manager of this home (process {pid}) is dead. 1 job goes on without it.\n"
        f"  at: {manager.home.root}\n"
        "  try: pystate cluster start brings it back, and it finds its jobs again\n"
    )


def test_a_job_manager_that_was_stopped_has_left_its_jobs_too(manager, pystate):
    with kill_the_manager(manager):
        manager.home.jobmanager.unlink()

        code, _, err = pystate("list")
        assert code == 1
        assert err == (
            f"error: No job manager is running for this home ({manager.home.root}). 1 job goes on without it.\n"
            "  try: pystate cluster start brings it back, and it finds its jobs again\n"
        )
        assert pystate("cluster", "stop").err.endswith("1 job goes on without it.\n")
        checks = {check["name"]: check for check in json.loads(pystate("doctor", "--json").out)["checks"]}
        assert (checks["job manager"]["status"], checks["job manager"]["hint"]) == (
            "warn",
            "pystate cluster start brings it back, and it finds its jobs again",
        )


def test_a_job_manager_that_dies_under_a_command_is_said_to_leave_its_jobs(manager):
    entry = read_json(manager.home.jobmanager)
    client = RestClient("127.0.0.1", 1, timeout=LONGEST_S, instance=entry["instance"])

    with pytest.raises(NoJobManagerError) as caught:
        client.get("/jobs", JobIdsWithStatusOverview)

    assert caught.value.message.endswith("Connection refused. Its jobs go on without it.")
    assert caught.value.hint == "pystate cluster start brings it back, and it finds its jobs again"


@pytest.mark.parametrize("words", [("list",), ("run", "JOB"), ("stop", "x")])
def test_a_job_manager_of_another_version_is_refused(manager, pystate, monkeypatch, words):
    monkeypatch.setattr("pystate_cli.client.job_manager.VERSION", "9.9.9")
    entry = read_json(manager.home.jobmanager)

    assert pystate(*(manager.job_file if word == "JOB" else word for word in words)) == (
        1,
        "",
        f"error: The job manager has version {entry['version']}; this command has version 9.9.9.\n"
        f"  at: process {entry['pid']} at 127.0.0.1:{entry['port']}\n"
        f"  try: kill {entry['pid']} ends it, its jobs go on; the next pystate run starts one of version 9.9.9\n",
    )
    assert manager.request("GET", "/jobs")[1]["jobs"] == []


def test_a_job_manager_of_another_version_is_refused_where_it_is_addressed(manager, pystate, monkeypatch):
    monkeypatch.setattr("pystate_cli.client.job_manager.VERSION", "9.9.9")

    code, out, err = pystate("list", "-m", f"localhost:{manager.port}")

    assert (code, out) == (1, "")
    assert "this command has version 9.9.9." in err
    assert "try: call the pystate that it came with" in err


def test_a_log_that_is_no_file_is_said_so_and_holds_up_nobody(home, no_hang, not_regular):
    words, make = not_regular
    home.root.mkdir(exist_ok=True)
    make(home.jobmanager_log)

    with pytest.raises(PystateError, match=f"log can't be written: jobmanager.log is {words}, not a regular file") as caught:
        ensure(home)

    assert caught.value.where == str(home.jobmanager_log)
    assert caught.value.hint.startswith(f"mv {home.jobmanager_log} ")
    assert processes_of(home) == []


@pytest.mark.parametrize("other", [None, JobStatus.FINISHED, JobStatus.RUNNING])
def test_a_job_manager_is_started_for_jobs_that_programs_run_where_none_would_be_started_again_by_it(home, other):
    assert not has_embedded_jobs_only(home)
    embedded = home.job("ab" * 16)
    embedded.path.mkdir(parents=True)
    EmbeddedProgramFile.of_this_process("ab" * 16).write_to(embedded.embedded)
    if other is not None:
        directory = home.job("cd" * 16)
        directory.path.mkdir()
        JobRecord("cd" * 16, "other", 1, RecordPhase.STARTED).write(directory, None)
        JobStatusFile(other).write_to(directory.status)
    assert has_embedded_jobs_only(home) is (other is not JobStatus.RUNNING)


def test_the_first_command_that_asks_for_jobs_that_programs_run_starts_a_job_manager(home, pystate):
    directory = home.job("ab" * 16)
    directory.path.mkdir(parents=True)
    begun = JobStatusFile.begun("counts", 1)
    running = begun.moved_to(JobStatus.CREATED, 2).moved_to(JobStatus.RUNNING, 3)
    replace(running, waits_for="The job stands still: 2 tasks wait.").write_to(directory.status)
    program = EmbeddedProgramFile.of_this_process("ab" * 16)
    program.write_to(directory.embedded)
    code, out, err = pystate("list")
    assert code == 0
    assert f"{'ab' * 16} : counts (RUNNING) : embedded in process {program.pid} on {program.host}" in out
    assert "A job manager is started" in err
    assert f"warning: job {'ab' * 16}: The job stands still: 2 tasks wait." in err
    assert "is started" not in pystate("list").err


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("localhost", ("localhost", 8081, "")),
        ("[::1]:9000", ("::1", 9000, "")),
        ("proxy.example:443/streams", ("proxy.example", 443, "/streams")),
        ("proxy.example/a/b/", ("proxy.example", 8081, "/a/b")),
    ],
)
def test_an_address_may_have_the_path_of_a_proxy(text, parts):
    assert parse_address(text) == parts


@pytest.mark.parametrize(
    "text",
    ["", ":80", "host:x", "host:80/a?b", "host:80/#a", "me@host:80", "host:80/..", "host:80//a b", "host:8\n0", "host:80\n"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="host:port/path"):
        parse_address(text)
