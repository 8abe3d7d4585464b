"""Which step comes next, and what an attempt that ends leaves: nobody acts on the steps but the test."""

import pytest

from pystate.common.errors import CheckpointFailedError
from pystate.core.snapshot.metadata import CheckpointType
from pystate.runtime.checkpoint.checkpoint_request import CheckpointRequest
from pystate.runtime.checkpoint.coordinator_steps import DiscardLateParts, GiveUpStorageStep, PlaceBarrier, TriggerCheckpoint
from pystate.runtime.checkpoint.failure_reason import CheckpointFailureReason
from pystate.runtime.checkpoint.live_attempt import AttemptOverError


def test_what_is_to_be_done_comes_one_after_the_other(parts):
    one = parts()
    schedule = one.schedule
    request = CheckpointRequest(CheckpointType.CHECKPOINT)
    assert schedule.submit(request) is None
    step = schedule.await_step()
    assert step == TriggerCheckpoint(request)
    entry = one.running()
    assert one.pending.wait_for_place(entry)
    schedule.storage_done(step)
    assert schedule.await_step() == PlaceBarrier(entry)
    one.place(entry)
    (asked,) = one.slots.snapshots
    assert (asked.checkpoint_id, asked.epoch) == (1, -1)
    one.clock.now = 600.0
    step = schedule.await_step()
    assert (step.checkpoint, step.reason) == (entry, CheckpointFailureReason.CHECKPOINT_EXPIRED)
    one.failures.fail(entry, step.reason, step.error)
    step = schedule.await_step()
    assert step == DiscardLateParts({1: entry.location})
    schedule.storage_done(step)
    one.pending.decline(1, CheckpointFailedError("too late"), CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
    assert schedule.await_step() == DiscardLateParts({1: entry.location})
    schedule.close()
    assert schedule.await_step() is None


def test_a_step_that_hangs_in_the_storage_is_passed_by_the_next_and_engines_wait_no_longer(parts):
    one = parts()
    first, second = (CheckpointRequest(CheckpointType.SAVEPOINT) for _ in range(2))
    one.schedule.submit(first)
    one.schedule.submit(second)
    hung = one.schedule.await_step()
    assert one.pending.is_triggering
    one.clock.now = 599.0
    assert one.schedule.next_step() is None
    one.clock.now = 600.0
    assert one.schedule.next_step() == GiveUpStorageStep(hung)
    assert not one.pending.is_triggering
    step = one.schedule.next_step()
    assert step == TriggerCheckpoint(second)
    one.schedule.storage_done(hung)
    assert one.schedule.next_step() is None, "the second one is under way all the same"
    one.schedule.storage_done(step)
    assert not one.pending.is_triggering


def test_a_checkpoint_that_is_triggered_when_its_attempt_is_over_is_not_taken_in(parts):
    one = parts()
    waiting = [CheckpointRequest(CheckpointType.SAVEPOINT) for _ in range(2)]
    for request in waiting:
        one.schedule.submit(request)
    one.schedule.await_step()
    entry = one.running()
    one.coordinator.attempt_over()
    assert entry.failure_reason is CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND
    assert not one.pending.wait_for_place(entry)
    assert [request.future.done() for request in waiting] == [False, True], "the first one is being triggered"
    with pytest.raises(AttemptOverError):
        one.schedule.submit(CheckpointRequest(CheckpointType.SAVEPOINT))


def test_the_end_of_an_attempt_leaves_a_checkpoint_alone_whose_metadata_is_being_written(parts):
    one = parts(**{"execution.checkpointing.max-concurrent-checkpoints": "2"})
    whole, other = one.running(1), one.running(2)
    for entry in (whole, other):
        assert one.pending.wait_for_place(entry)
        one.place(entry)
    whole.finalizing = True
    one.coordinator.attempt_over()
    assert list(one.pending) == [whole]
    assert (whole.is_aborted, other.is_aborted) == (False, True)
    one.completion.complete(other)
    assert not other.finalizing
