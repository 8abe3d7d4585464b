"""Event time by the splits of a source: that of the slowest which somebody needs to wait for."""

from __future__ import annotations

import pytest

from pystate.common import Duration, WatermarkStrategy
from pystate.core.api.operator_kind import OperatorKind
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.event_time import assigners_after_head
from pystate.runtime.slot.event_time.chain_time import MIN_WATERMARK, ChainTime
from pystate.runtime.slot.operators.timestamps import TimestampsAndWatermarks

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()


class Assigning:
    def __init__(self, strategy=MONOTONOUS):
        self.now = 0
        self.time = ChainTime(lambda: self.now)
        self.assigner = TimestampsAndWatermarks(strategy, lambda element: None, self.time, "times")

    def come(self, split, *times):
        self.assigner.begin_split(split)
        for self.time.timestamp in times:
            self.assigner.process_element("x")
        return self.assigner.watermark


def test_event_time_is_that_of_the_slowest_split():
    one = Assigning()
    one.assigner.set_splits({"a": True, "b": True})
    assert one.come("a", 100, 90) == MIN_WATERMARK
    assert one.come("b", 50) == 49
    assert one.come("a", 120) == 49
    assert one.come("b", 200) == 119
    assert one.come("b") == 119


def test_a_split_that_nobody_waits_for_counts_from_its_first_element_on():
    one = Assigning()
    one.assigner.set_splits({"a": True, "b": False})
    assert one.come("a", 100) == 99
    assert one.come("b", 50) == 99, "event time doesn't go back"
    assert one.come("a", 150) == 99
    assert one.come("b", 120) == 119
    one.assigner.set_splits({"a": True})
    assert one.assigner.watermark == 149, "it is at its end"


def test_without_splits_nobody_waits():
    one = Assigning()
    assert not one.assigner.is_idle
    one.assigner.set_splits({})
    assert one.assigner.is_idle
    one.assigner.set_splits({"a": True})
    assert not one.assigner.is_idle
    assert one.come("a", 5) == 4
    one.assigner.set_splits({})
    assert one.assigner.is_idle
    assert one.assigner.watermark == 4


def test_an_idle_split_holds_nobody_up_and_says_when():
    one = Assigning(MONOTONOUS.with_idleness(Duration.of_millis(1000)))
    one.assigner.set_splits({"a": True, "b": True})
    assert one.assigner.next_idle() == 1000
    one.now = 600
    assert one.come("a", 100) == MIN_WATERMARK
    one.assigner.finish_epoch()
    assert one.assigner.next_idle() == 1000, "that of b"
    one.now = 1000
    assert one.assigner.watermark == 99
    assert one.assigner.next_idle() == 1600
    assert one.come("b", 500) == 99
    assert one.come("a", 700) == 499
    one.assigner.finish_epoch()
    one.now = 2000
    assert one.assigner.is_idle
    assert one.assigner.next_idle() is None
    assert one.assigner.watermark == 499


def test_functions_see_event_time_as_it_was_before_the_epoch():
    one = Assigning()
    one.assigner.set_splits({"a": True, "b": True})
    one.come("a", 100)
    one.come("b", 50)
    assert one.assigner.current_watermark == MIN_WATERMARK
    one.assigner.finish_epoch()
    one.come("b", 80)
    assert one.assigner.current_watermark == 49


def assigner(uid, *children, kind=OperatorKind.ASSIGN_TIMESTAMPS):
    return ChainNode(OperatorSpec(uid=uid, name=uid, kind=kind, function=MONOTONOUS), list(children))


@pytest.mark.parametrize(("waits", "found"), [(OperatorKind.MAP, {"one", "two"}), (OperatorKind.ASYNC_WAIT, {"one"})])
def test_assigners_after_calls_under_way_see_elements_of_any_split(waits, found):
    chain = Chain([assigner("one", assigner("between", assigner("two"), kind=waits))], [], {})
    assert assigners_after_head(chain) == found
