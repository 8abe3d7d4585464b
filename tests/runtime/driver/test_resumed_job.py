"""A program that something else starts again goes on with its job, if that hasn't ended."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobExecutionError, JobTerminatedError, SparkLostError, UsageError
from pystate.common.files.folders import make_private_folder
from pystate.common.files.home import PystateHome
from pystate.common.job_status import JobStatus
from pystate.core.api.executor import register_executor
from pystate.datastream import StreamExecutionEnvironment
from pystate.runtime.driver.embedded import EmbeddedExecutor
from pystate.runtime.driver.resumed_job import check_not_left_elsewhere, resume
from pystate.runtime.job_folder.failure_history import JobFailure
from pystate.runtime.job_folder.job_liveness import settled_status
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.small_files import EmbeddedProgramFile

JOB = "5f0c" * 8


@pytest.fixture
def gone():
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    process.wait()
    return process.pid


@pytest.fixture
def directory(tmp_path, gone):
    """The folder of a job whose program was killed while it ran."""
    directory = PystateHome(tmp_path / "home").job(JOB)
    make_private_folder(directory.path)
    replace(EmbeddedProgramFile.of_this_process(JOB), pid=gone, started="0").write_to(directory.embedded)
    status = JobStatusFile.begun("counts", 1).moved_to(JobStatus.CREATED, 2).moved_to(JobStatus.RUNNING, 3)
    status.write_to(directory.status)
    return directory


def status_of(directory):
    return JobStatusFile.read_from(directory.status)


def test_a_first_start_is_a_new_job(tmp_path):
    assert resume(PystateHome(tmp_path / "home").job(JOB), JOB) is None


@pytest.mark.parametrize("looked", [False, True], ids=["nobody has looked", "a job manager has seen that it is gone"])
def test_a_job_whose_program_was_killed_goes_on_as_its_next_attempt(directory, looked):
    if looked:
        assert settled_status(directory, EmbeddedProgramFile.read_from(directory.embedded)).state is JobStatus.FAILED
    assert "attempt 1" in resume(directory, JOB)
    status = status_of(directory)
    assert (status.state, status.attempt, status.end_time) == (JobStatus.RESTARTING, 1, -1)
    assert "attempt 2" in resume(directory, JOB)


def test_a_job_whose_spark_was_killed_goes_on_though_its_program_has_said_so(directory):
    lost = JobFailure.of(SparkLostError("The job's Spark application is gone."), "")
    status = replace(status_of(directory).moved_to(JobStatus.FAILED, 4), failure=lost)
    status.write_to(directory.status)
    assert "attempt 1" in resume(directory, JOB)
    assert (status_of(directory).state, status_of(directory).end_time) == (JobStatus.RESTARTING, -1)


@pytest.mark.parametrize("state", [JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.CANCELLING])
def test_one_that_has_ended_is_not_run_again(directory, state):
    status_of(directory).moved_to(state, 4).write_to(directory.status)
    with pytest.raises(
        JobTerminatedError, match=f"has {state.value.replace('CANCELLING', 'CANCELED')}, so it isn't run again"
    ):
        resume(directory, JOB)


def test_one_that_runs_is_left_alone(directory):
    EmbeddedProgramFile.of_this_process(JOB).write_to(directory.embedded)
    with pytest.raises(JobExecutionError, match="runs already, in process"):
        resume(directory, JOB)
    assert status_of(directory).state is JobStatus.RUNNING


def test_one_of_a_job_manager_is_left_to_it(directory):
    JobRecord(JOB, "counts", 1, RecordPhase.STARTED).write(directory, None)
    with pytest.raises(JobExecutionError, match="a job manager has started"):
        resume(directory, JOB)


class WithoutSpark(EmbeddedExecutor):
    def spark_session(self, configuration):
        raise RuntimeError


def test_the_first_job_of_a_program_has_the_id_and_the_next_one_another(directory, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    register_executor(WithoutSpark(PystateHome(tmp_path / "home"), Configuration({"pystate.job-id": JOB.upper()})))
    try:
        for _ in range(2):
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_collection([1, 2]).print()
            with pytest.raises(RuntimeError):
                env.execute("counts")
    finally:
        register_executor(None)
    assert status_of(directory).attempt == 1
    assert len(list((tmp_path / "home" / "jobs").iterdir())) == 2


def test_what_is_no_id_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    with pytest.raises(UsageError, match="Cannot parse JobID"):
        EmbeddedExecutor(PystateHome(tmp_path / "home"), Configuration({"pystate.job-id": "mine"}))


def test_a_job_that_has_left_checkpoints_from_another_home_does_not_begin_anew(tmp_path):
    configuration = Configuration({"execution.checkpointing.dir": f"file://{tmp_path}/checkpoints"})
    directory = PystateHome(tmp_path / "home").job(JOB)
    check_not_left_elsewhere(configuration, directory, JOB)
    for number in (2, 10, 11):
        (tmp_path / "checkpoints" / JOB / f"chk-{number}").mkdir(parents=True)
    check_not_left_elsewhere(configuration, directory, JOB)
    for number in (2, 10):  # 11 has never completed
        (tmp_path / "checkpoints" / JOB / f"chk-{number}" / "_metadata").touch()
    with pytest.raises(JobExecutionError, match="has left the checkpoint file:.*/chk-10, but none of its files") as raised:
        check_not_left_elsewhere(configuration, directory, JOB)
    assert "execution.state-recovery.path = file:" in str(raised.value)
    check_not_left_elsewhere(configuration.copy().set_string("execution.state-recovery.path", "/s"), directory, JOB)


def test_it_goes_on_where_its_files_are(directory, tmp_path):
    (tmp_path / "checkpoints" / JOB / "chk-1").mkdir(parents=True)
    (tmp_path / "checkpoints" / JOB / "chk-1" / "_metadata").touch()
    check_not_left_elsewhere(Configuration({"execution.checkpointing.dir": f"{tmp_path}/checkpoints"}), directory, JOB)
