"""Where barriers stand in the real-time engine: the real coordinator, with slots that a test plays."""

from __future__ import annotations

import threading
import time

import pytest

from pystate.common.configuration.configuration import Configuration
from pystate.common.errors import CheckpointFailedError, ControlError
from pystate.core.snapshot.metadata import CheckpointType
from pystate.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from pystate.runtime.engines.real_time.driver.barriers import SourceBarriers
from tests.runtime.checkpoint.harness import JOB, SUBTASKS, TASK, FakeSlots, acknowledge, in_thread
from tests.waiting import LONGEST_S, wait_until


class Called(FakeSlots):
    """Slots that take note of what they are asked for."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.refuse = None
        self.go_on = threading.Event()
        self.go_on.set()

    def call_all(self, op, arguments, answered=None, bounded=None):
        self.go_on.wait(LONGEST_S)
        self.calls.append((op, arguments(0)))
        if self.refuse is not None:
            raise self.refuse

    def triggered(self):
        return [arguments["barrier"]["checkpoint_id"] for op, arguments in self.calls if op == "trigger_checkpoint"]


class Bench:
    def __init__(self, tmp_path, options=()):
        folders = {"dir": "ck", "savepoint-dir": "sp"}
        configuration = Configuration(
            {f"execution.checkpointing.{key}": str(tmp_path / name) for key, name in folders.items()} | dict(options)
        )
        self.coordinator = CheckpointCoordinator(JOB, configuration, tmp_path / "checkpoints.json")
        self.coordinator.start([TASK], None)
        self.slots = Called()
        self.handed_over = True
        self.intolerable = []
        self.barriers = SourceBarriers(self.coordinator.pending, self.slots, lambda: lambda: self.handed_over)
        self.coordinator.attempt_started(self.slots, self.barriers, self.intolerable.append)

    def acknowledge(self, number):
        for subtask in SUBTASKS:
            assert acknowledge(self.coordinator, number, subtask) == "SUCCESS"


@pytest.fixture
def one(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.coordinator.attempt_over()


def test_a_barrier_goes_to_the_sources_at_once_and_no_epoch_is_known(one):
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.slots.triggered() == [1])
    ((_, arguments),) = one.slots.calls
    assert (arguments["barrier"]["hold"], arguments["barrier"]["epoch"]) == (False, None)
    one.acknowledge(1)
    completed = future.result(LONGEST_S)
    assert (completed.metadata.epoch, completed.metadata.source_position) == (-1, None)


def test_a_checkpoint_is_complete_when_what_came_before_it_has_been_handed_over(one):
    one.handed_over = False
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.slots.triggered() == [1])
    one.acknowledge(1)
    with pytest.raises(TimeoutError):
        future.result(0.3)
    one.handed_over = True
    assert future.result(LONGEST_S).checkpoint_id == 1


def test_slots_that_refuse_fail_the_checkpoint_and_the_next_one_goes(one):
    one.slots.refuse = ControlError("no")
    with pytest.raises(CheckpointFailedError):
        one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    one.slots.refuse = None
    future = one.coordinator.trigger_savepoint(None, hold=False)
    wait_until(lambda: one.slots.triggered() == [1, 2])
    one.acknowledge(2)
    assert future.result(LONGEST_S).checkpoint_id == 2


def test_no_barrier_comes_after_a_savepoints_that_would_end_its_alignment(tmp_path):
    often = {"execution.checkpointing.interval": "10 ms", "execution.checkpointing.max-concurrent-checkpoints": "3"}
    one = Bench(tmp_path, often)
    wait_until(lambda: len(one.slots.triggered()) == 3)  # as many as may be under way
    savepoint, later = (one.coordinator.trigger_savepoint(None, hold=False) for _ in range(2))
    wait_until(lambda: one.slots.triggered() == [1, 2, 3, 4])
    for number in (1, 2, 3):
        one.acknowledge(number)
    wait_until(lambda: [checkpoint.checkpoint_id for checkpoint in one.coordinator.pending] == [4])
    with pytest.raises(TimeoutError):
        savepoint.result(0.3)
    assert one.slots.triggered() == [1, 2, 3, 4]
    one.acknowledge(4)
    assert savepoint.result(LONGEST_S).checkpoint_id == 4
    wait_until(lambda: one.slots.triggered()[4:5] == [5])
    one.acknowledge(5)
    assert later.result(LONGEST_S).checkpoint_id == 5
    wait_until(lambda: 6 in one.slots.triggered())
    one.coordinator.attempt_over()


def test_sources_go_on_after_a_savepoint_of_a_stop_that_fails_and_only_then(one):
    future = one.coordinator.trigger_savepoint(None, hold=True)
    wait_until(lambda: one.slots.triggered() == [1])
    one.barriers.release_if_failed()
    assert [op for op, _ in one.slots.calls] == ["trigger_checkpoint"]
    assert one.slots.calls[0][1]["barrier"]["hold"]
    one.coordinator.decline(1, ControlError("no"), CheckpointFailureReason.CHECKPOINT_DECLINED)
    with pytest.raises(CheckpointFailedError):
        future.result(LONGEST_S)
    one.barriers.release_if_failed()
    one.barriers.release_if_failed()
    assert [op for op, _ in one.slots.calls] == ["trigger_checkpoint", "resume"]


def test_no_barrier_comes_after_the_savepoint_of_a_stop_neither_under_way_nor_complete(tmp_path):
    often = {"execution.checkpointing.interval": "10 ms", "execution.checkpointing.max-concurrent-checkpoints": "3"}
    one = Bench(tmp_path, often)
    wait_until(lambda: len(one.slots.triggered()) == 3)
    savepoint = one.coordinator.trigger_savepoint(None, hold=True)
    wait_until(lambda: one.slots.triggered() == [1, 2, 3, 4])
    for number in (1, 2, 3, 4):
        one.acknowledge(number)
    assert savepoint.result(LONGEST_S).checkpoint_id == 4
    wait_until(lambda: one.coordinator._schedule._decider.wait_ms(0) == 0)  # one is due
    assert one.coordinator._schedule.next_step() is None
    time.sleep(0.2)  # and many more, for the coordinator's own thread
    assert one.slots.triggered() == [1, 2, 3, 4]
    assert [op for op, _ in one.slots.calls] == ["trigger_checkpoint"] * 4
    one.coordinator.attempt_over()


def test_barriers_come_again_after_the_savepoint_of_a_stop_that_has_failed(tmp_path):
    one = Bench(tmp_path, {"execution.checkpointing.interval": "10 ms"})
    wait_until(lambda: one.slots.triggered() == [1])
    savepoint = one.coordinator.trigger_savepoint(None, hold=True)
    wait_until(lambda: one.slots.triggered() == [1, 2])
    one.acknowledge(1)
    one.coordinator.decline(2, ControlError("no"), CheckpointFailureReason.CHECKPOINT_DECLINED)
    with pytest.raises(CheckpointFailedError):
        savepoint.result(LONGEST_S)
    wait_until(lambda: one.slots.triggered() == [1, 2, 3])
    one.barriers.release_if_failed()  # also after a newer barrier
    assert [call for call in one.slots.calls if call[0] == "resume"] == [("resume", {"checkpoint_id": 2})]
    one.coordinator.attempt_over()


def test_who_waits_after_a_failed_savepoint_is_not_let_go_before_he_has_been_told_to_wait(one):
    one.slots.go_on.clear()
    savepoint = one.coordinator.trigger_savepoint(None, hold=True)
    wait_until(lambda: one.barriers._placing is not None)
    one.coordinator.decline(1, ControlError("no"), CheckpointFailureReason.CHECKPOINT_DECLINED)
    with pytest.raises(CheckpointFailedError):
        savepoint.result(LONGEST_S)
    one.barriers.release_if_failed()
    assert one.slots.calls == []
    one.slots.go_on.set()
    wait_until(lambda: one.slots.triggered() == [1])
    wait_until(lambda: one.barriers.release_if_failed() or len(one.slots.calls) == 2)
    assert one.slots.calls[1] == ("resume", {"checkpoint_id": 1})


def test_after_the_end_of_event_time_comes_one_barrier_and_no_other(one):
    request = CheckpointRequest(
        CheckpointType.SAVEPOINT, location=one.coordinator._storage.savepoint_location(None), hold=True
    )
    one.slots.go_on.clear()
    draining = in_thread(lambda: one.barriers.drain(request, one.coordinator.prepare))
    wait_until(lambda: one.barriers.brings_own)
    late = one.coordinator.trigger_savepoint(None, hold=False)
    one.slots.go_on.set()
    draining.join(LONGEST_S)
    assert [op for op, _ in one.slots.calls] == ["drain", "trigger_checkpoint"]
    one.acknowledge(1)
    assert request.future.result(LONGEST_S).checkpoint_id == 1
    assert not late.done()


def test_a_drain_whose_savepoint_can_not_begin_changes_nothing(one):

    def refuse(_):
        message = "no room"
        raise CheckpointFailedError(message)

    with pytest.raises(CheckpointFailedError):
        one.barriers.drain(CheckpointRequest(CheckpointType.SAVEPOINT), refuse)
    assert one.barriers.is_open
    assert one.slots.calls == []
    one.barriers.end()
    with pytest.raises(AttemptOverError):
        one.barriers.drain(CheckpointRequest(CheckpointType.SAVEPOINT), refuse)
