"""Interval joins under the public harness, and against a model that keeps all elements in a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import RecordError
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.join_functions import ProcessJoinFunction
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.window.windows import MAX_TIMESTAMP, MIN_TIMESTAMP
from pystate.runtime.slot.operators.buffered_times import BufferedTimes
from pystate.testing import TwoInputOperatorTestHarness
from tests.hypothesis_profiles import in_short_and_at_length, of_test
from tests.testing.windows.test_time_model import BETWEEN, EXAMPLES, KEYS, PLACES, Subtasks

LATE = (OutputTag("late left"), OutputTag("late right"))
TYPED = Types.TUPLE([Types.STRING(), Types.LONG()])


class Pair(ProcessJoinFunction):
    """Emits the numbers of both elements and what the context says."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left[0], left[1], right[1], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


class JoinHarness(TwoInputOperatorTestHarness):
    """Both streams have one watermark."""

    def __init__(self, operation: IntervalJoinOperation, **options: Any) -> None:
        def key_of(element: Any) -> Any:
            return element[0]

        types = {"input_type1": TYPED, "input_type2": None}
        super().__init__(operation, key_of, key_of, Types.STRING(), side_outputs=LATE, **types, **options)

    def process_watermark(self, timestamp: int) -> None:
        self.process_watermark1(timestamp)
        self.process_watermark2(timestamp)


def joined(lower: int, upper: int, function: ProcessJoinFunction | None = None, **options: Any) -> JoinHarness:
    harness = JoinHarness(IntervalJoinOperation(lower, upper, function or Pair(), *LATE), **options)
    harness.open()
    return harness


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_elements_wait_in_state_for_as_long_as_something_may_match_them(backend: str) -> None:
    with joined(-2, 5, state_backend=backend) as harness:
        harness.process_element1(("a", 1), 10)
        harness.process_element2(("a", 2), 8)
        harness.process_element2(("a", 3), 7)
        harness.end_epoch()
        assert harness.extract_output() == [("a", 1, 2, 10, 8, 10)]
        entries, timers = harness.num_keyed_state_entries(), harness.num_event_time_timers()
        assert (entries, timers) == (6, 3)  # an element each, and a timer
        harness.process_watermark(9)  # the right one of 7 can match left ones up to 9
        harness.end_epoch()
        assert harness.num_event_time_timers() == 2
        harness.process_watermark(14)
        harness.end_epoch()
        assert harness.num_event_time_timers() == 1
        harness.process_element2(("a", 4), 15)
        assert harness.extract_output()[-1] == ("a", 1, 4, 10, 15, 15)
        harness.process_watermark(17)
        harness.end_epoch()
        assert harness.num_keyed_state_entries() == harness.num_event_time_timers() == 0


def test_an_element_after_the_watermark_goes_to_the_side_output_of_its_stream() -> None:
    with joined(-5, 5) as harness:
        harness.process_element1(("a", 1), 10)
        harness.process_watermark(11)
        harness.process_element1(("a", 2), 10)
        harness.process_element2(("a", 3), 10)
        harness.process_element2(("a", 4), 11)  # as old as the watermark: Flink takes it
        assert harness.get_side_output(LATE[0]) == [("a", 2)]
        assert harness.get_side_output(LATE[1]) == [("a", 3)]
        assert [result[:3] for result in harness.extract_output()] == [("a", 1, 4)]


def test_without_a_side_output_late_elements_are_counted() -> None:
    with JoinHarness(IntervalJoinOperation(0, 0, Pair())) as harness:
        harness.open()
        harness.process_watermark(11)
        harness.process_element1(("a", 2), 10)
        harness.process_element2(("a", 2), 10)
        assert harness.extract_output() == []
        assert harness.get_metrics()["numLateRecordsDropped"] == 2


def test_an_element_without_a_time_is_refused() -> None:
    with joined(0, 0) as harness, pytest.raises(RecordError, match="without a timestamp"):
        harness.process_element1(("a", 1))


