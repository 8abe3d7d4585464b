"""What a program that runs its jobs itself changes of its own process, and what it leaves where its job doesn't start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import ConfigurationError, JobTerminatedError
from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver import registered_program
from pystate.runtime.driver.embedded import EmbeddedExecutor
from pystate.runtime.driver.job_manager_client import JobManagerClient, JobManagerUnreachableError
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.registration import Registration, RegistrationAnswer
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile
from pystate.runtime.rest.registration_messages import RegistrationChallenge


def test_the_programs_folder_is_on_the_path_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "job.py")])
    monkeypatch.setattr(sys, "path", [*sys.path, f"{tmp_path}/."])
    for _ in range(2):
        EmbeddedExecutor(PystateHome(tmp_path / "home"), Configuration())
    assert [path.rstrip("/.") for path in sys.path].count(str(tmp_path)) == 1


def test_a_job_whose_job_manager_does_not_answer_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_program.RegisteredProgram.check, "__defaults__", (0,))
    home = PystateHome(tmp_path / "home")
    home.root.mkdir()
    home.token.write_text("0" * 64)
    options = {"pystate.jobmanager.address": "127.0.0.1:1", "pystate.job-id": "ab" * 16}
    register_executor(EmbeddedExecutor(home, Configuration(options)))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1]).print()
        with pytest.raises(JobManagerUnreachableError, match=r"The job manager at 127\.0\.0\.1:1 doesn't answer"):
            env.execute("counts")
    finally:
        register_executor(None)
    assert not list(home.jobs.glob("*"))


def test_a_job_manager_that_has_missed_the_end_of_a_job_hears_of_it_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Registration] = []

    def register(_: object, registration: Registration) -> RegistrationAnswer:
        said.append(registration)
        return RegistrationAnswer(registration.nonce)

    challenge = RegistrationChallenge(challenge="c", protocol=1, pystate_version="0", instance="1")
    monkeypatch.setattr(JobManagerClient, "challenge", lambda *_: challenge)
    monkeypatch.setattr(JobManagerClient, "register", register)
    home, job_id = PystateHome(tmp_path / "home"), "ab" * 16
    directory = home.job(job_id)
    directory.path.mkdir(parents=True)
    home.token.write_text("0" * 64)
    home.token.chmod(0o600)
    JobStatusFile(JobStatus.FINISHED, timestamps={"FINISHED": 1}).write_to(directory.status)
    gone = EmbeddedProgramFile(1, "there", "another/1", None, "", job_id)
    gone.write_to(directory.embedded)
    options = {"pystate.jobmanager.address": "127.0.0.1:1", "pystate.job-id": job_id}
    register_executor(EmbeddedExecutor(home, Configuration(options)))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection([1]).print()
        with pytest.raises(JobTerminatedError, match="has FINISHED"):
            env.execute("counts")
    finally:
        register_executor(None)
    assert [(one.ended, one.program, "status.json" in one.files) for one in said] == [(True, gone, True)]


@pytest.mark.parametrize("given", [None, "cd" * 16], ids=["none before", "another before"])
def test_an_id_that_the_program_sets_is_refused_since_it_would_be_a_new_job_at_each_start(
    tmp_path: Path, given: str | None
) -> None:
    home = PystateHome(tmp_path / "home")
    register_executor(EmbeddedExecutor(home, Configuration({} if given is None else {"pystate.job-id": given})))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.configure(Configuration({"pystate.job-id": "ab" * 16}))
        env.from_collection([1]).print()
        with pytest.raises(ConfigurationError, match="must be known before it starts") as raised:
            env.execute("counts")
    finally:
        register_executor(None)
    assert f"spark.pystate.job-id={'ab' * 16}" in str(raised.value.hint)
    assert not list(home.jobs.glob("*/*"))
