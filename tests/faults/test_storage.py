"""Checkpoint storage that fails, is full, is slow or tears files: a checkpoint fails, the job goes on."""

from __future__ import annotations

import random

import pytest

from pystate.common.errors import CheckpointFailedError, JobCancelledError
from tests.faults.faulty_storage import FAULTS
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import RECOVERING, Sink, Watched, counting, state_in
from tests.waiting import LONGEST_S, files_below

pytestmark = [needs_proc, pytest.mark.timeout(180)]

OPTIONS = {
    **{key: value for key, value in RECOVERING.items() if key.startswith("restart")},  # the tests trigger checkpoints
    "execution.checkpointing.tolerable-failed-checkpoints": "100",
    "execution.checkpointing.data-inline-threshold": "0",
    "execution.checkpointing.num-retained": "2",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
FAILING = [
    (Step.MAKE_DIRECTORY, Action.FAIL, 0, "Cannot create the directory"),
    (Step.WRITE, Action.FAIL, 0, "Input/output error|injected at write"),
    (Step.WRITE, Action.FULL, 100, "No space left on device"),
    (Step.SYNC_FILE, Action.FAIL, 0, "injected at sync-file"),
    (Step.RENAME, Action.FAIL, 0, "injected at rename"),
]


def names_below(folder):
    return [str(path.relative_to(folder)) for path in files_below(folder)]


@pytest.fixture
def fed(run_job, tmp_path):
    """A running job whose checkpoints are on a faulty storage: (job, faults, watched, sink, the job's directory there)."""
    root = tmp_path / "storage"
    faults = Faults(root / FAULTS)
    watched, sink = Watched(tmp_path), Sink()
    watched.add(2)
    options = {**OPTIONS, "execution.checkpointing.dir": f"faulty://{root}/checkpoints"}
    job = run_job(counting(watched, sink, faults=faults), options)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    yield job, faults, watched, sink, root / "checkpoints" / job.job_id
    faults.disarm()


def finish(job, watched, sink, tmp_path):
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints", cancel=True)
    with pytest.raises(JobCancelledError):
        job.result()
    assert state_in(path) == dict(watched.words)
    assert set(sink.rows) == watched.pairs


def test_a_checkpoint_fails_with_the_storages_reason_and_leaves_nothing(fed, tmp_path):
    job, faults, watched, sink, folder = fed

    def checkpoint():
        return job.master.coordinator.trigger_checkpoint().result(LONGEST_S)

    first = checkpoint().checkpoint_id
    kept = names_below(folder)
    for step, action, amount, message in FAILING:
        # a trigger makes sure first that `shared` and `taskowned` are there
        faults.arm(step, action, amount=amount, after=2 if step is Step.MAKE_DIRECTORY else 0, times=1000)
        with pytest.raises(CheckpointFailedError, match=message):
            checkpoint()
        faults.disarm()
        job.wait_for(lambda: names_below(folder) == kept)  # a subtask that is late cleans up after the failure
        watched.add(1)
    assert job.status["attempt"] == 0
    statistics = job.master.coordinator.statistics()
    assert statistics["counts"]["failed"] == len(FAILING)

    # what can't be deleted stays, but is no checkpoint
    faults.arm(Step.DELETE, Action.FAIL)
    faults.arm(Step.RENAME, Action.FAIL, times=1000)
    with pytest.raises(CheckpointFailedError, match="injected at rename"):
        checkpoint()
    job.wait_for(lambda: faults.struck(Step.DELETE))
    faults.disarm()
    assert [name for name in names_below(folder) if name.endswith("_metadata")] == [f"chk-{first}/_metadata"]

    # slow storage is no failure, and holds up no epoch
    faults.arm(Step.WRITE, Action.SLOW, amount=300, times=100)
    slow = job.master.coordinator.trigger_checkpoint()
    watched.add(1)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    assert slow.result(LONGEST_S).checkpoint_id > first
    faults.disarm()
    assert job.status["attempt"] == 0
    finish(job, watched, sink, tmp_path)
    names = {name.split("/")[0] for name in names_below(folder) if name.endswith("_metadata")}
    assert names == {f"chk-{first}", f"chk-{slow.result().checkpoint_id}"}
    assert not [name for name in names_below(folder / "shared") if name]
    assert not [name for name in names_below(folder) if "inprogress" in name]


@pytest.mark.slow
def test_a_storage_that_fails_now_and_then_costs_checkpoints_and_nothing_else(run_job, tmp_path):
    root = tmp_path / "storage"
    faults, chance = Faults(root / FAULTS), random.Random(3)
    watched, sink = Watched(tmp_path), Sink()
    options = {**OPTIONS, **RECOVERING, "execution.checkpointing.dir": f"faulty://{root}/checkpoints"}
    job = run_job(counting(watched, sink, faults=faults), options)
    job.wait_running()
    steps = (Step.MAKE_DIRECTORY, Step.WRITE, Step.SYNC_FILE, Step.RENAME, Step.DELETE, Step.LIST, Step.LOOK)
    for _ in range(12):
        faults.arm(chance.choice(steps), Action.FAIL, after=chance.randrange(6), times=chance.randrange(1, 3))
        watched.add(1)
        job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    faults.disarm()
    counts = job.master.coordinator.statistics()["counts"]
    assert counts["failed"] > 0
    assert counts["completed"] > 0
    assert job.status["attempt"] == 0, "a checkpoint that fails is no failure of the job"
    last = job.master.coordinator.trigger_checkpoint().result(LONGEST_S).checkpoint_id
    kill(job.master.slot_pids[0])
    job.wait_for(lambda: job.status["attempt"] == 1 and job.status["state"] == "RUNNING")
    assert job.master.coordinator.statistics()["latest"]["restored"]["id"] >= last
    watched.add(1)
    finish(job, watched, sink, tmp_path)


def test_a_torn_file_shows_at_the_restore_which_goes_back_to_the_checkpoint_before(fed, tmp_path, capfd):
    job, faults, watched, sink, _ = fed
    sound = job.master.coordinator.trigger_checkpoint().result(LONGEST_S).checkpoint_id
    watched.add(1)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    faults.arm(Step.WRITE, Action.TORN, amount=50)  # of one slot, which doesn't notice
    torn = job.master.coordinator.trigger_checkpoint().result(LONGEST_S).checkpoint_id
    assert torn > sound
    kill(job.master.slot_pids[0])
    job.wait_for(lambda: job.status["attempt"] >= 1 and job.status["state"] == "RUNNING")
    told = capfd.readouterr().err
    assert "its length is not" in told
    assert "goes back to the checkpoint before" in told
    assert job.master.coordinator.statistics()["latest"]["restored"]["id"] == sound
    watched.add(1)
    finish(job, watched, sink, tmp_path)
