"""What `pystate dev` asks of a job manager, whose drivers need no Spark."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest

from pystate.common.errors import CheckpointFailedError
from pystate.common.files.home import read_json
from pystate.common.job_status import JobStatus
from pystate_cli.client.job_manager import find_job_manager
from pystate_cli.dev.code_versions import CodeVersion, CodeVersions
from pystate_cli.dev.dev_job import DevJob, JobProgram
from tests.waiting import LONGEST_S, wait_until


def done(work: Generator[None, None, Any]) -> Any:
    """Return the outcome of what takes time."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
        time.sleep(0.01)


@pytest.fixture
def version(manager, tmp_path) -> CodeVersion:
    return CodeVersions(manager.job_file, tmp_path / "code").take([])


@pytest.fixture
def gone():
    return set()


@pytest.fixture
def job_of(manager, tmp_path, gone):
    def job_of(*arguments: str, configuration: dict[str, str] | None = None) -> DevJob:
        client = find_job_manager(manager.home, None, LONGEST_S)
        program = JobProgram(list(arguments), 2, configuration or {}, {})
        return DevJob(client, program, str(tmp_path / "sp"), [], None, is_there=lambda path: path not in gone)

    return job_of


def test_a_job_runs_is_saved_and_stopped_and_the_next_one_starts_from_there(job_of, version, manager, tmp_path):
    job = job_of()
    assert job.state() is None
    job.start(version, None)
    first = str(job.job_id)
    assert done(job.await_running()) is None
    assert job.latest() is None
    savepoint = done(job.savepoint())
    assert savepoint == f"{tmp_path}/sp/savepoint-{first[:6]}-0123456789ab"
    assert job.state() is JobStatus.RUNNING
    assert job.latest() == savepoint
    stopped = done(job.stop())
    assert job.state() is JobStatus.FINISHED
    job.start(version, stopped)
    assert done(job.await_running()) is None
    submission = read_json(manager.home.job(job.job_id).submission)
    assert (submission["job_file"], submission["savepoint_path"]) == (str(version.job_file), stopped)
    done(job.cancel())
    assert job.state() is JobStatus.CANCELED
    assert job.savepoint_taken == stopped


def test_a_job_that_fails_at_its_start_says_why(job_of, version):
    job = job_of("--fail-init")
    job.start(version, "file:/somewhere")
    failure = done(job.await_running())
    assert failure.message == "The savepoint does not fit."
    assert job.state() is JobStatus.FAILED
    assert job.latest() == "file:/somewhere", "the next one goes on from there"
    assert job.failure().message == failure.message


def test_a_snapshot_that_is_gone_is_not_started_from(job_of, version, gone):
    job = job_of()
    job.start(version, None)
    done(job.await_running())
    first, second = done(job.savepoint()), "file:/checkpoint"
    job.snapshot = second
    assert job.latest() == second
    gone.add(second)
    assert job.latest() == first
    gone.add(first)
    assert job.latest() is None


def test_a_job_that_would_start_again_and_again_is_ended(job_of, version):
    job = job_of("--fail-starts", "1", "0.3", "--restart", "9", "10")
    job.start(version, None)
    failure = done(job.await_running())
    assert "ConnectionError" in failure.message
    assert wait_until(lambda: job.state() is JobStatus.CANCELED)


def test_a_savepoint_that_fails_is_told_and_both_formats_were_tried(job_of, version, manager):
    job = job_of("--savepoint-fails")
    job.start(version, None)
    done(job.await_running())
    with pytest.raises(CheckpointFailedError):
        done(job.savepoint())
    assert manager.home.job(job.job_id).log.read_text().count("triggered trigger_savepoint") == 2
    assert job.state() is JobStatus.RUNNING


def test_only_the_last_savepoints_stay(job_of, version, manager, tmp_path):
    job = job_of("--write-savepoint")
    folders = []
    for _ in range(5):
        job.start(version, None)
        done(job.await_running())
        folders.append(done(job.stop()))
    kept = {f"savepoint-{folder.rpartition('savepoint-')[2]}" for folder in folders[-3:]}
    wait_until(lambda: {path.name for path in (tmp_path / "sp").iterdir()} == kept)


def test_a_driver_is_asked_for_once_for_each_job_and_given_back(job_of, version, manager):
    job = job_of()
    job.start(version, None)
    done(job.await_running())
    job.keep_driver_warm(2)
    first = manager.home.job(job.job_id).resubmission
    assert [one["parallelism"] for one in read_json(first)["keepers"]] == [2]
    job.keep_driver_warm(2)
    assert len(read_json(first)["keepers"]) == 1
    done(job.stop())
    job.start(version, None)
    done(job.await_running())
    job.keep_driver_warm(2)
    assert not first.exists(), "what may be secret is kept no longer than it is needed"
    second = manager.home.job(job.job_id).resubmission
    assert second.exists()
    job.release_driver()
    assert not second.exists()
    done(job.cancel())
