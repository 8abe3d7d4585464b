"""The end of a job that a program of another home has registered: it isn't lost, and none is made of what is no end."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobTerminatedError
from pystate.common.files.home import PystateHome
from pystate.common.files.refused_files import NoSpaceError
from pystate.common.job_status import JobStatus
from pystate.common.processes.processes import is_stopped
from pystate.ops.jobmanager.drivers.driver_gateway import DriverUnreachableError
from pystate.ops.jobmanager.registration import registered_jobs
from pystate.ops.jobmanager.registration.observed_time import ObservedTime
from pystate.runtime.driver import registered_program
from pystate.runtime.driver.job_manager_client import JobManagerClient, JobManagerRefusesError, JobManagerUnreachableError
from pystate.runtime.driver.registered_program import JobManagerTerms, RegisteredProgram
from pystate.runtime.job_folder.registration import RegistrationAnswer, RegistrationFile, RegistrationRefusedError
from pystate.runtime.job_folder.small_files import DriverAddressFile, EmbeddedProgramFile
from pystate.runtime.rest.registration_messages import RegistrationChallenge
from tests.ops.jobmanager.harness import ManagerThread
from tests.ops.jobmanager.registration.made_registrations import JOB, ended_files, told
from tests.ops.jobmanager.registration.programs import Start, runs
from tests.ops.jobmanager.rest.in_process import InProcess
from tests.ops.jobmanager.test_supervision_on_a_full_disk import Refusing
from tests.waiting import LONGEST_S, wait_until

# -- the job manager wasn't there


def test_a_job_that_has_finished_while_its_job_manager_was_dead_is_so_in_the_next_one(tmp_path: Path, start: Start) -> None:
    manager = ManagerThread(tmp_path / "home").start()
    program = runs(start(manager.port, **{"last word": "0"}))
    wait_until(lambda: manager.state(JOB) == "RUNNING")
    manager.stop()
    program.communicate(b"\n")
    manager = ManagerThread(tmp_path / "home").start()
    try:
        assert manager.state(JOB) == "FINISHED"
    finally:
        manager.stop()


def test_a_program_that_lives_on_tells_of_the_end_when_a_job_manager_is_there_again(tmp_path: Path, start: Start) -> None:
    manager = ManagerThread(tmp_path / "home").start()
    port = manager.port
    program = runs(start(port, **{"last word": "0"}))
    wait_until(lambda: manager.state(JOB) == "RUNNING")
    manager.stop()
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b"live on\n")
    program.stdin.flush()
    assert program.stdout.readline() == b"goes on\n"
    other = ManagerThread(tmp_path / "other")
    other.home.root.mkdir()
    shutil.copy(manager.home.token, other.home.token)
    other.start(port=port)
    try:
        wait_until(lambda: [job["state"] for job in other.request("GET", "/jobs/overview")[1]["jobs"]] == ["FINISHED"])
    finally:
        other.stop()


def test_one_that_was_not_heard_of_again_is_told_of_as_such(served: InProcess) -> None:
    told(served)
    (job,) = served.dispatcher.jobs()
    program = EmbeddedProgramFile.read_from(job.directory.embedded)
    assert program is not None
    found = served.dispatcher.registered.found(job.directory, program)
    assert found is not None
    found._observed = lambda: 10**6
    found.look()
    failure = str(found.status()["failure"])
    assert "hasn't been heard of since this job manager began" in failure
    assert "How the job ended, if it ended while no job manager ran, is said there: there:/home." in failure


def test_the_next_start_of_the_program_may_tell_of_the_end_that_was_missed(served: InProcess) -> None:
    told(served)
    (job,) = served.dispatcher.jobs()
    job._observed = lambda: 10**6
    assert served.dispatcher.job(JOB).state() is JobStatus.FAILED
    told(served, incarnation="second", ended=True, files=ended_files(JobStatus.FINISHED))
    assert served.dispatcher.job(JOB).state() is JobStatus.FINISHED


# -- silence


def test_time_in_which_the_job_manager_was_stopped_is_no_silence(served: InProcess) -> None:
    now = [0]
    observed = ObservedTime(threading.Event(), lambda: now[0])
    served.dispatcher.registered._observed = observed
    told(served)
    now[0] += 3_600_000
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING
    for _ in range(60):
        now[0] += 1000
        observed.ms()
    assert served.dispatcher.job(JOB).state() is JobStatus.FAILED


def test_a_program_may_be_silent_for_as_long_as_its_own_options_say(served: InProcess) -> None:
    told(served, interval_ms=60_000)
    (job,) = served.dispatcher.jobs()
    job._observed = lambda: 170_000
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING
    job._observed = lambda: 190_000
    assert served.dispatcher.job(JOB).state() is JobStatus.FAILED


def _reachable(served: InProcess, monkeypatch: pytest.MonkeyPatch, answers: list[bool]) -> Any:
    def call(*_: object, **__: object) -> dict[str, Any]:
        if answers[0]:
            return {}
        message = "No."
        raise DriverUnreachableError(message)

    monkeypatch.setattr(registered_jobs, "call_driver", call)
    told(served)
    (job,) = served.dispatcher.jobs()
    job._observed = lambda: 10**6
    return job


def test_a_silent_program_that_answers_is_not_lost(served: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [True]
    job = _reachable(served, monkeypatch, answers)
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING
    answers[0] = False
    job._observed = lambda: 2 * 10**6
    assert served.dispatcher.job(JOB).state() is JobStatus.FAILED
    answers[0] = True  # it was cut off, and isn't any more
    with pytest.raises(RegistrationRefusedError, match="runs already, in process 1 on there"):
        told(served, incarnation="second")


def test_one_that_was_taken_for_lost_and_replaced_is_told_so_and_gets_the_job_no_more(served: InProcess) -> None:
    told(served)
    (job,) = served.dispatcher.jobs()
    job._observed = lambda: 10**6
    assert served.dispatcher.job(JOB).state() is JobStatus.FAILED
    assert not told(served, incarnation="second")["replaced"]
    for whole in (True, False):
        assert told(served, whole=whole, ended=True, files=ended_files(JobStatus.CANCELED))["replaced"]
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING
    told(served, incarnation="second", whole=False, ended=True, files=ended_files(JobStatus.FINISHED))
    assert served.dispatcher.job(JOB).state() is JobStatus.FINISHED
    kept = RegistrationFile.read_from(served.dispatcher.home.job(JOB).registration)
    assert kept is not None
    assert (kept.incarnation, kept.replaced) == ("second", ("first",))
    with pytest.raises(JobTerminatedError, match="has FINISHED"):
        told(served, incarnation="third")


# -- the program


class Client:
    """A job manager that answers as it is told to.

    Args:
        answer: The answer to each registration; None for what doesn't return until `released`.
    """

    address = "127.0.0.1:1"

    def __init__(self, answer: RegistrationAnswer | None) -> None:
        self.answer = answer
        self.released = threading.Event()

    def challenge(self, job_id: str, incarnation: str) -> RegistrationChallenge:
        return RegistrationChallenge(challenge="c", protocol=1, pystate_version="0", instance="1")

    def register(self, registration: object) -> RegistrationAnswer:
        if self.answer is None:
            self.released.wait()
            message = "Too late."
            raise JobManagerUnreachableError(message)
        return self.answer


def _program(tmp_path: Path, client: Any, says: list[str]) -> RegisteredProgram:
    home = PystateHome(tmp_path)
    home.token.write_text("0" * 64)
    terms = JobManagerTerms.of(Configuration({"pystate.jobmanager": "127.0.0.1:1", "heartbeat.interval": "100 ms"}), home)
    assert terms is not None
    directory = home.job(JOB)
    directory.path.mkdir(parents=True)
    EmbeddedProgramFile.of_this_process(JOB).write_to(directory.embedded)
    DriverAddressFile.of_this_process("127.0.0.1", 1).write_to(directory.driver)
    return RegisteredProgram(terms, client, JOB, home, directory, JOB, says.append)


def test_a_program_does_not_wait_for_a_job_manager_that_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_program, "_LAST_WORD_SECONDS", 0.0)
    client, says = Client(RegistrationAnswer("n")), list[str]()
    program = _program(tmp_path, client, says)
    program.begin()
    client.answer = None
    program._next_sign = 0.0
    program.end()
    assert "doesn't know of the end of job" in says[-1]
    client.answer = RegistrationAnswer("n")
    client.released.set()
    assert wait_until(lambda: "knows of the end" in says[-1])


def test_a_program_that_was_replaced_gives_way_and_says_so(tmp_path: Path) -> None:
    client, says, cancelled = Client(RegistrationAnswer("n")), list[str](), threading.Event()
    program = _program(tmp_path, client, says)
    program.begin()
    program.give_way = cancelled.set
    client.answer = RegistrationAnswer("n", replaced=True)
    program._next_sign = 0.0
    assert cancelled.wait(LONGEST_S)
    program.end()
    assert "has let another start of its program take it. The job is cancelled here." in says[-1]


def test_a_job_manager_that_answers_nothing_is_not_asked_who_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = JobManagerClient(["127.0.0.1:1"], "0" * 64), list[str]()
    error = JobManagerUnreachableError

    def call(address: str, method: str, path: str, body: object) -> Any:
        asked.append(path)
        message = "No."
        raise error(message)

    monkeypatch.setattr(client, "_call", call)
    with pytest.raises(JobManagerUnreachableError):
        client.challenge(JOB, "1")
    assert len(asked) == 1
    error = JobManagerRefusesError
    with pytest.raises(JobManagerUnreachableError):
        client.challenge(JOB, "1")
    assert asked[-1] == "/config"


@pytest.mark.parametrize("looks_before", [0, 1], ids=["before it is asked", "while it is asked"])
def test_a_command_for_a_program_that_was_stopped_says_so(
    manager: ManagerThread, start: Start, monkeypatch: pytest.MonkeyPatch, looks_before: int
) -> None:
    program = runs(start(manager.port))
    wait_until(lambda: manager.state(JOB) == "RUNNING")
    looks = iter([False] * looks_before)
    monkeypatch.setattr(registered_jobs, "is_stopped", lambda pid: next(looks, None) is None and is_stopped(pid))
    monkeypatch.setattr(registered_jobs, "_TRY_SECONDS", 0.5)
    os.kill(program.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: is_stopped(program.pid))  # its main thread stops when it is next scheduled
        status, answer = manager.request("POST", f"/jobs/{JOB}/savepoints", {"cancel-job": False})
    finally:
        os.kill(program.pid, signal.SIGCONT)
    assert status == 503
    assert f"process {program.pid} on " in answer["errors"][0]
    assert "was stopped (SIGSTOP, a debugger), so it can't answer" in answer["errors"][0]


# -- a full disk of the job manager


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    return Refusing(monkeypatch)


def test_what_a_full_disk_does_not_take_is_refused_leaves_nothing_and_is_taken_later(
    served: InProcess, disk: Refusing
) -> None:
    with disk.full(), pytest.raises(NoSpaceError, match="What the program tells of its job can't be written here"):
        told(served)
    assert not list(served.dispatcher.home.jobs.iterdir())
    assert not told(served)["wanted"]
    assert served.dispatcher.job(JOB).state() is JobStatus.RUNNING


def test_the_end_of_a_job_is_written_on_a_full_disk(served: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    told(served)
    real = registered_jobs.write_file_atomically

    def full(file: Any, data: bytes, *, reserve: Any = None, **options: Any) -> None:
        if reserve is None:
            raise OSError(28, "No space left on device", str(file))
        real(file, data, reserve=reserve, **options)

    monkeypatch.setattr(registered_jobs, "write_file_atomically", full)
    assert served.dispatcher.home.job(JOB).status_reserve.path.stat().st_size > 0
    told(served, whole=False, ended=True, files=ended_files(JobStatus.FINISHED))
    assert served.dispatcher.job(JOB).state() is JobStatus.FINISHED
