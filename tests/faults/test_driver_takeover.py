"""What a driver does that takes over from a dead one, in this process: another executor under the same job id."""

from __future__ import annotations

from pathlib import Path

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CorruptSnapshotError, DriverReplacedError, JobCancelledError
from pystate.common.files.home import read_json, write_json
from pystate.runtime.job_folder.recovery_terms import RecoveryTerms
from pystate.runtime.job_folder.restart_strategies import restart_strategy
from tests.faults.faulty_storage import FAULTS
from tests.faults.injection import Action, Faults, Step
from tests.faults.processes import kill, needs_proc
from tests.faults.workload import RECOVERING, Sink, Watched, counting, state_in

pytestmark = [needs_proc, pytest.mark.timeout(180)]

OPTIONS = {
    **RECOVERING,
    "execution.checkpointing.num-retained": "3",
    "execution.checkpointing.data-inline-threshold": "0",  # so that state has files of its own
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}


def snapshots(tmp_path: Path) -> list[Path]:
    found = [path.parent for path in tmp_path.glob("checkpoints/*/chk-*/_metadata")]
    return sorted(found, key=lambda path: int(path.name[4:]))


@pytest.fixture
def dead_job(run_job, tmp_path, request):
    """A job that ended with three checkpoints, as if its driver had been killed; returns how to take it over."""
    watched, sink, faults = Watched(tmp_path), Sink(), Faults(tmp_path / FAULTS)
    mine = {**OPTIONS, **getattr(request, "param", {}), "execution.checkpointing.dir": f"faulty://{tmp_path}/checkpoints"}
    job = run_job(counting(watched, sink, faults=faults), mine)
    for _ in range(3):
        watched.add(1)
        job.wait_for(lambda: set(sink.rows) >= watched.pairs)
        seen = job.master.coordinator.statistics()["counts"]["completed"]
        job.wait_for(lambda seen=seen: job.master.coordinator.statistics()["counts"]["completed"] > seen)
    job.cancel()
    with pytest.raises(JobCancelledError):
        job.result()
    directory = job.job_directory()
    status = read_json(directory.status)
    write_json(directory.status, {**status, "state": "RESTARTING", "attempt": 1, "end_time": -1})

    def take_over(more=None):
        options = {**mine, **(more or {})}
        # the job manager counts the death of the driver
        counted = restart_strategy(Configuration(options)).after_failure(0).strategy
        RecoveryTerms(counted).write(directory)
        prepared = run_job(counting(watched, sink, faults=faults), options, job_id=job.job_id)
        return prepared, watched, sink

    return take_over


def damage_state(snapshot: Path) -> None:
    (state, *_) = [path for path in snapshot.iterdir() if "keyed" in path.name or "MANIFEST" in path.name]
    data = bytearray(state.read_bytes())
    data[len(data) // 2] ^= 1
    state.write_bytes(data)


def finish(job, watched, sink, tmp_path):
    watched.add(1)
    job.wait_for(lambda: set(sink.rows) >= watched.pairs)
    path = job.savepoint(tmp_path / "savepoints")
    assert state_in(path) == dict(watched.words)
    return path


@pytest.mark.slow  # three drivers
def test_epochs_checkpoint_ids_attempts_and_retained_checkpoints_go_on(dead_job, tmp_path):
    before = snapshots(tmp_path)
    assert len(before) == 3
    job, watched, sink = dead_job()
    finish(job, watched, sink, tmp_path)
    assert job.status["attempt"] == 1
    assert sink.epochs == sorted(set(sink.epochs)), "no number is given twice"
    job.wait_for(lambda: snapshots(tmp_path)[0].name not in [path.name for path in before])
    assert len(snapshots(tmp_path)) == 3, "those of the dead driver count, and go when they are subsumed"


@pytest.mark.parametrize(
    "dead_job",
    [
        pytest.param({}, id="hashmap"),
        pytest.param(
            {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"},
            id="rocksdb-incremental",
            marks=pytest.mark.slow,
        ),
    ],
    indirect=True,
)
def test_a_checkpoint_with_a_damaged_file_gives_way_to_the_one_before(dead_job, tmp_path, capfd):
    newest = snapshots(tmp_path)[-1]
    damage_state(newest)
    job, watched, sink = dead_job()
    finish(job, watched, sink, tmp_path)
    assert "goes back to the checkpoint before" in capfd.readouterr().err
    assert job.master.coordinator.statistics()["latest"]["restored"]["id"] < int(newest.name[4:])


@pytest.mark.slow
def test_a_storage_that_is_out_of_reach_for_a_while_costs_no_checkpoint(dead_job, tmp_path, capfd):
    before = snapshots(tmp_path)
    faults = Faults(tmp_path / FAULTS)
    faults.arm(Step.LIST, Action.FAIL, times=2)
    faults.arm(Step.LOOK, Action.FAIL)
    job, watched, sink = dead_job()
    finish(job, watched, sink, tmp_path)
    told = capfd.readouterr().err
    assert told.count("injected at list") >= 2
    assert "injected at look" in told
    assert job.master.coordinator.statistics()["latest"]["restored"]["id"] == int(before[-1].name[4:])


@pytest.mark.slow
def test_a_damaged_checkpoint_without_another_stops_the_job_with_the_files_name(dead_job, tmp_path):
    for snapshot in snapshots(tmp_path):
        damage_state(snapshot)
    job, _, _ = dead_job()
    with pytest.raises(CorruptSnapshotError, match=snapshots(tmp_path)[0].name):
        job.result()
    assert job.status["state"] == "FAILED"


@pytest.mark.slow
def test_the_starting_savepoint_is_not_needed_any_more_once_there_is_a_checkpoint(dead_job, tmp_path):
    job, watched, sink = dead_job({"execution.state-recovery.path": str(tmp_path / "deleted since")})
    finish(job, watched, sink, tmp_path)


@pytest.mark.slow
def test_kills_count_over_drivers(dead_job):
    job, _, _ = dead_job({"restart-strategy.fixed-delay.attempts": "1"})
    job.wait_running()
    kill(job.master.slot_pids[0])
    with pytest.raises(Exception, match="lost"):
        job.result()
    assert job.status["state"] == "FAILED"


@pytest.mark.slow
def test_a_driver_that_lives_on_after_its_successor_completes_nothing_and_overwrites_nothing(run_job, tmp_path):
    watched, sink = Watched(tmp_path), Sink()
    watched.add(2)
    old = run_job(counting(watched, sink), OPTIONS)
    old.wait_for(lambda: set(sink.rows) >= watched.pairs and len(snapshots(tmp_path)) > 1)
    directory = old.job_directory()
    write_json(directory.status, {**read_json(directory.status), "state": "RESTARTING", "attempt": 1})

    job = run_job(counting(watched, sink), OPTIONS, job_id=old.job_id)
    job.wait_running()
    with pytest.raises(DriverReplacedError, match="Another driver"):
        old.result()
    assert read_json(directory.status)["state"] == "RUNNING", "the status is its successor's"
    assert snapshots(tmp_path), "nor does it delete the checkpoints"
    finish(job, watched, sink, tmp_path)
    completed = job.master.coordinator.statistics()["counts"]["completed"]
    job.wait_for(lambda: job.master.coordinator.statistics()["counts"]["completed"] > completed)
    assert job.status["attempt"] == 1
    assert sink.epochs == sorted(set(sink.epochs)), "no epoch of the old driver stands after or among its successor's"
