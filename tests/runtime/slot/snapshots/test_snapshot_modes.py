"""Asynchronous and synchronous snapshots of a subtask, and state that is too large for the driver's memory."""

from __future__ import annotations

import pytest

from pystate.core.snapshot.handles.handles import ByteStreamStateHandle
from pystate.runtime.checkpoint.barrier import CheckpointBarrier
from pystate.runtime.engines.micro_batch.slot.epoch_ledger import Asker
from pystate.runtime.engines.micro_batch.slot.micro_batch_subtask import MicroBatchSubtask
from pystate.runtime.plan.task import JobEnvironment
from tests.runtime.slot.harness import JOB_ID, UID, RecordingCoordinator, SlotHarness

MEMORY = f"jobmanager:/{JOB_ID}/chk-1"


class Bench:
    """A subtask whose uploads wait until a test runs them."""

    def __init__(self, tmp_path, configuration):
        self.harness = SlotHarness(tmp_path)
        self.coordinator = RecordingCoordinator()
        self.uploads = []
        environment = JobEnvironment(JOB_ID, "job", 0, configuration, "hashmap", 1 << 20, str(tmp_path))
        self.subtask = MicroBatchSubtask(
            self.harness.task, 0, environment, self.coordinator, self.coordinator, self.uploads.append, -1
        )
        self.subtask.open(None)

    def epoch(self, number, words):
        def batches():
            yield 0, self.harness.batch(words)
            return len(words)

        self.subtask.run(number, Asker(1, 0), lambda: None, batches)
        self.subtask.finish_epoch(number, 0, None)

    def snapshot(self, epoch, limit):
        self.subtask.snapshot_between_epochs(CheckpointBarrier(1, MEMORY, limit, trigger_timestamp=0, epoch=epoch))

    def close(self):
        self.subtask.close()
        self.harness.close()


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(configuration):
        made.append(Bench(tmp_path, configuration))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_an_asynchronous_snapshot_is_written_later(bench):
    one = bench({})
    one.epoch(0, ["a"])
    one.snapshot(0, 5 << 20)
    assert one.coordinator.acknowledged == {}
    one.epoch(1, ["b"])
    (upload,) = one.uploads
    upload()
    assert 1 in one.coordinator.acknowledged


def test_a_synchronous_snapshot_is_written_at_once_and_its_time_is_all_synchronous(bench):
    one = bench({"state.backend.async": "false"})
    one.epoch(0, ["a"])
    one.snapshot(0, 5 << 20)
    assert one.uploads == []
    state, metrics = one.coordinator.acknowledged[1]
    (keyed,) = state.operators[UID].keyed_state
    assert isinstance(keyed.handle, ByteStreamStateHandle)
    assert metrics.async_ms == 0


@pytest.mark.parametrize("asynchronous", ["true", "false"])
def test_state_above_the_bound_is_declined_with_operator_size_and_remedy(bench, asynchronous):
    one = bench({"state.backend.async": asynchronous})
    one.epoch(0, [f"word {number}" for number in range(1000)])
    one.snapshot(0, 1000)
    for upload in one.uploads:
        upload()
    assert one.coordinator.acknowledged == {}
    error = one.coordinator.declined[1]
    assert error.message.startswith("Size of the state is larger than the maximum permitted memory-backed state. Size=")
    assert error.message.endswith(", maxSize=1000.")
    assert error.where.startswith("count (uid count), subtask 0")
    assert "execution.checkpointing.storage = filesystem" in error.hint
