"""Epochs that the clock brings about: when they begin, what number they have, what stands against them."""

import pytest

from pystate.common.time import current_time_ms
from pystate.runtime.checkpoint.live_attempt import AttemptOverError
from tests.runtime.checkpoint.harness import in_thread
from tests.runtime.checkpoint.parts import EVERY_EPOCH
from tests.waiting import LONGEST_S

FAR = 1 << 45


def clock(one, pause_s=0.0):
    """Wait on a thread for the next epoch by the clock; return the thread and what it gets."""
    got = []

    def wait():
        try:
            got.append(one.attempt.begin_due(pause_s))
        except AttemptOverError as error:
            got.append(error)

    return in_thread(wait), got


def test_an_epoch_is_brought_about_when_the_first_timer_of_all_subtasks_is_due(bench):
    one = bench()
    one.begin(0)
    due = current_time_ms() + 100
    one.end(0, timers=(FAR, due))
    thread, got = clock(one)
    thread.join(LONGEST_S)
    (begun,) = got
    assert (begun.epoch, begun.batch) == (1, 0), "the sources are read up to the batch before it"
    assert begun.clock >= due


def test_without_a_timer_none_comes_and_the_end_of_the_attempt_ends_the_wait(bench):
    one = bench()
    one.epoch(0)
    thread, got = clock(one)
    assert one.attempt._tracker.next_timer is None
    one.coordinator.attempt_over()
    thread.join(LONGEST_S)
    assert isinstance(got[0], AttemptOverError)


def test_a_timer_that_an_epoch_of_rows_has_fired_needs_none(bench):
    one = bench()
    one.start_attempt(next_timer=0)
    one.begin(0)
    thread, got = clock(one)
    one.end(0, timers=(FAR, None))
    assert one.attempt._tracker.next_timer == FAR
    one.epoch(1)
    one.coordinator.attempt_over()
    thread.join(LONGEST_S)
    assert isinstance(got[0], AttemptOverError)


def test_epochs_of_rows_wait_for_that_of_the_clock_and_go_on_above_its_number(bench):
    one = bench()
    one.start_attempt(next_timer=0)
    thread, got = clock(one)
    thread.join(LONGEST_S)
    assert (got[0].epoch, got[0].batch) == (0, -1), "what is overdue after a restore fires before any row"
    one.spark.plan(0)
    numbers = []
    rows = in_thread(lambda: numbers.append(one.attempt.begin_epoch(0).epoch))
    one.end(0, commit=False, batch=-1)
    rows.join(LONGEST_S)
    assert numbers == [1]
    one.end(1, commit=False, batch=0)
    one.spark.commit(0)
    completed = one.coordinator.trigger_checkpoint().result(LONGEST_S)
    assert completed.epoch == 1
    assert one.coordinator.latest_snapshot().metadata.source_position.epoch == 0


def test_a_savepoint_of_an_idle_job_stands_after_the_epoch_of_the_clock(bench):
    one = bench()
    one.epoch(0)
    one.attempt._tracker.next_timer = 0
    thread, _ = clock(one)
    thread.join(LONGEST_S)
    one.end(1, commit=False, batch=0)
    completed = one.coordinator.trigger_savepoint(None, hold=False).result(LONGEST_S)
    assert completed.epoch == 1


def test_none_begins_after_the_savepoint_of_a_stop(bench):
    one = bench()
    one.epoch(0)
    one.coordinator.trigger_savepoint(None, hold=True).result(LONGEST_S)
    one.attempt._tracker.next_timer = 0
    thread, got = clock(one)
    assert one.barriers._stands_against()
    one.coordinator.attempt_over()
    thread.join(LONGEST_S)
    assert isinstance(got[0], AttemptOverError)


def test_with_a_barrier_on_every_epoch_one_that_broke_off_is_run_again_up_to_the_same_time(bench):
    one = bench(**EVERY_EPOCH)
    one.start_attempt(next_timer=0)
    thread, got = clock(one)
    thread.join(LONGEST_S)
    (begun,) = got
    running = one.epochs.running_epoch(None)
    assert (running.epoch, running.clock, running.files) == (begun.epoch, begun.clock, {})
    one.coordinator.attempt_over()
    one.start_attempt()
    assert one.attempt.begin_again(running.clock) == begun


def test_with_a_barrier_on_every_epoch_timers_of_rows_that_are_run_again_fire_up_to_the_same_time(bench):
    one = bench(**EVERY_EPOCH)
    one.spark.plan(0)
    before = current_time_ms()
    begun = one.attempt.begin_epoch(0)
    running = one.epochs.running_epoch(None)
    assert before <= begun.clock == running.rows_clock
    assert (running.epoch, running.clock) == (begun.epoch, None)
    one.coordinator.attempt_over()
    one.start_attempt()
    assert one.attempt.begin_epoch(0, running.rows_clock - 5000).clock == begun.clock - 5000


def test_no_epoch_of_the_clock_begins_before_rows_that_are_to_be_run_again(bench):
    one = bench()
    one.start_attempt(next_timer=0, rows_first=True)
    thread, got = clock(one)
    thread.join(0.2)
    assert got == []
    one.spark.plan(0)
    assert one.attempt.begin_epoch(0).epoch == 0, "the number that the rows had before"
    one.end(0, timers=(0, None))
    thread.join(LONGEST_S)
    assert (got[0].epoch, got[0].batch) == (1, 0)


def test_the_clock_that_waits_for_rows_ends_with_the_attempt(bench):
    one = bench(**EVERY_EPOCH)
    one.start_attempt(next_timer=0, rows_first=True)
    thread, got = clock(one)
    one.coordinator.attempt_over()
    thread.join(LONGEST_S)
    assert isinstance(got[0], AttemptOverError)


def test_timers_of_other_rows_go_by_the_clocks_of_the_slots(bench):
    one = bench()
    one.spark.plan(0)
    assert one.attempt.begin_epoch(0).clock is None


@pytest.mark.parametrize("timers", [(5, 3), (None, 3), (3, None)])
def test_the_earliest_timer_of_all_counts(bench, timers):
    one = bench()
    one.begin(0)
    one.end(0, timers=timers)
    assert one.attempt._tracker.next_timer == 3


def test_the_end_of_an_epoch_whose_attempt_is_over_touches_no_checkpoint_of_the_next(bench):
    one = bench(**EVERY_EPOCH)
    one.begin(0)
    old, barriers = one.attempt, one.attempt._barriers
    one.coordinator.attempt_over()
    one.start_attempt()
    one.begin(0)  # the same number, with a barrier of its own
    (pending,) = one.attempt._barriers.after(0) or list(one.coordinator.pending)
    pending.epoch = 0
    captured = []
    pending.capture = lambda cut: captured.append(cut)  # type: ignore[method-assign]
    assert barriers.after(0) == []
    barriers.capture(0, 0)
    for late in (old.check_live, lambda: old.finish_epoch(0, 0)):
        with pytest.raises(AttemptOverError):
            late()
    assert captured == []


def test_a_source_that_has_something_brings_an_epoch_about(bench):
    one = bench()
    one.epoch(0)
    thread, got = clock(one)
    one.attempt.input_available()
    thread.join(LONGEST_S)
    assert got[0].epoch == 1
