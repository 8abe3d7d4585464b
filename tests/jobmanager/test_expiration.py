"""Jobs that have ended stay listed until they expire."""

from __future__ import annotations

import pytest

from pystate.common.home import PystateHome
from pystate.jobmanager.dispatcher import Dispatcher
from pystate.jobmanager.driver_process import DriverLauncher
from pystate.jobmanager.job_store import JobStoreTerms
from pystate.jobmanager.supervised_job import now_ms
from tests.jobmanager.harness import FAKE_DRIVER, eventually


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


def second_dispatcher(manager, clock, **store) -> Dispatcher:
    home = PystateHome(manager.home.root)
    dispatcher = Dispatcher(home, DriverLauncher(home, FAKE_DRIVER), clock, store=JobStoreTerms(**store))
    dispatcher.recover()
    return dispatcher


def test_expired_jobs_go_with_their_folders_and_checkpoints_stay(ended):
    manager, jobs, running, checkpoint = ended
    late = second_dispatcher(manager, lambda: now_ms() + 3_300_000)
    late.tidy_up()
    assert {job.job_id for job in late.jobs()} == {*jobs, running}

    later = second_dispatcher(manager, lambda: now_ms() + 3_601_000)
    later.tidy_up()

    assert [job.job_id for job in later.jobs()] == [running]
    assert [entry.name for entry in manager.home.jobs.iterdir()] == [running]
    assert checkpoint.is_dir()


def test_the_latest_of_the_ended_jobs_stays_where_there_is_room_for_one(ended):
    manager, jobs, running, _ = ended
    dispatcher = second_dispatcher(manager, now_ms, max_capacity=1)

    dispatcher.tidy_up()

    assert {job.job_id for job in dispatcher.jobs()} == {jobs[1], running}
