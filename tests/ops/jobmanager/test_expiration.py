"""Jobs that have ended stay listed until they expire."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pystate.common.files.home import PystateHome
from pystate.common.time import current_time_ms, steady_ms
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.drivers.driver_process import DriverLauncher
from pystate.ops.jobmanager.job_store import JobStoreTerms
from pystate.runtime.job_folder.job_record import JobRecord
from tests.ops.jobmanager.harness import FAKE_DRIVER, eventually


@pytest.fixture
def ended(manager):
    """Two jobs that have ended, one that runs, and a checkpoint folder."""
    jobs = [manager.submit("--finish", "0")]
    manager.wait_for(jobs[0], "FINISHED")
    jobs.append(manager.submit("--fail", "0"))
    manager.wait_for(jobs[1], "FAILED")
    running = manager.submit()
    manager.wait_for(running, "RUNNING")
    checkpoint = manager.home.checkpoints / jobs[0] / "chk-1"
    checkpoint.mkdir(parents=True)
    for job in jobs:
        eventually(lambda job=job: not manager.home.job(job).environment.exists())
    return manager, jobs, running, checkpoint


class Clock:
    """Milliseconds that a test moves."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def second_dispatcher(manager, clock=current_time_ms, steady=steady_ms, **store) -> Dispatcher:
    home = PystateHome(manager.home.root)
    dispatcher = Dispatcher(home, DriverLauncher(home, FAKE_DRIVER), clock, store=JobStoreTerms(**store), steady=steady)
    dispatcher.recover()
    dispatcher.expire_jobs()
    return dispatcher


def test_expired_jobs_go_with_their_folders_and_checkpoints_stay(ended):
    manager, jobs, running, checkpoint = ended
    steady = Clock(steady_ms())
    dispatcher = second_dispatcher(manager, steady=steady)

    steady.now += 3_599_000
    dispatcher.expire_jobs()
    assert {job.job_id for job in dispatcher.jobs()} == {*jobs, running}

    steady.now += 1_000
    dispatcher.expire_jobs()
    assert [job.job_id for job in dispatcher.jobs()] == [running]
    assert [entry.name for entry in manager.home.jobs.iterdir()] == [running]
    assert checkpoint.is_dir()


def test_a_job_that_is_being_rescaled_stays_until_that_is_done(ended):
    manager, jobs, running, _ = ended
    steady = Clock(steady_ms())
    dispatcher = second_dispatcher(manager, steady=steady)
    dispatcher.job(jobs[0]).is_rescaled = True

    steady.now += 3_600_000
    dispatcher.expire_jobs()
    assert {job.job_id for job in dispatcher.jobs()} == {jobs[0], running}


@pytest.mark.parametrize("hours", [2, -2])
def test_a_clock_that_is_set_lets_no_job_expire(ended, hours):
    manager, jobs, running, _ = ended
    clock = Clock(current_time_ms())
    dispatcher = second_dispatcher(manager, clock)

    clock.now += hours * 3_600_000
    dispatcher.expire_jobs()
    assert {job.job_id for job in dispatcher.jobs()} == {*jobs, running}

    # nor does it for a job manager that is started after it was set
    again = second_dispatcher(manager, clock)
    assert {job.job_id for job in again.jobs()} == {*jobs, running}


def test_a_job_that_ended_by_a_clock_of_the_future_expires_too(ended):
    manager, jobs, running, _ = ended
    steady = Clock(steady_ms())
    dispatcher = second_dispatcher(manager, Clock(current_time_ms() - 7_200_000), steady)

    steady.now += 3_600_000
    dispatcher.expire_jobs()

    assert [job.job_id for job in dispatcher.jobs()] == [running], jobs


def test_a_job_whose_status_is_lost_expires_by_its_record_and_one_that_runs_does_not(ended):
    manager, jobs, running, _ = ended
    directories = [manager.home.job(job) for job in (jobs[0], running)]
    status = directories[1].status.read_bytes()
    for directory in directories:
        directory.status.unlink()
    assert [JobRecord.read(directory).verdict is None for directory in directories] == [False, True]

    dispatcher = second_dispatcher(manager, expiration_ms=0, max_capacity=0)

    assert {job.job_id for job in dispatcher.jobs()} == {running}
    assert [directory.path.is_dir() for directory in directories] == [False, True]
    directories[1].status.write_bytes(status)  # by which the job is cancelled in the end


def test_a_job_whose_folder_can_not_be_deleted_stays_listed_until_it_can(ended, monkeypatch):
    manager, jobs, running, _ = ended
    rename = Path.rename

    def refused(path: Path, target: Path) -> Path:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "rename", refused)
    dispatcher = second_dispatcher(manager, max_capacity=0)
    assert {job.job_id for job in dispatcher.jobs()} == {*jobs, running}

    monkeypatch.setattr(Path, "rename", rename)
    dispatcher.expire_jobs()

    assert [job.job_id for job in dispatcher.jobs()] == [running]


def test_the_latest_of_the_ended_jobs_stays_where_there_is_room_for_one(ended):
    manager, jobs, running, _ = ended
    dispatcher = second_dispatcher(manager, max_capacity=1)

    assert {job.job_id for job in dispatcher.jobs()} == {jobs[1], running}
