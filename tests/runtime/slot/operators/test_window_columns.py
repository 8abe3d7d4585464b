"""Windows over known aggregations, by columns: the results and the state of the same windows element by element."""

from __future__ import annotations

import operator
import random
from typing import Any

import pyarrow as pa
import pytest

from pystate.common import Row, TypeInformation, Types
from pystate.core.api.aggregation import AccumulateType, ElementCount, FieldAggregation
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.window.assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from pystate.core.api.window.windows import MAX_TIMESTAMP
from pystate.runtime.slot.chain import input_processors
from pystate.runtime.slot.operators.keyed_batches import seem_different
from pystate.runtime.slot.operators.windowing.aligned_windows import AlignedWindowOperator
from pystate.runtime.slot.operators.windowing.window_columns import WindowColumns
from pystate.testing import WindowOperatorTestHarness

LATE = OutputTag("late")
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PRICED = Types.ROW_NAMED(["word", "price"], [Types.STRING(), Types.DOUBLE()])
NUMBERED = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
"""With a field that isn't aggregated: that of a window's first element."""
SMALL = Types.TUPLE([Types.STRING(), Types.SHORT()])


class OneByOne(FieldAggregation):
    """The same aggregation, which no column takes over."""


class CountOneByOne(ElementCount):
    """The same."""


def make(assigner: Any, function: Any, type_info: TypeInformation, backend: str) -> WindowOperatorTestHarness:
    functions: dict[str, Any] = {"reduce_function": function}
    if isinstance(function, ElementCount):
        functions = {"aggregate_function": function, "accumulator_type": Types.LONG()}
    harness = WindowOperatorTestHarness(
        assigner,
        lambda value: value[0],
        Types.STRING(),
        late_tag=LATE,
        input_type=type_info,
        state_backend=backend,
        **functions,
    )
    harness.open()
    return harness


def number_of(random_: random.Random, type_info: TypeInformation) -> Any:
    if type_info is PRICED:
        return random_.choice([0.0, -0.0, 1.5, -2.25, 1e300, float("nan")] if random_.random() < 0.02 else [0.5, 2.25, -3.0])
    return random_.choice([30_000, -30_000] if random_.random() < 0.02 else [1, 2, -3, 40])


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    "assigner", [TumblingEventTimeWindows(10, 3), SlidingEventTimeWindows(12, 4), SlidingEventTimeWindows(3, 5)]
)
@pytest.mark.parametrize(
    ("kind", "field", "type_info"),
    [
        (AccumulateType.SUM, 1, PAIR),
        (AccumulateType.MIN, -1, PAIR),
        (AccumulateType.MAX, "price", PRICED),
        (AccumulateType.MIN, "price", PRICED),
        (AccumulateType.SUM, "price", PRICED),
        (AccumulateType.MAX, 1, SMALL),
        (AccumulateType.MAX, 1, NUMBERED),
        (AccumulateType.SUM, 1, NUMBERED),
        (None, None, PAIR),
    ],
)
def test_columns_give_what_elements_give(
    backend: str, assigner: Any, kind: AccumulateType | None, field: Any, type_info: TypeInformation
) -> None:
    random_ = random.Random(5)
    functions = (
        [ElementCount(), CountOneByOne()] if kind is None else [made(kind, field) for made in (FieldAggregation, OneByOne)]
    )
    both = [make(assigner, function, type_info, backend) for function in functions]
    sums_of_doubles = kind is AccumulateType.SUM and type_info is PRICED
    assert [one._chain.operators[-1].columns is not None for one in both] == [not sums_of_doubles, False]
    shares_panes = kind is None and repr(assigner) == "SlidingEventTimeWindows(12, 4, 0)"  # that of a subclass doesn't
    for turn in range(12):
        elements, times = [], []
        for _ in range(60):
            word, number = random_.choice("abc"), number_of(random_, type_info)
            place = (60 * turn + len(elements),) if type_info is NUMBERED else ()
            elements.append(Row(word=word, price=number) if type_info is PRICED else (word, number, *place))
            times.append(10 * turn + random_.randint(-5, 10))
        for harness in both:
            harness.process_elements(elements, times)
            harness.process_watermark(10 * turn - 2 * (turn % 2))
            if turn % 3 == 1:
                harness.end_epoch()
            elif turn % 3 == 2:
                harness.roll_back_epoch()
        if turn % 4 == 3:
            entries = {harness.num_keyed_state_entries() for harness in both}  # which writes windows back
            assert shares_panes or len(entries) == 1
    for harness in both:
        harness.process_watermark(MAX_TIMESTAMP)
        harness.end_epoch()
    one, other = both
    assert one.extract_output()
    assert sorted(map(repr, one.extract_output())) == sorted(map(repr, other.extract_output()))
    assert list(map(repr, one.get_side_output(LATE))) == list(map(repr, other.get_side_output(LATE)))
    for harness in both:
        assert harness.num_keyed_state_entries() == 0
        harness.close()


