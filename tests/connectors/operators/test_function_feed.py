"""Source functions: their thread, the checkpoint lock, and what a snapshot says of them."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import JobGraphError, PystateError, StateError
from pystate.connectors.operators import function_feed
from pystate.connectors.operators.function_feed import CheckpointLock, SourceClosedError, WaitingElements
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.runtime.slot.event_time.chain_time import MAX_WATERMARK
from pystate.testing import SourceTestHarness
from tests.connectors.own_sources import Blocking, Counter, InOneHold, MovesFirst, Raising, Timed
from tests.waiting import LONGEST_S, wait_until

LONG = Types.LONG()


def test_what_a_function_hands_on_comes_in_order_and_its_return_is_the_end():
    with SourceTestHarness(lambda: Counter(25_000), output_type=LONG) as harness:
        assert harness.run_to_end() == list(range(25_000))
        assert harness.next_due() is None
        assert harness.run_epoch() == []


@pytest.mark.parametrize("function", [Counter, MovesFirst, InOneHold])
def test_a_snapshot_while_the_function_waits_for_room_is_exact(function):
    with SourceTestHarness(lambda: function(60_000), output_type=LONG, rows_per_epoch=3000) as harness:
        taken = harness.run_until(lambda elements: len(elements) > 0)
        snapshots = harness.snapshot(1)
        assert harness.run_to_end()[-1] == 59_999  # it goes on
    with SourceTestHarness(lambda: function(60_000), snapshots, output_type=LONG) as harness:
        assert taken + harness.run_to_end() == list(range(60_000))


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.sampled_from(["epoch", "snapshot", "crash", "restart"]), max_size=12), st.sampled_from([Counter, MovesFirst])
)
def test_each_element_counts_once_whatever_happens_between(steps, function):
    """The model: what a job's state would hold, which goes back with each crash to the last snapshot."""
    counted, saved, snapshots = [], [], None
    harness = SourceTestHarness(lambda: function(5000), output_type=LONG, rows_per_epoch=700)
    try:
        for number, step in enumerate([*steps, "crash"], 1):
            if step == "epoch":
                counted += harness.run_epoch()
            elif step in ("snapshot", "restart"):
                snapshots, saved = harness.snapshot(number), list(counted)
            if step in ("crash", "restart"):
                harness.close()
                counted = list(saved)
                harness = SourceTestHarness(lambda: function(5000), snapshots, output_type=LONG, rows_per_epoch=700)
        assert counted + harness.run_to_end() == list(range(5000))
    finally:
        harness.close()


def test_untyped_elements_wait_in_a_snapshot_as_they_are():
    class Pairs(Counter):
        def run(self, ctx):
            while self.running and self.offset < self.end:
                with ctx.get_checkpoint_lock():
                    ctx.collect({"number": (self.offset, None)})
                    self.offset += 1

    with SourceTestHarness(lambda: Pairs(100), rows_per_epoch=30) as harness:
        first = harness.run_epoch()
        snapshots = harness.snapshot(1)
    with SourceTestHarness(lambda: Pairs(100), snapshots) as harness:
        assert first + harness.run_to_end() == [{"number": (number, None)} for number in range(100)]


def test_a_function_that_never_pauses_waits_for_the_epochs():
    elements, stopped = WaitingElements(100), []

    def run():
        try:
            number = 0
            while True:
                elements.collect(number)
                number += 1
        except SourceClosedError:
            stopped.append(number)

    thread = threading.Thread(target=run)
    thread.start()
    seen = []
    while len(seen) < 5000:
        assert len(elements) <= 101
        seen += elements.take(40)
    assert [number for number, _ in seen] == list(range(len(seen)))
    elements.close()
    thread.join(LONGEST_S)
    assert stopped
    assert stopped[0] <= len(seen) + 101


