"""Statistics of checkpoints over the drivers of a job."""

import json

import pytest

from pystate.common.job_status import JobStatus
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from tests.runtime.checkpoint.harness import Bench
from tests.runtime.checkpoint.stats.statistics import Statistics
from tests.waiting import LONGEST_S


@pytest.fixture
def said(monkeypatch):
    """What a coordinator says that takes over from another driver."""
    sentences = []
    start = CheckpointCoordinator.start

    def recovered(coordinator, tasks, starting):
        coordinator._storage.initialize()  # as that one did
        coordinator.recover(sentences.append)
        coordinator._ids.continue_above(3)
        start(coordinator, tasks, starting)

    monkeypatch.setattr(CheckpointCoordinator, "start", recovered)
    return sentences


def test_a_coordinator_goes_on_from_what_the_last_driver_left(tmp_path, said):
    Statistics().run(1, 2).trigger(3).write(tmp_path / "checkpoints.json")
    bench = Bench(tmp_path, {})
    try:
        assert bench.coordinator.statistics()["counts"] == {
            "restored": 0,
            "total": 3,
            "in_progress": 0,
            "completed": 2,
            "failed": 1,
        }
        savepoint = bench.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
        statistics = bench.coordinator.statistics()
        assert statistics["latest"]["savepoint"]["id"] == savepoint.checkpoint_id
        assert [one["id"] for one in statistics["history"]][1:] == [3, 2, 1]
        details = bench.coordinator.statistics_of(savepoint.checkpoint_id)
        (vertex,) = details["tasks"]
        assert details["tasks"][vertex]["uid"] == "count"
        subtasks = bench.coordinator.statistics_of_subtasks(savepoint.checkpoint_id, vertex)
        assert [one["status"] for one in subtasks["subtasks"]] == ["completed", "completed"]
        assert bench.coordinator.statistics_of(99) is None
    finally:
        bench.coordinator.close(JobStatus.CANCELED)
    left = json.loads((tmp_path / "checkpoints.json").read_bytes())["statistics"]
    assert left["counts"] == {"restored": 0, "total": 4, "completed": 3, "failed": 1}
    assert [line[:37] for line in said] == ["WARNING: Checkpoint 2 completed, and is gone"[:37]]


def test_a_savepoint_after_the_last_checkpoint_is_not_missed_among_the_checkpoints(tmp_path, said):
    Statistics().run(1).run(2, savepoint=True).write(tmp_path / "checkpoints.json")
    bench = Bench(tmp_path, {})
    bench.coordinator.close(JobStatus.CANCELED)
    assert [line.partition(" (")[0] for line in said] == ["WARNING: Checkpoint 1 completed, and is gone"]


def test_a_damaged_file_is_said_and_nothing_else_happens(tmp_path, said):
    (tmp_path / "checkpoints.json").write_text("{}")
    bench = Bench(tmp_path, {})
    bench.coordinator.close(JobStatus.CANCELED)
    assert len(said) == 1
    assert "They start over." in said[0]