class ToSide(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield LATE[0], "aside"
        yield "result"


def test_the_function_has_side_outputs() -> None:
    with joined(0, 0, ToSide()) as harness:
        harness.process_element1(("a", 1), 1)
        harness.process_element2(("a", 1), 1)
        assert harness.extract_output() == ["result"]
        assert harness.get_side_output(LATE[0]) == ["aside"]


class Model:
    """All elements in a list, (side, key, time, number); those that nothing can match any more go."""

    def __init__(self, lower: int, upper: int) -> None:
        self._lower, self._upper = lower, upper
        self.watermark = MIN_TIMESTAMP
        self.elements: list[tuple[int, str, int, int]] = []

    def copy(self) -> Model:
        other = Model(self._lower, self._upper)
        other.watermark, other.elements = self.watermark, list(self.elements)
        return other

    def element(self, side: int, key: str, time: int, number: int) -> list[Any] | None:
        """Return the pairs; None if it is late."""
        if time < self.watermark:
            return None
        pairs = []
        for other, its_key, its_time, its_number in self.elements:
            left, right = ((time, number), (its_time, its_number))[:: 1 if side == 0 else -1]
            if other != side and its_key == key and self._lower <= right[0] - left[0] <= self._upper:
                pairs.append((key, left[1], right[1], left[0], right[0], max(left[0], right[0])))
        self.elements.append((side, key, time, number))
        return pairs

    def advance(self, watermark: int) -> None:
        self.watermark = max(watermark, self.watermark)
        last = (self._upper, -self._lower)
        self.elements = [one for one in self.elements if one[2] + max(last[one[0]], 0) > self.watermark]


class WalkedJoin:
    """What an interval join is: for each element a walk over all that wait of its key on the other side, by their time."""

    def __init__(self, lower: int, upper: int) -> None:
        self._lower, self._upper = lower, upper
        self.waiting: list[tuple[int, str, int, int]] = []

    def element(self, side: int, key: str, time: int, number: int) -> list[Any]:
        pairs = []
        for _, _, its_time, its_number in sorted(
            (one for one in self.waiting if one[:2] == (1 - side, key)), key=itemgetter(2)
        ):
            left, right = ((time, number), (its_time, its_number))[:: 1 if side == 0 else -1]
            if self._lower <= right[0] - left[0] <= self._upper:
                pairs.append((key, left[1], right[1], left[0], right[0], max(left[0], right[0])))
        self.waiting.append((side, key, time, number))
        return pairs

    def advance(self, watermark: int) -> None:
        last = (max(self._upper, 0), max(-self._lower, 0))
        self.waiting = [one for one in self.waiting if one[2] + last[one[0]] > watermark]


@pytest.mark.parametrize("memory", ["0 b", "1 kb", "16 mb"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_pairs_come_in_the_order_of_a_walk_over_all_that_waits(backend: str, memory: str) -> None:
    """Those of one time as they came, however much is remembered of times, whichever epochs are rolled back."""
    chosen = Random(7)
    lower, upper = -3, 12
    options: Any = {"state_backend": backend, "job_parameters": {"pystate.state.window-memory": memory}}
    harness = joined(lower, upper, **options)
    model, watermark = WalkedJoin(lower, upper), 0
    kept = list(model.waiting), watermark
    snapshot = None
    for number in range(600):
        if chosen.random() < 0.9:
            side, key, time = chosen.randrange(2), chosen.choice("abcd"), watermark + 1 + chosen.randrange(20)
            (harness.process_element2 if side else harness.process_element1)((key, number), time)
            assert harness.extract_output() == model.element(side, key, time, number)
        elif chosen.random() < 0.6:
            watermark += chosen.randrange(6)
            harness.process_watermark(watermark)
            model.advance(watermark)
        elif chosen.random() < 0.3:
            harness.roll_back_epoch()
            model.waiting, watermark = list(kept[0]), kept[1]
        else:
            harness.end_epoch()
            kept = list(model.waiting), watermark
            if number > 300 and snapshot is None:
                snapshot = harness.snapshot(1)
                harness.close()
                harness = JoinHarness(IntervalJoinOperation(lower, upper, Pair(), *LATE), **options)
                harness.initialize_state(snapshot)
                harness.open()
                harness.process_watermark(watermark)
                harness.end_epoch()
        harness.clear_output()
    assert snapshot is not None
    harness.close()


def test_what_is_remembered_of_times_is_bounded() -> None:
    state: dict[int, Any] = {}
    times = BufferedTimes(state.keys, 2_000)
    for number in range(1_000):
        state.clear()
        state.update(dict.fromkeys(range(number, number + 20)))
        assert list(times.between(number, number + 5, number + 7)) == [number + 5, number + 6, number + 7]
        assert len(times._times) <= 5
    state.clear()
    assert list(times.between(999, 0, 2_000)) == list(range(999, 1_019))  # it is the last, and still known


STREAM = st.lists(
    st.one_of(
        st.tuples(st.just("element"), st.integers(0, 1), KEYS, st.integers(0, 20)),
        st.tuples(st.just("element"), st.integers(0, 1), KEYS, st.integers(0, 20)),
        st.tuples(st.just("watermark"), st.integers(-5, 22)),
        BETWEEN,
    ),
    min_size=15,
    max_size=50,
)


@in_short_and_at_length
def test_pairs_late_elements_and_state_are_those_of_the_model(*, at_length: bool) -> None:
    """Epochs end or are rolled back in between, and the job goes on elsewhere from a snapshot."""

    @of_test(EXAMPLES, at_length=at_length)
    @given(STREAM, PLACES, st.integers(-8, 8), st.integers(0, 8))
    def check(stream: list[Any], place: Any, lower: int, width: int) -> None:
        def make(**options: Any) -> JoinHarness:
            return JoinHarness(IntervalJoinOperation(lower, lower + width, Pair(), *LATE), **options)

        subtasks = Subtasks(make, place)
        model = Model(lower, lower + width)
        kept = model.copy()
        try:
            for number, (what, *arguments) in enumerate([*stream, ("watermark", MAX_TIMESTAMP), ("end",)]):
                pairs: list[Any] = []
                late: tuple[list[Any], list[Any]] = ([], [])
                if what == "element":
                    side, key, time = arguments
                    if time == model.watermark:
                        time += 1  # whether it is cleared at once or later is nobody's business
                    found = model.element(side, key, time, number)
                    pairs = found or []
                    if found is None:
                        late[side].append((key, number))
                    harness = subtasks.owner(key)
                    (harness.process_element2 if side else harness.process_element1)((key, number), time)
                elif what == "watermark":
                    model.advance(arguments[0])
                    subtasks.each(lambda harness: harness.process_watermark(arguments[0]))  # noqa: B023 - called at once
                elif what == "roll back":
                    subtasks.each(lambda harness: harness.roll_back_epoch())
                    model = kept.copy()
                else:
                    subtasks.each(lambda harness: harness.end_epoch())
                    if what == "restart":
                        subtasks.restart(arguments[0], model.watermark, 0)
                    kept = model.copy()
                    waiting = Counter((side, key, time) for side, key, time, _ in model.elements)
                    assert sum(harness.num_event_time_timers() for harness in subtasks.harnesses) == len(waiting)
                if what != "roll back":
                    assert subtasks.taken(lambda harness: harness.extract_output()) == sorted(pairs, key=repr)
                    for tag, elements in zip(LATE, late, strict=True):
                        assert subtasks.taken(lambda harness: harness.get_side_output(tag)) == elements  # noqa: B023
                subtasks.each(lambda harness: harness.clear_output())
            assert [harness.num_keyed_state_entries() for harness in subtasks.harnesses] == [0] * len(subtasks.harnesses)
        finally:
            subtasks.close()

    check()
