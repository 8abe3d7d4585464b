"""Drains: the last epoch, in which event time ends, and the only barrier that may stand after it."""

import pytest

from pystate.common.errors import CheckpointFailedError, SnapshotError
from pystate.core.snapshot.metadata import CheckpointType
from pystate.core.snapshot.storage.snapshot_location import SnapshotLocation
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from tests.runtime.checkpoint.harness import SUBTASKS, acknowledge, in_thread, raised
from tests.runtime.checkpoint.parts import EVERY_EPOCH
from tests.waiting import LONGEST_S, wait_until


def drained(one):
    """Begin the last epoch with a savepoint on it; return the thread that does, what that gives, and the savepoint."""
    request = one.coordinator.savepoint_request(None, hold=True)
    begun = []

    def begin():
        try:
            begun.append(one.attempt.begin_last(request))
        except Exception as error:
            begun.append(error)

    return in_thread(begin), begun, request.future


def test_the_savepoint_of_a_drain_rides_on_the_last_epoch(bench):
    one = bench()
    one.epoch(0)
    thread, begun, savepoint = drained(one)
    thread.join(LONGEST_S)
    assert begun == [(1, 0)]
    barrier = one.end(1, commit=False, batch=0)
    assert barrier.savepoint
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    assert savepoint.result(LONGEST_S).epoch == 1
    assert one.coordinator.pending.hold, "nothing comes after it"


def test_no_other_checkpoint_stands_at_the_end_of_event_time(bench):
    one = bench()
    one.epoch(0)
    before = one.coordinator.trigger_checkpoint().result(LONGEST_S)
    thread, _, savepoint = drained(one)
    thread.join(LONGEST_S)
    asked = one.coordinator.trigger_checkpoint()
    barrier = one.end(1, commit=False, batch=0)
    assert not one.barriers.is_open, "the one that was asked for waits"
    one.coordinator.decline(barrier.checkpoint_id, CheckpointFailedError("no space"), CheckpointFailureReason.IO_EXCEPTION)
    assert "no space" in str(savepoint.exception(LONGEST_S))
    assert not one.barriers.is_open
    one.coordinator.attempt_over()
    assert "ended or restarted" in str(asked.exception(LONGEST_S))
    assert one.coordinator.latest_snapshot().location.uri == before.path
    one.start_attempt()
    one.epoch(0)
    assert one.coordinator.trigger_checkpoint().result(LONGEST_S).epoch == 0


def test_a_drain_whose_savepoint_has_no_place_changes_nothing(bench, monkeypatch):
    one = bench()
    one.epoch(0)
    create = SnapshotLocation.create

    def full(location):
        if "/sp/" in location.uri:
            message = "no space"
            raise SnapshotError(message)
        create(location)

    monkeypatch.setattr(SnapshotLocation, "create", full)
    thread, begun, savepoint = drained(one)
    thread.join(LONGEST_S)
    assert "no space" in str(begun[0])
    assert "no space" in str(savepoint.exception(LONGEST_S))
    assert one.coordinator.trigger_checkpoint().result(LONGEST_S).epoch == 0
    one.epoch(1)
    assert one.coordinator.trigger_checkpoint().result(LONGEST_S).epoch == 1


def test_a_drain_waits_for_the_checkpoint_that_rides_on_the_running_epoch(bench):
    one = bench()
    one.begin(0)
    checkpoint = one.coordinator.trigger_checkpoint()
    wait_until(lambda: not one.barriers.is_open)
    thread, begun, savepoint = drained(one)
    wait_until(lambda: one.barriers._closed)
    riding = one.end(0)
    assert not riding.savepoint
    thread.join(LONGEST_S)
    assert begun == [(1, 0)], "it may still be written"
    barrier = one.end(1, commit=False, batch=0)
    for one_of_them in (riding, barrier):
        for subtask in SUBTASKS:
            acknowledge(one.coordinator, one_of_them.checkpoint_id, subtask)
    assert (checkpoint.result(LONGEST_S).epoch, savepoint.result(LONGEST_S).epoch) == (0, 1)


def test_where_each_epoch_carries_a_barrier_the_last_one_waits_for_the_checkpoint_of_the_one_before(bench):
    one = bench(**EVERY_EPOCH)
    one.begin(0)
    barrier = one.end(0)
    thread, begun, savepoint = drained(one)
    wait_until(lambda: one.barriers._closed)
    thread.join(0.1)
    assert begun == []
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    thread.join(LONGEST_S)
    assert begun == [(1, 0)]
    last = one.end(1, commit=False, batch=0)
    assert last.savepoint
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, last.checkpoint_id, subtask)
    assert savepoint.result(LONGEST_S).epoch == 1


def test_a_drain_does_not_overtake_the_savepoint_of_a_stop(bench):
    one = bench()
    one.begin(0)
    stop = one.coordinator.trigger_savepoint(None, hold=True)
    wait_until(lambda: not one.barriers.is_open)
    thread, begun, _ = drained(one)
    barrier = one.end(0)
    thread.join(0.1)
    assert begun == []
    for subtask in SUBTASKS:
        acknowledge(one.coordinator, barrier.checkpoint_id, subtask)
    assert stop.result(LONGEST_S).epoch == 0
    one.coordinator.attempt_over()
    thread.join(LONGEST_S)
    assert isinstance(begun[0], AttemptOverError)


def test_after_the_end_of_bounded_input_there_is_a_checkpoint(bench):
    one = bench()
    one.epoch(0)
    assert one.attempt.begin_last() == (1, 0)
    one.end(1, commit=False, batch=0)
    assert one.coordinator.trigger_checkpoint().result(LONGEST_S).epoch == 1


def test_an_epoch_of_which_no_number_can_be_reserved_leaves_the_others_alone(bench, monkeypatch):
    one = bench()
    one.epoch(0)

    def refuse(_):
        raise CheckpointFailedError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(one.attempt._numbers, "reserve", refuse)
        request = CheckpointRequest(CheckpointType.SAVEPOINT, location=one.coordinator._storage.savepoint_location(None))
        with pytest.raises(CheckpointFailedError):
            one.attempt.begin_last(request)
    assert raised(lambda: one.epoch(1)) is None
