import pytest

from pystate.common.errors import ControlError
from pystate.driver.epoch_tracker import EpochTracker

A0, A1 = ("a", 0), ("a", 1)


@pytest.fixture
def tracker():
    return EpochTracker([A0, A1], restored_epoch=4, restored_batch=2)


def test_an_epoch_ends_when_all_subtasks_have_finished_it(tracker):
    tracker.begin(5)
    tracker.subtask_finished(A0, 5)
    assert tracker.missing() == [A1]
    with pytest.raises(ControlError, match=r"missing are \[\('a', 1\)\]"):
        tracker.finish(5, 3)
    tracker.subtask_finished(A1, 5)
    tracker.finish(5, 3)
    assert (tracker.finished, tracker.finished_batch, tracker.running) == (5, 3, None)


def test_the_barrier_of_an_epoch_is_decided_once(tracker):
    tracker.begin(5)
    assert tracker.decide(A1, 5) is True
    assert tracker.decide(A0, 5) is False


def test_an_epoch_that_was_finished_or_restored_never_begins_again(tracker):
    with pytest.raises(ControlError):
        tracker.begin(4)


def test_two_epochs_never_run_at_once(tracker):
    tracker.begin(5)
    with pytest.raises(ControlError):
        tracker.begin(6)


def test_a_subtask_of_another_epoch_gets_no_decision(tracker):
    tracker.begin(5)
    with pytest.raises(ControlError):
        tracker.decide(A0, 6)
    with pytest.raises(ControlError):
        tracker.decide(("b", 0), 5)


def test_a_late_word_of_a_past_epoch_counts_for_nothing(tracker):
    tracker.begin(5)
    tracker.subtask_finished(A0, 4)
    assert tracker.missing() == [A0, A1]
