import pytest

from pystate.common.errors import ControlError
from pystate.runtime.engines.micro_batch.driver.epoch_tracker import EpochTracker
from pystate.runtime.engines.micro_batch.slot.prepared_epoch import PreparedEpoch

A0, A1 = ("a", 0), ("a", 1)


def share(epoch, attempt=0):
    return PreparedEpoch(epoch, 3, attempt, rows_read=1, rows_in=1, rows_out=1)


@pytest.fixture
def tracker():
    return EpochTracker([A0, A1], restored_epoch=4, restored_batch=2)


def prepared(tracker, epoch):
    tracker.begin(epoch)
    for subtask in (A0, A1):
        tracker.prepare(subtask, share(epoch))
    return tracker


def test_an_epoch_ends_when_all_subtasks_have_prepared_and_finished_it(tracker):
    tracker.begin(5)
    tracker.prepare(A0, share(5))
    assert tracker.unprepared() == [A1]
    with pytest.raises(ControlError, match=r"missing are \[\('a', 1\)\]"):
        tracker.decide(5)
    tracker.prepare(A1, share(5))
    with pytest.raises(ControlError, match="missing are"):
        tracker.finish(5, 3)
    assert not tracker.subtasks_finished(5), "nobody has told them to"
    tracker.decide(5)
    assert tracker.subtasks_finished(5)
    assert not tracker.subtasks_finished(5)
    tracker.finish(5, 3)
    assert (tracker.finished, tracker.finished_batch, tracker.running) == (5, 3, None)


def test_the_barrier_of_an_epoch_is_decided_once(tracker):
    prepared(tracker, 5)
    assert tracker.decide(5) is True
    assert tracker.decide(5) is False


def test_rows_of_the_newest_task_attempt_count_whichever_word_comes_last(tracker):
    tracker.begin(5)
    for attempt in (7, 9, 8):
        tracker.prepare(A0, share(5, attempt))
    assert tracker.prepared[A0].task_attempt_id == 9


def test_no_rows_come_after_the_decision(tracker):
    prepared(tracker, 5).decide(5)
    with pytest.raises(ControlError):
        tracker.prepare(A0, share(5, attempt=1))


def test_an_epoch_that_was_finished_or_restored_never_begins_again(tracker):
    with pytest.raises(ControlError):
        tracker.begin(4)


def test_two_epochs_never_run_at_once(tracker):
    tracker.begin(5)
    with pytest.raises(ControlError):
        tracker.begin(6)


def test_a_subtask_of_another_epoch_or_job_is_refused(tracker):
    tracker.begin(5)
    with pytest.raises(ControlError):
        tracker.prepare(A0, share(6))
    with pytest.raises(ControlError):
        tracker.prepare(("b", 0), share(5))


def test_what_one_epoch_was_told_counts_for_no_other(tracker):
    prepared(tracker, 5).decide(5)
    assert not tracker.subtasks_finished(4)
    tracker.subtasks_finished(5)
    tracker.finish(5, 3)
    tracker.begin(6)
    assert tracker.unprepared() == tracker.missing() == [A0, A1]


def end(tracker, epoch, *shares):
    tracker.begin(epoch)
    for subtask, (timer, ended) in zip((A0, A1), shares, strict=True):
        tracker.prepare(subtask, PreparedEpoch(epoch, 3, 0, 1, 1, 1, next_timer=timer, source_ended=ended))
    tracker.decide(epoch)
    tracker.subtasks_finished(epoch)
    tracker.finish(epoch, 2)


def test_sources_are_at_their_end_when_all_of_them_say_so(tracker):
    assert not tracker.sources_ended
    end(tracker, 5, (100, False), (None, None))
    assert (tracker.sources_ended, tracker.next_timer) == (False, 100)
    end(tracker, 6, (None, True), (None, None))
    assert (tracker.sources_ended, tracker.next_timer) == (True, None)


def test_input_that_comes_while_an_epoch_runs_makes_the_next_one_due(tracker):
    tracker.begin(5)
    tracker.input_available = True
    for subtask in (A0, A1):
        tracker.prepare(subtask, share(5))
    tracker.decide(5)
    tracker.subtasks_finished(5)
    tracker.finish(5, 2)
    assert (tracker.next_timer, tracker.input_available) == (0, False)
    end(tracker, 6, (None, None), (None, None))
    assert tracker.next_timer is None
