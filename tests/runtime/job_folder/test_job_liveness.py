"""Whether a job has ended, by its files and the processes of this machine."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from pystate.common.files.home import JobDirectory, PystateHome, read_json, write_json
from pystate.common.job_status import JobStatus
from pystate.common.processes.processes import started_at
from pystate.runtime.job_folder.driver_term import DriverTerm
from pystate.runtime.job_folder.job_liveness import alone_in, has_ended, job_runs, settled_status
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from pystate.runtime.job_folder.job_status_file import JobStatusFile
from pystate.runtime.job_folder.small_files import DriverTermFile, EmbeddedProgramFile

JOB = "ab" * 16
BOOT = "00000000-0000-0000-0000-000000000000/pid:[4026531836]"


@pytest.fixture
def directory(tmp_path: Path) -> JobDirectory:
    directory = PystateHome(tmp_path).job(JOB)
    directory.path.mkdir(parents=True)
    JobStatusFile(JobStatus.RUNNING).write_to(directory.status)
    return directory


def test_a_job_of_a_plain_program_runs_while_its_process_lives(directory):
    DriverTerm(directory.term).begin()
    assert read_json(directory.term)["started"] == started_at(os.getpid())
    assert not has_ended(directory)

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    DriverTermFile("ab", child.pid, started=started_at(child.pid)).write_to(directory.term)
    assert not has_ended(directory)
    child.communicate()
    assert has_ended(directory)


@pytest.mark.parametrize("other", ["start", "boot"])
def test_a_process_that_got_the_id_later_is_not_the_jobs(directory, other):
    """The id is that of a process that lives: this one."""
    machine, _, ticks = str(started_at(os.getpid())).rpartition("/")
    started = f"{machine}/{int(ticks) - 1}" if other == "start" else f"{BOOT}/{ticks}"
    DriverTermFile("ab", os.getpid(), started=started).write_to(directory.term)
    assert has_ended(directory)


def test_of_a_term_that_an_older_version_wrote_the_id_alone_is_known(directory):
    write_json(directory.term, {"driver": "ab", "pid": os.getpid()})
    assert not has_ended(directory)


def test_without_a_term_a_plain_program_has_ended(directory):
    assert has_ended(directory)


@pytest.mark.parametrize("phase", RecordPhase)
def test_the_record_of_a_job_manager_counts_more_than_processes(directory, phase):
    JobRecord(JOB, "count", 1, phase).write(directory)
    assert has_ended(directory) is (phase is RecordPhase.ENDED)


def test_a_status_of_the_end_counts_most(directory):
    DriverTerm(directory.term).begin()
    JobStatusFile(JobStatus.FINISHED).write_to(directory.status)
    assert has_ended(directory)


@pytest.mark.parametrize("name", ["status.json", "record.json", "term.json"])
def test_what_can_not_be_read_keeps_a_job_alive(directory, name):
    (directory.path / name).write_text("{")
    assert not has_ended(directory)


def test_of_a_job_that_is_not_here_nothing_is_known(directory, tmp_path):
    home = PystateHome(tmp_path)
    assert job_runs(home, JOB) is False
    assert job_runs(home, "cd" * 16) is None
    assert job_runs(home, "no id") is None


@pytest.fixture
def program(directory: JobDirectory) -> EmbeddedProgramFile:
    """Return a program that was killed."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    this = EmbeddedProgramFile.of_this_process(JOB)
    program = dataclasses.replace(this, pid=child.pid, started=started_at(child.pid))
    program.write_to(directory.embedded)
    assert program.runs()
    assert not has_ended(directory)
    child.kill()
    child.communicate()
    return program


def test_a_job_whose_program_was_killed_has_failed_for_whoever_looks_next(directory, program):
    assert program.runs() is False
    assert has_ended(directory)

    settled = settled_status(directory, program)

    assert settled == JobStatusFile.read_from(directory.status)
    assert settled.state is JobStatus.FAILED
    assert f"process {program.pid} on {program.host}" in settled.failure.message
    assert settled.end_time > 0
    assert settled_status(directory, program) == settled


def test_a_job_whose_program_was_killed_while_it_cancelled_it_is_cancelled(directory, program):
    JobStatusFile(JobStatus.CANCELLING).write_to(directory.status)
    assert settled_status(directory, program).state is JobStatus.CANCELED


def test_the_last_word_of_a_program_that_is_gone_counts(directory, program):
    JobStatusFile(JobStatus.FINISHED).write_to(directory.status)
    assert settled_status(directory, program).state is JobStatus.FINISHED


def test_a_program_that_lives_settles_its_job_itself(directory):
    program = EmbeddedProgramFile.of_this_process(JOB)
    assert settled_status(directory, program).state is JobStatus.RUNNING


def test_a_job_that_goes_on_in_another_process_is_not_recorded_as_failed(directory, program):
    """Whoever looks while the next start of a program writes its files sees all of them, or none."""
    with ThreadPoolExecutor(1) as threads:
        with alone_in(directory):
            looking = threads.submit(settled_status, directory, program)
            JobStatusFile(JobStatus.RESTARTING).write_to(directory.status)
            assert not wait([looking], timeout=0.2).done
            EmbeddedProgramFile.of_this_process(JOB).write_to(directory.embedded)
        assert looking.result().state is JobStatus.RESTARTING
    assert JobStatusFile.read_from(directory.status).state is JobStatus.RESTARTING


def test_of_a_program_on_another_machine_nobody_knows_whether_it_runs(directory, program):
    elsewhere = dataclasses.replace(program, host="elsewhere", machine=f"{BOOT}")
    elsewhere.write_to(directory.embedded)
    assert elsewhere.runs() is None
    assert not has_ended(directory)
    assert settled_status(directory, elsewhere).state is JobStatus.RUNNING
    assert dataclasses.replace(program, machine=BOOT).runs() is False  # this one was started again since
