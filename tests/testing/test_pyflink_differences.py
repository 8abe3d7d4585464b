"""What docs/pyflink.md says that is otherwise than in PyFlink, and no program of tests/fidelity asks."""

from decimal import Decimal

import pytest

from pystate.common import Types
from pystate.common.time import Instant
from pystate.datastream import KeyedProcessFunction, MapStateDescriptor, ValueStateDescriptor
from pystate.testing import ProcessFunctionTestHarnesses


class Counts(KeyedProcessFunction):
    """Counts a key's elements in state, and all of them in a metric."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.counter = runtime_context.get_metrics_group().counter("elements")

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.counter.inc()
        yield ctx.get_current_key(), self.count.value(), self.counter.get_count()


class Maps(KeyedProcessFunction):
    """Gives what a function of the map returns."""

    def open(self, runtime_context):
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))

    def process_element(self, value, ctx):
        yield from value(self.map)


def fills(entries):
    entries.put_all({"a": 1, "b": 2})
    return ()


def changes_while_iterating(entries):
    seen = []
    for key, value in entries.items():
        seen.append((key, value))
        entries.remove(key)
        entries.put(f"{key}{key}", value + 10)
    yield sorted(seen)
    yield sorted(entries.items())


def empties(entries):
    for key in ("a", "b"):
        yield entries.is_empty()
        entries.remove(key)
    yield entries.is_empty()
    entries.clear()
    entries.put("c", 3)
    entries.remove("d")
    yield list(entries.keys())


def harness(function, key=lambda value: "k", key_type=None):
    return ProcessFunctionTestHarnesses.for_keyed_process_function(function, key, key_type or Types.STRING())


def test_decimals_that_are_equal_are_one_key():
    tested = harness(Counts(), lambda value: value, Types.BIG_DEC())
    tested.process_elements([Decimal("1.5"), Decimal("1.50"), Decimal("1.500"), Decimal("15E-1")])
    assert [(str(key), count) for key, count, _ in tested.extract_output()] == [("1.5", n) for n in range(1, 5)]


@pytest.mark.parametrize("flushed", [False, True])
def test_a_map_may_be_changed_while_it_is_iterated(flushed):
    tested = harness(Maps())
    tested.process_element(fills)
    if flushed:
        tested.end_epoch()
    tested.process_element(changes_while_iterating)
    assert tested.extract_output() == [[("a", 1), ("b", 2)], [("aa", 11), ("bb", 12)]]


@pytest.mark.parametrize("flushed", [False, True])
def test_a_map_is_empty_once_its_last_entry_is_removed(flushed):
    tested = harness(Maps())
    tested.process_element(fills)
    if flushed:
        tested.end_epoch()
    tested.process_element(empties)
    assert tested.extract_output() == [False, False, True, ["c"]]


def test_a_counter_goes_on_over_the_ends_of_epochs():
    tested = harness(Counts())
    tested.process_elements(["x", "x"])
    tested.end_epoch()
    tested.process_element("x")
    assert [counted for _, _, counted in tested.extract_output()] == [1, 2, 3]


@pytest.mark.parametrize(("instant", "millis"), [((-1, 500_000_000), -500), ((-1, 999_999_999), -1), ((-2, 0), -2000)])
def test_instants_below_zero(instant, millis):
    assert Instant(*instant).to_epoch_milli() == millis
    assert Instant.of_epoch_milli(millis).to_epoch_milli() == millis
    with pytest.raises(ValueError, match="between 0 and 999999999"):
        Instant(0, -1)
