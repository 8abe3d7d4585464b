"""The job manager is killed before each of its steps, and the next one goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pystate.common.files.home import PystateHome, write_json
from pystate.common.job_status import JobStatus
from pystate.ops.jobmanager.dispatcher import Dispatcher
from pystate.ops.jobmanager.high_availability.replicated_folders import ReplicatedJobFolders
from pystate.ops.jobmanager.job_store import JobStoreTerms
from pystate.ops.jobmanager.jobs.job_folders import JobFolders, LocalJobFolders
from pystate.ops.jobmanager.leadership import LeadershipLostError
from pystate.ops.jobmanager.supervision.supervised_job import SupervisedJob
from pystate.runtime.job_folder.job_record import JobRecord, RecordPhase
from pystate.runtime.job_folder.recovery_terms import RecoveryTerms
from pystate.runtime.job_folder.restart_strategies import FixedDelayRestartBackoffTimeStrategy
from pystate.runtime.job_folder.submission import Submission, SubmissionFile
from tests.ops.jobmanager.dying_process import DyingProcess, FakeDrivers
from tests.ops.jobmanager.harness import eventually

ENDLESS = 200
STATUS: dict[str, Any] = {
    "state": "RUNNING",
    "name": "count",
    "attempt": 0,
    "vertices": [],
    "timestamps": {},
    "failure": None,
    "failures": [],
    "failure_count": 0,
    "end_time": -1,
}


class Leading:
    """The leadership of a job manager with stand-ins.

    Attributes:
        answers: To how many questions it still holds; None for ever.
    """

    def __init__(self, token: int) -> None:
        self.token = token
        self.answers: int | None = None

    def check(self) -> None:
        if self.answers is None:
            return
        if self.answers == 0:
            message = "Another job manager leads."
            raise LeadershipLostError(message)
        self.answers -= 1


class World:
    """A home, what is in it, and the drivers that outlive job managers.

    Attributes:
        kind: alone, shared (a folder that job managers mount) or replicated (a storage that they write to).
    """

    def __init__(self, root: Path, kind: str) -> None:
        root.mkdir()
        self.kind = kind
        self.home = PystateHome(root / "home")
        self.jobs = self.home.jobs if kind == "alone" else root / "shared"
        self.drivers = FakeDrivers(self.home.root)
        self.token = 0
        (root / "job.py").write_text("")
        self.submission = Submission.from_json(
            {"job_file": str(root / "job.py"), "working_directory": str(root), "python": sys.executable}
        )

    def dispatcher(self, **options: Any) -> Dispatcher:
        """Return the dispatcher of the next job manager."""
        self.token += 1
        leadership = None if self.kind == "alone" else Leading(self.token)
        folders: JobFolders
        if self.kind == "replicated":
            folders = ReplicatedJobFolders(self.home, f"file:{self.jobs}", self.token)
        else:
            folders = LocalJobFolders(self.home, None if self.kind == "alone" else self.jobs)
        return Dispatcher(self.home, self.drivers, folders=folders, leadership=leadership, **options)

    def recovered(self, **options: Any) -> Dispatcher:
        dispatcher = self.dispatcher(**options)
        dispatcher.recover()
        return dispatcher

    def dies(self, step: int, act: Callable[[], Any]) -> tuple[bool, Any]:
        """Let a process act that dies before a step; return whether it came to its end, and what it returned then."""
        self.drivers.process = process = DyingProcess(step)
        result: list[Any] = []
        with process.running():
            result.append(act())
        self.drivers.process = None
        return bool(result), result[0] if result else None

    def submit_running(self, **options: Any) -> tuple[Dispatcher, SupervisedJob]:
        """Return a job manager and its one job, which runs and may be restarted."""
        dispatcher = self.recovered(**options)
        job = dispatcher.job(dispatcher.submit(self.submission, {"SECRET": "x"}))
        write_json(job.directory.status, STATUS)
        RecoveryTerms(FixedDelayRestartBackoffTimeStrategy(3, 0)).write(job.directory)
        return dispatcher, job

    def entries(self) -> set[str]:
        there = os.listdir(self.jobs) if self.jobs.exists() else []
        return set(there) | set(os.listdir(self.home.jobs))


@pytest.fixture(params=["alone", "shared", "replicated"])
def worlds(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[int], World]:
    return lambda number: World(tmp_path / str(number), request.param)


def every_step(worlds: Callable[[int], World], check: Callable[[World, int], bool]) -> int:
    """Check the death before each step, until the process comes to its end; return the number of steps."""
    for step in range(ENDLESS):
        world = worlds(step)
        if check(world, step):
            return step
        assert world.drivers.twice == []
    raise AssertionError("the process never came to its end")


def assert_in_full(job: SupervisedJob) -> None:
    assert JobRecord.read(job.directory) == job.record
    assert SubmissionFile.read(job.directory)
    assert len(job.directory.secret.read_bytes()) == 64
    for file in (job.directory.secret, job.directory.submission):
        assert file.stat().st_mode & 0o077 == 0


def test_a_submission_is_there_in_full_or_not_at_all(worlds):
    outcomes = set()

    def check(world: World, step: int) -> bool:
        first = world.recovered()
        finished, job_id = world.dies(step, lambda: first.submit(world.submission, {"SECRET": "x"}))

        second = world.recovered()

        jobs = second.jobs()
        assert world.entries() == {job.job_id for job in jobs}, "half a folder was left"
        assert len(jobs) <= 1
        if finished:
            assert second.job(job_id).state() is JobStatus.INITIALIZING
        for job in jobs:
            assert_in_full(job)
            lives = job.job_id in world.drivers.alive
            assert job.state() is (JobStatus.INITIALIZING if lives else JobStatus.FAILED)
            assert job.directory.environment.exists() == lives, "secrets outlive the job"
        assert len(world.drivers.started) <= len(jobs)
        outcomes.add((len(jobs), len(world.drivers.started)))
        return finished

    assert every_step(worlds, check) > 10
    assert outcomes == {(0, 0), (1, 0), (1, 1)}


def test_a_dead_driver_is_followed_by_one_other(worlds):
    def check(world: World, step: int) -> bool:
        _, job = world.submit_running()
        world.drivers.kill(job.job_id)
        finished, _ = world.dies(step, lambda: job.runner.driver_died("It was killed."))

        again = world.recovered().job(job.job_id)

        eventually(lambda: job.job_id in world.drivers.alive)
        eventually(lambda: again.record.phase is RecordPhase.STARTED)
        assert_in_full(again)
        assert 2 <= len(world.drivers.started) <= 3
        return finished

    assert every_step(worlds, check) > 8


def test_the_end_of_a_job_is_written_down_once_and_stays(worlds):
    def check(world: World, step: int) -> bool:
        _, job = world.submit_running()
        RecoveryTerms(FixedDelayRestartBackoffTimeStrategy(0, 0)).write(job.directory)
        world.drivers.kill(job.job_id)
        finished, _ = world.dies(step, lambda: job.runner.driver_died("It was killed."))

        again = world.recovered().job(job.job_id)

        assert again.state() is JobStatus.FAILED
        assert again.record.phase is RecordPhase.ENDED
        assert not again.directory.environment.exists()
        assert len(world.drivers.started) == 1
        return finished

    assert every_step(worlds, check) > 3


def test_a_cancel_that_was_answered_is_not_forgotten(worlds):
    def check(world: World, step: int) -> bool:
        _, job = world.submit_running()
        finished, _ = world.dies(step, job.runner.cancel)

        again = world.recovered().job(job.job_id)

        assert again.record.cancel_requested or not finished
        assert again.state() is (JobStatus.CANCELLING if again.record.cancel_requested else JobStatus.RUNNING)
        return finished

    assert every_step(worlds, check) > 2


def test_an_expired_job_is_there_in_full_or_gone(worlds):
    seen = set()

    def check(world: World, step: int) -> bool:
        dispatcher, job = world.submit_running(store=JobStoreTerms(expiration_ms=0))
        world.drivers.kill(job.job_id)
        job.runner.give_up("It ended.")
        finished, _ = world.dies(step, dispatcher.expire_jobs)

        jobs = world.recovered().jobs()

        assert world.entries() == {left.job_id for left in jobs}
        for left in jobs:
            assert_in_full(left)
        seen.add(len(jobs))
        assert not (finished and jobs)
        return finished

    every_step(worlds, check)
    assert seen == {0, 1}


@pytest.mark.parametrize("kind", ["shared", "replicated"])
def test_a_takeover_that_dies_is_finished_by_the_next_one(tmp_path, kind):
    def check(world: World, step: int) -> bool:
        _, job = world.submit_running()
        JobRecord.read(job.directory).with_changes(machine="another").write(job.directory, world.token)
        world.drivers.kill(job.job_id)
        second = world.dispatcher()
        finished, _ = world.dies(step, second.recover)

        again = world.recovered().job(job.job_id)

        eventually(lambda: again.record.phase is RecordPhase.STARTED)
        assert job.job_id in world.drivers.alive
        assert_in_full(again)
        assert RecoveryTerms.read(again.directory).strategy == FixedDelayRestartBackoffTimeStrategy(3, 0)
        return finished

    assert every_step(lambda number: World(tmp_path / str(number), kind), check) > 5
