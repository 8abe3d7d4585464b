"""What a job manager, or a driver, writes and does that has been replaced."""

from __future__ import annotations

import os

import pytest

from pystate.common.errors import DriverReplacedError, JobNotFoundError
from pystate.common.files.home import PystateHome, read_json
from pystate.common.processes.processes import this_machine
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.leadership import LeadershipLostError
from pystate.runtime.job_folder.driver_term import LEADER_VARIABLE, DriverTerm, begin_term
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from tests.ops.jobmanager.harness import eventually
from tests.ops.jobmanager.test_crash_points import World


@pytest.fixture(params=["shared", "replicated"])
def world(tmp_path, request):
    return World(tmp_path / "world", request.param)


def replaced(dispatcher, answers: int = 0):
    """Let a dispatcher be one that has been replaced after some more questions."""
    dispatcher._leadership.answers = answers
    return dispatcher


def test_a_replaced_job_manager_takes_no_job_in(world):
    old = replaced(world.recovered())

    with pytest.raises(LeadershipLostError):
        old.submit(world.submission, {})

    assert (world.entries(), world.drivers.started) == (set(), [])


def test_a_job_taken_in_while_another_took_over_is_started_by_nobody_and_forgotten(world):
    old = replaced(world.recovered(), answers=1)
    second = world.recovered()

    with pytest.raises(LeadershipLostError):
        old.submit(world.submission, {})

    assert world.drivers.started == []
    (job_id,) = world.entries()
    with pytest.raises(JobNotFoundError):
        second.job(job_id)
    third = world.dispatcher()
    third.recover(complete_term=2)
    assert (third.jobs(), world.entries()) == ([], set())


def test_the_death_of_a_driver_moves_a_replaced_job_manager_to_nothing(world):
    old, job = world.submit_running()
    second = world.recovered()
    before = read_json(job.directory.status), JobRecord.read(job.directory)
    replaced(old)
    world.drivers.kill(job.job_id)

    for act in (
        lambda: job.runner.driver_died("It was killed."),
        lambda: job.runner.give_up("It was killed."),
        lambda: job.runner.take_over("It was lost."),
        job.runner.cancel,
        old.expire_jobs,
    ):
        with pytest.raises(LeadershipLostError):
            act()

    assert (read_json(job.directory.status), JobRecord.read(job.directory)) == before
    assert world.drivers.started == [job.job_id]
    assert job.directory.environment.exists()
    assert second.job(job.job_id).record.phase is RecordPhase.STARTED


def test_what_a_replaced_job_manager_still_writes_counts_for_nothing(world):
    _, job = world.submit_running()
    world.recovered()
    newest = JobRecord.read(job.directory)

    job.record.with_changes(cancel_requested=True).write(job.directory, 1)

    assert JobRecord.read(job.directory) == newest


def test_a_job_of_another_machine_goes_on_here_without_counting_a_failure(world):
    _, job = world.submit_running()
    job.record.with_changes(machine="another").write(job.directory, 1)
    term = DriverTerm(job.directory.term, 1)
    term.begin()
    world.drivers.kill(job.job_id)

    second = world.recovered().job(job.job_id)

    eventually(lambda: second.record.phase is RecordPhase.STARTED)
    assert second.record.machine == this_machine()
    assert world.drivers.leaders == [1, 2]
    status = read_json(job.directory.status)
    assert (status["state"], status["attempt"], status["failure"]) == ("RESTARTING", 1, None)
    with pytest.raises(DriverReplacedError):
        term.check()


def test_a_cancelled_job_of_another_machine_is_fenced_and_has_ended(world):
    _, job = world.submit_running()
    job.record.with_changes(machine="another", cancel_requested=True).write(job.directory, 1)
    term = DriverTerm(job.directory.term, 1)
    term.begin()
    world.drivers.kill(job.job_id)

    second = world.recovered().job(job.job_id)

    assert (second.record.phase, second.state().value) == (RecordPhase.ENDED, "CANCELED")
    with pytest.raises(DriverReplacedError):
        term.check()


def test_a_driver_that_a_replaced_job_manager_started_does_not_get_the_job(tmp_path, monkeypatch):
    path = tmp_path / "term.json"
    newer = DriverTerm(path, 2)
    newer.begin()
    monkeypatch.setitem(os.environ, LEADER_VARIABLE, "1")

    with pytest.raises(DriverReplacedError, match="The job manager of term 1 is not in charge of the job any more"):
        DriverTerm.of_this_process(path).begin()
    newer.check()

    begin_term(path, 3)
    with pytest.raises(DriverReplacedError):
        newer.check()


def test_a_home_without_high_availability_leaves_shared_jobs_alone(world):
    _, job = world.submit_running()

    alone = Dispatcher(PystateHome(world.home.root), world.drivers)
    alone.recover()

    assert alone.jobs() == []
    assert job.directory.path.is_symlink() == (world.kind == "shared")
