"""Uses of state from Flink's documents and tutorials, with the answers that are known there."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.datastream import KeyedProcessFunction, ListStateDescriptor, ValueStateDescriptor
from pystate.testing import KeyedOneInputOperatorTestHarness, OperatorTestHarness
from tests.testing.test_examples import example

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def answers(function, elements, parallelism=1):
    """Return what a function makes of (key, value) elements, with a snapshot and a restore in the middle of them."""
    found, half = [], len(elements) // 2
    with KeyedOneInputOperatorTestHarness(function(), lambda pair: pair[0], Types.LONG()) as first:
        first.open()
        first.process_elements(elements[:half])
        first.end_epoch()
        found += first.extract_output()
        snapshot = first.snapshot(1)
    for index, share in enumerate(OperatorTestHarness.repartition([snapshot], 1, parallelism, 128)):
        with KeyedOneInputOperatorTestHarness(
            function(), lambda pair: pair[0], Types.LONG(), parallelism=parallelism, subtask_index=index
        ) as second:
            second.initialize_state(share)
            second.open()
            second.process_elements([pair for pair in elements[half:] if second.owns_key(pair[0])])
            found += second.extract_output()
    return found


class CountWindowAverage(KeyedProcessFunction):
    """The average of each two values of a key, as in Flink's chapter on state: (count, sum) until there are two."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("average", PAIR))

    def process_element(self, value, ctx):
        count, total = self.sum.value() or (0, 0)
        count, total = count + 1, total + value[1]
        if count < 2:
            self.sum.update((count, total))
        else:
            self.sum.clear()
            yield value[0], total // count


class EveryThousandth(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count % 1000)
        if count == 1000:
            yield value[1]


class Larger(KeyedProcessFunction):
    """Emits a value that is larger than the one before it."""

    def open(self, runtime_context):
        self.before = runtime_context.get_state(ValueStateDescriptor("before", Types.LONG()))

    def process_element(self, value, ctx):
        before = self.before.value()
        self.before.update(value[1])
        if before is not None and value[1] > before:
            yield value[1]


class Lag(KeyedProcessFunction):
    """Emits a value with the one that came two before it."""

    def open(self, runtime_context):
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        last = list(self.last.get())
        if len(last) == 2:
            yield value[1], last[0]
        self.last.update([*last, value[1]][-2:])


@pytest.mark.parametrize("parallelism", [1, 2])
def test_the_average_of_each_two_values(parallelism):
    elements = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]
    assert answers(CountWindowAverage, elements, parallelism) == [(1, 4), (1, 5)]


def test_each_thousandth_record():
    assert answers(EveryThousandth, [(7, number) for number in range(1999)]) == [999]
    assert answers(EveryThousandth, [(7, number) for number in range(3000)]) == [999, 1999, 2999]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_value_is_emitted_if_it_is_larger_than_the_one_before(parallelism):
    values = [3, 5, 5, 4, 9, 1, 2]
    assert answers(Larger, [(1, value) for value in values], parallelism) == [5, 9, 2]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_value_and_the_one_two_before_it(parallelism):
    values = [5, 8, 10, 7, 3, 12]
    assert answers(Lag, [(1, value) for value in values], parallelism) == [(10, 5), (7, 8), (3, 10), (12, 7)]


def test_what_was_sold_today_against_yesterday():
    """Today's 10, 7 and 12 of three shops against yesterday's 5, 8 and 3."""
    module, day = example("day_over_day"), 86_400_000
    with KeyedOneInputOperatorTestHarness(module.AgainstYesterday(), lambda row: row[0], Types.STRING()) as harness:
        harness.open()
        harness.process_elements([("a", 0, 5), ("b", 0, 8), ("c", 0, 3)])
        harness.end_epoch()
        harness.process_elements([("a", day, 10), ("b", day, 7), ("c", day, 12), ("a", 3 * day, 1)])
        found = harness.extract_output()
    assert found == [("a", "1970-01-02", 10, 5), ("b", "1970-01-02", 7, -1), ("c", "1970-01-02", 12, 9)]


def test_an_id_is_forgotten_when_its_time_to_live_is_over():
    with KeyedOneInputOperatorTestHarness(
        example("deduplication").FirstOfAll(), lambda event: event.partition(",")[0], Types.STRING()
    ) as harness:
        harness.open()
        harness.set_processing_time(0)
        harness.process_elements(["1,a", "1,a", "2,b"])
        harness.end_epoch()
        harness.set_processing_time(86_400_000 - 1)
        harness.process_elements(["1,a"])
        harness.end_epoch()
        harness.set_processing_time(86_400_000 + 1)
        harness.process_elements(["1,again", "1,again"])
        assert harness.extract_output() == ["1,a", "2,b", "1,again"]
