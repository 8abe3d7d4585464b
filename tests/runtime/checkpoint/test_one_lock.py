"""The one lock of a coordinator is held for decisions, and over no file and no call to slots."""

import pytest

from pystate.common.errors import CheckpointFailedError
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.engines.micro_batch.spark.spark_checkpoint import SparkCheckpointDirectory
from pystate.runtime.engines.micro_batch.spark.spark_source_cut import SparkSourceCut
from tests.runtime.checkpoint.harness import SUBTASKS, FakeSlots, acknowledge, in_thread
from tests.waiting import LONGEST_S, wait_until

SLOW = [
    *((SnapshotLocation, method) for method in ("create", "write_state", "write_metadata", "discard")),
    *((SparkCheckpointDirectory, method) for method in ("capture", "capture_running")),
    (SparkSourceCut, "settle"),
    *((FakeSlots, method) for method in ("snapshot", "notify")),
]


@pytest.fixture
def held(monkeypatch):
    """Returns the calls that are made with the lock held, and all calls that are looked at."""
    held, seen, lock = [], set(), []

    def watch(owner, method):
        called = getattr(owner, method)

        def watched(*arguments, **options):
            seen.add(method)
            free = []

            def take():
                if lock[0].acquire(timeout=LONGEST_S):
                    lock[0].release()
                    free.append(True)

            in_thread(take).join()
            if not free:
                held.append(method)
            return called(*arguments, **options)

        monkeypatch.setattr(owner, method, watched)

    for owner, method in SLOW:
        watch(owner, method)
    return held, seen, lock


def test_the_lock_is_held_over_no_file_and_no_call(bench, held):
    during, seen, lock = held
    one = bench(**{"execution.checkpointing.every-epoch": "true"})
    lock.append(one.coordinator.pending.lock)
    for epoch in range(2):
        one.begin(epoch)
        barrier = one.end(epoch)
        for subtask in SUBTASKS:
            acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    wait_until(lambda: one.coordinator.statistics()["counts"]["completed"] == 2)
    one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    one.slots.decline = True
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    wait_until(lambda: "discard" in seen)
    assert seen == {method for _, method in SLOW}
    assert during == []