def test_large_elements_wait_in_smaller_numbers():
    class Large(Counter):
        def run(self, ctx):
            while self.running:
                ctx.collect(b"x" * 1_000_000)
                self.offset += 1

    function = Large(0)
    with SourceTestHarness(lambda: function) as harness:
        harness.run_until(lambda elements: len(elements) > 50)
        wait_until(lambda: function.offset > 50)
        assert len(harness.run_epoch()) <= 67 + 33  # 64 MiB, and none less than a chunk of those that wait
        assert len(harness._operators[0].feed.elements) <= 34


def test_an_exception_comes_out_after_the_elements_before_it():
    with SourceTestHarness(Raising) as harness:
        seen = []
        with pytest.raises(ConnectionError, match="the broker is gone") as raised:
            harness.run_until(lambda elements: seen.append(len(elements)))
        assert raised.traceback[-1].name == "run"
        assert raised.traceback[-1].path.name == "own_sources.py"


def test_a_function_that_returns_at_cancel_is_closed():
    function = Blocking()
    with SourceTestHarness(lambda: function) as harness:
        assert harness.run_until(bool) == ["first"]
        assert harness.next_due() is None  # it will tell
    assert function.closed


def test_a_function_that_ignores_cancel_is_left_behind(monkeypatch):
    monkeypatch.setattr(function_feed, "CANCEL_TIMEOUT_S", 0.05)
    function = Blocking(deaf=True)
    harness = SourceTestHarness(lambda: function)
    assert harness.run_until(bool) == ["first"]
    harness.close()
    assert function.cancelled.is_set()
    assert not function.closed  # its thread still runs
    function.over.set()


def test_a_snapshot_gives_up_where_the_lock_is_held_for_ever(monkeypatch):
    monkeypatch.setattr(function_feed, "LOCK_TIMEOUT_S", 0.05)
    with SourceTestHarness(lambda: Blocking(locked=True)) as harness:
        assert harness.run_until(bool) == ["first"]
        with pytest.raises(StateError, match=r"has held the checkpoint lock for 0\.05 s"):
            harness.snapshot(1)


def test_a_lock_is_released_by_who_holds_it():
    lock = CheckpointLock(lambda: None)
    with pytest.raises(PystateError, match="does not hold it"):
        lock.release()
    with lock, lock:
        assert lock.is_mine
    assert not lock.is_mine


def test_an_idle_source_wakes_the_job_once():
    elements = WaitingElements()
    woken = []
    elements.wake = lambda: woken.append(1)
    assert elements.sleep()
    elements.collect(1)
    elements.collect(2)
    assert woken == [1]
    assert not elements.sleep()  # two wait
    elements.take(10)
    assert elements.sleep()
    elements.ended(None)
    assert woken == [1, 1]


def test_times_and_watermarks_of_a_function_are_the_streams():
    functions = []
    with SourceTestHarness(lambda: functions.append(Timed()) or functions[-1], parallelism=2) as harness:
        elements = harness.run_until(lambda elements: len(elements) == 10)
        assert sorted(elements) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        assert [harness.current_watermark(subtask) for subtask in (0, 1)] == [2500, 2500]
        functions[1].over.set()
        harness.run_until(lambda _: harness.current_watermark(1) == MAX_WATERMARK)  # nobody waits for who is at the end
        assert harness.current_watermark(0) == 2500


def test_an_epoch_that_took_something_is_not_rolled_back_in_place():
    with SourceTestHarness(lambda: Counter(10), output_type=LONG) as harness:
        harness.run_to_end()
        harness.roll_back_in_epoch()  # nothing was taken
    with SourceTestHarness(lambda: Blocking()) as harness, pytest.raises(PystateError, match="can't be rolled back"):
        while True:
            harness.roll_back_in_epoch()


def test_what_is_no_source_is_refused():
    with pytest.raises(JobGraphError, match="str is no source"):
        SourceOperator("source")


def test_a_whole_epoch_waits_for_the_end():
    with SourceTestHarness(lambda: Counter(250_000), output_type=LONG) as harness:
        assert len(harness.run_epoch(whole=True)) == 250_000
        assert harness.ended