def test_a_window_is_touched_once_for_each_key_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[Any] = []
    merge = AlignedWindowOperator.merge

    def watched(self: AlignedWindowOperator, key: Any, group: int, start: int, partial: Any) -> None:
        merged.append((key, start, partial))
        merge(self, key, group, start, partial)

    monkeypatch.setattr(AlignedWindowOperator, "merge", watched)
    harness = make(TumblingEventTimeWindows(10), FieldAggregation(AccumulateType.SUM, 1), PAIR, "hashmap")
    harness.process_elements([("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5), ("a", 6)], [1, 2, 3, 4, 5, 11])
    assert sorted(merged) == [("a", 0, ("a", 8)), ("a", 10, ("a", 6)), ("b", 0, ("b", 7))]
    harness.close()


def test_groups_of_one_element_each_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(AlignedWindowOperator, "merge")
    harness = make(TumblingEventTimeWindows(10), ElementCount(), PAIR, "hashmap")
    harness.process_elements([(str(number), 1) for number in range(20)], [1] * 20)
    harness.process_watermark(9)
    assert harness.extract_output() == [1] * 20
    harness.close()


def test_a_batch_whose_keys_are_different_is_declined_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = make(TumblingEventTimeWindows(10), ElementCount(), PAIR, "hashmap")
    different = [(str(number), 1) for number in range(1_500)]
    harness.process_elements(different, [1] * 1_500)
    with monkeypatch.context() as patch:
        patch.setattr(input_processors, "DistinctKeys", None)
        harness.process_elements(different, [1] * 1_500)
    harness.process_elements([("a", 1)] * 1_500, [1] * 1_500)
    handler = harness._chain.operators[-1].columns
    assert isinstance(handler, WindowColumns)
    assert not handler.declines(pa.array(range(1_500))), "the last batch went by columns, so no sample is taken"
    harness.process_watermark(9)
    assert sorted(harness.extract_output()) == [2] * 1_500 + [1_500]
    harness.close()


@pytest.mark.parametrize("count", [1_000, 5_000, 10_000, 100_000])
def test_a_sample_tells_whether_most_keys_of_a_batch_are_different(count: int) -> None:
    random_, numbers = random.Random(count), range(count)
    different = random_.sample(numbers, count)
    assert seem_different(pa.array(different))
    assert seem_different(pa.array([f"word-{number}" for number in different]))
    for keys in (
        random_.choices(numbers[: count // 2], k=count),  # 43 of 100 are different
        [number // 10 for number in numbers],  # runs of equal keys
        [number % (count // 10) for number in numbers],  # keys that take turns
    ):
        assert not seem_different(pa.array(keys))


def test_a_small_batch_is_not_sampled() -> None:
    assert not seem_different(pa.array(range(999)))


@pytest.mark.parametrize(("known", "same"), [(max, lambda a, b: max(a, b)), (operator.add, lambda a, b: a + b)])
def test_reduce_with_a_function_of_python_that_is_known_goes_by_columns(known: Any, same: Any) -> None:
    results = []
    for function, has_columns in ((known, True), (same, False)):
        harness = WindowOperatorTestHarness(
            TumblingEventTimeWindows(10),
            lambda value: str(value % 3),
            Types.STRING(),
            input_type=Types.LONG(),
            reduce_function=function,
        )
        harness.open()
        assert (harness._chain.operators[-1].columns is not None) == has_columns
        for first in range(0, 40, 8):
            harness.process_elements([5 * number % 17 for number in range(first, first + 8)], list(range(first, first + 8)))
        harness.process_watermark(MAX_TIMESTAMP)
        results.append(sorted(harness.extract_output()))
        harness.close()
    assert results[0] == results[1]
