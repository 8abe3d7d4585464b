from __future__ import annotations

import signal
import sys
from types import ModuleType

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import JobGraphError
from pystate.common.files.home import JobDirectory, PystateHome, read_json
from pystate.common.job_status import JobStatus
from pystate.runtime.driver import __main__ as driver
from pystate.runtime.driver.embedded import LocalExecutor
from pystate.runtime.execution.status import JobStatusStore
from pystate.runtime.job_folder.job_status_file import JobStatusFile


class Executed:
    executed = True
    waited = 0

    def __init__(self):
        self.program = sys.modules["__main__"]

    def wait_for_jobs(self):
        self.waited += 1


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", [])
    before = signal.signal(signal.SIGTERM, driver._exit_on_signal)

    def run_program(text: str):
        program = tmp_path / "job.py"
        program.write_text(text)
        status = JobStatusStore(JobDirectory(tmp_path), "job")
        return driver.run_program(program, [], Executed(), status), status.state

    yield run_program
    signal.signal(signal.SIGTERM, before)


def test_a_driver_that_is_told_to_end_leaves_its_job_to_the_next_one(run):
    code, state = run("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nwhile True: pass")
    assert code == 128 + signal.SIGTERM
    assert not state.is_terminal


def test_a_driver_that_lost_its_spark_leaves_its_job_to_the_next_one(run):
    code, state = run("from pystate.common.errors import SparkLostError\nraise SparkLostError('The JVM is gone.')")
    assert code == 1
    assert not state.is_terminal


def test_a_program_that_fails_has_failed(run):
    code, state = run("1 / 0")
    assert (code, state) == (1, JobStatus.FAILED)


def test_what_pystate_refuses_while_the_program_is_read_names_the_programs_line(run, tmp_path):
    run("from pystate.datastream import ValueStateDescriptor\n\nValueStateDescriptor('')\n")

    failure = read_json(JobDirectory(tmp_path).status)["failure"]
    assert failure["where"] == f'File "{tmp_path}/job.py", line 3, in <module>'


def test_what_a_program_fails_of_after_its_job_is_in_the_history_of_the_job(run, tmp_path, monkeypatch):
    store = JobStatusStore.__init__

    def finished(self, directory, name):
        store(self, directory, name)
        self.update(JobStatus.FINISHED)

    monkeypatch.setattr(JobStatusStore, "__init__", finished)

    code, state = run("from pystate.common.errors import JobGraphError\nraise JobGraphError('execute() a second time')")

    assert (code, state) == (1, JobStatus.FINISHED)
    kept = read_json(JobDirectory(tmp_path).status)
    assert (kept["state"], kept["failure"]) == ("FINISHED", None)
    assert [failure["message"] for failure in kept["failures"]] == ["execute() a second time"]


@pytest.mark.parametrize("end", ["", "raise SystemExit", "raise SystemExit(0)"])
def test_a_program_that_ends_well_waits_for_its_jobs_in_the_background(tmp_path, monkeypatch, end):
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", [])
    program, executor = tmp_path / "job.py", Executed()
    program.write_text(end)

    assert driver.run_program(program, [], executor, JobStatusStore(JobDirectory(tmp_path), "job")) == 0

    assert executor.waited == 1


def test_a_program_that_gives_up_before_its_job_has_failed(run):
    code, state = run("raise SystemExit(3)")
    assert (code, state) == (1, JobStatus.FAILED)


@pytest.mark.parametrize(("submitted", "name"), [("count A", "count A"), (None, "the program's")])
def test_the_submission_names_the_job_above_the_program(tmp_path, monkeypatch, submitted, name):
    names = []
    monkeypatch.setattr(LocalExecutor, "prepared", lambda self, graph, configuration, name, results: names.append(name))
    executor = driver.DriverExecutor(
        "a" * 32, Configuration(), PystateHome(tmp_path), JobDirectory(tmp_path), None, None, submitted
    )

    executor.prepared(None, Configuration(), "the program's")

    assert names == [name]
    with pytest.raises(JobGraphError, match="more than one execute"):
        executor.prepared(None, Configuration(), "another")


@pytest.mark.parametrize("number", ["ENOSPC", "EROFS", "EIO", "EMFILE"])
def test_a_disk_that_is_full_in_the_middle_of_a_job_leaves_it_to_the_next_driver(run, tmp_path, number):
    code, state = run(f"import errno\nraise OSError(errno.{number}, 'refused', '/data/file')")

    assert code == 1
    assert not state.is_terminal
    assert read_json(JobDirectory(tmp_path).status)["failures"][0]["message"].endswith("refused: '/data/file'")


def test_any_other_error_of_the_operating_system_has_failed_the_job(run):
    code, state = run("open('/there/is/none')")
    assert (code, state) == (1, JobStatus.FAILED)


def test_a_driver_whose_submission_is_damaged_says_so_and_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("PYSTATE_HOME", str(tmp_path))
    directory = PystateHome(tmp_path).job("ab" * 16)
    directory.path.mkdir(parents=True)
    directory.submission.write_text("{")

    assert driver.main(["--home", str(tmp_path), "--job-id", "ab" * 16, "/j/count.py"]) == 1

    status = JobStatusFile.read_from(directory.status)
    assert (status.state, status.name) == (JobStatus.FAILED, "count")
    assert status.failure.message.startswith("The submission is damaged: ")
    assert status.failure.where == str(directory.submission)


def test_what_runs_in_the_background_finds_the_classes_of_the_program_though_that_has_been_read(tmp_path, monkeypatch):
    found = []

    class InTheBackground(Executed):
        def __init__(self):
            self.program = ModuleType("__main__")

        def wait_for_jobs(self):
            found.append(sys.modules["__main__"])

    program, executor = tmp_path / "job.py", InTheBackground()
    program.write_text("")
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])

    driver.run_program(program, [], executor, JobStatusStore(JobDirectory(tmp_path), "job"))

    assert found == [executor.program]
