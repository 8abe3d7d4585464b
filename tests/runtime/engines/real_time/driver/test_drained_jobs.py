"""Joins, with calls under way, on the real-time engine: killed, resumed at another parallelism and backend, drained."""

from __future__ import annotations

import pytest

from pystate.common.job_status import JobStatus
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation, resolve_snapshot
from pystate.runtime.engines.real_time.driver.real_time_engine import RealTimeEngine
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.runtime.engines.real_time.driver.joins import expected, joins, numbers_in, written
from tests.runtime.engines.real_time.driver.programs import counts
from tests.waiting import wait_until


@pytest.fixture
def job(tmp_path):
    made = []

    def make(name, program, **options):
        made.append(RealTimeJob(tmp_path / (name * 8), program, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_joins_give_all_pairs_once_over_a_killed_slot_another_parallelism_and_a_drain(job, tmp_path):
    folder = tmp_path / "files"
    program = joins(folder, 100_000, 100)
    first = job("a", program)
    first.await_checkpoints(2)
    first.kill_slot(1)
    first.await_attempt(1)
    first.await_checkpoints(2)
    path = first.savepoint(stop=True)
    assert first.end() is JobStatus.FINISHED
    second = job("b", program, parallelism=3, **{"execution.state-recovery.path": path, "state.backend.type": "rocksdb"})
    wait_until(lambda: second.error is not None or min(map(len, numbers_in(written(folder)))) > 50)
    second.await_checkpoints()
    second.savepoint(stop=True, drain=True)
    assert second.end() is JobStatus.FINISHED
    lines = written(folder)
    lefts, rights = numbers_in(lines)
    assert lines == expected(lefts, rights)


@pytest.mark.parametrize("interval", [None, "1 h"])
def test_a_drained_job_ends_with_its_savepoint_however_long_that_takes_to_write(job, monkeypatch, interval):
    write, look, seen = SnapshotLocation.write_metadata, RealTimeEngine.look, []

    def looks(engine):
        has_ended = not engine._running
        look(engine)
        if has_ended:
            seen.append(engine)

    def after_the_last_record(location, data):
        wait_until(lambda: len(seen) > 1)  # the attempt goes on after a look at subtasks that have all ended
        write(location, data)

    monkeypatch.setattr(RealTimeEngine, "look", looks)
    monkeypatch.setattr(SnapshotLocation, "write_metadata", after_the_last_record)
    one = job("c", counts(1_000_000, 1000), **{"execution.checkpointing.interval": interval})
    wait_until(lambda: one.status.state is JobStatus.RUNNING)
    path = one.savepoint(stop=True, drain=True)
    assert one.end() is JobStatus.FINISHED
    assert resolve_snapshot(path).read_metadata()
    assert one.coordinator.statistics()["counts"]["completed"] == 1, "no other one after the end of event time"
