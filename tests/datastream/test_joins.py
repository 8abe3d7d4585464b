"""Joins of two streams in a program, against all pairs of their elements; and what they refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Row, Types, WatermarkStrategy
from pystate.common.errors import JobGraphError
from pystate.common.time import Duration, Time
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.core.api.executor import current_executor, register_executor
from pystate.datastream import (
    CheckpointedFunction,
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    KeySelector,
    OutputTag,
    ProcessFunction,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from pystate.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from tests.fidelity.in_process import InProcessExecutor

CLICK = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
ms = Time.milliseconds
TUMBLING = TumblingEventTimeWindows.of(ms(10))
Element = tuple[str, int, int]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value[1]
        return time


class FirstField(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


def key_of(value: Any) -> Any:
    return value[0]


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


Build = Callable[[StreamExecutionEnvironment, DataStream, DataStream], DataStream]


def streams(env: StreamExecutionEnvironment, first: list[Any], second: list[Any], types: Any) -> list[DataStream]:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    timed = strategy.with_timestamp_assigner(SecondField())
    return [
        env.from_collection(elements, type_info).assign_timestamps_and_watermarks(timed)
        for elements, type_info in zip((first, second), types, strict=True)
    ]


def results(
    build: Callable[[DataStream, DataStream], DataStream],
    first: list[Any],
    second: list[Any],
    types: Any = (CLICK, CLICK),
    parallelism: int = 2,
    rows_per_epoch: int = 2,
) -> Counter[str]:
    """Run a program in one process, and return what it prints."""
    before, found = current_executor(), []

    def take(frame: Any, epoch: int) -> None:
        found.extend(row[0] for row in frame.collect())

    register_executor(InProcessExecutor(parallelism, rows_per_epoch))
    try:
        env = StreamExecutionEnvironment.get_execution_environment()
        build(*streams(env, first, second, types)).map(repr, Types.STRING()).for_each_batch(take)
        env.execute()
    finally:
        register_executor(before)
    return Counter(found)


def expected(pairs: Iterable[Any]) -> Counter[str]:
    return Counter(map(repr, pairs))


class Numbers(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first[2], second[2]


class Odd(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterator[Any]:
        if (first[2] + second[2]) % 2:
            yield first[2], second[2]


class Groups(CoGroupFunction):
    def co_group(self, first: list[Any], second: list[Any]) -> Iterator[Any]:
        yield [sorted(element[2] for element in part) for part in (first, second)]


class WithTimes(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp()


class Close(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        yield left[2], right[2]


ELEMENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=12)


@settings(max_examples=15)
@given(ELEMENTS, ELEMENTS)
def test_a_join_in_windows_gives_each_pair_of_a_window(first: list[Element], second: list[Element]) -> None:
    def sliding(one: DataStream, other: DataStream) -> DataStream:
        windows = SlidingEventTimeWindows.of(ms(20), ms(10))
        return one.join(other).where(key_of, Types.STRING()).equal_to(key_of).window(windows).apply(Numbers())

    def shared(one: Element, other: Element) -> int:
        """Return how many windows both are in: a window per decade of its start."""
        starts = [{time // 10, time // 10 - 1} for _, time, _ in (one, other)]
        return len(starts[0] & starts[1])

    pairs = [(a[2], b[2]) for a in first for b in second if a[0] == b[0] for _ in range(shared(a, b))]
    assert results(sliding, first, second) == expected(pairs)


@settings(max_examples=15)
@given(ELEMENTS, ELEMENTS, st.integers(-20, 20), st.integers(0, 20), st.booleans(), st.booleans())
def test_an_interval_join_gives_each_pair_that_is_close(
    first: list[Element], second: list[Element], lower: int, width: int, above: bool, below: bool
) -> None:
    def close(one: DataStream, other: DataStream) -> DataStream:
        left, right = (stream.key_by(key_of, Types.STRING()) for stream in (one, other))
        joined = left.interval_join(right).in_event_time().between(ms(lower), Duration.of_millis(lower + width))
        joined = joined.lower_bound_exclusive() if above else joined
        joined = joined.upper_bound_exclusive() if below else joined
        return joined.process(Close(), Types.TUPLE([Types.LONG(), Types.LONG()])).process(WithTimes())

    pairs = [
        ((a[2], b[2]), max(a[1], b[1]))
        for a in first
        for b in second
        if a[0] == b[0] and lower + above <= b[1] - a[1] <= lower + width - below
    ]
    assert results(close, first, second) == expected(pairs)


FIRST = [("a", 1, 1), ("a", 2, 2), ("b", 3, 3), ("a", 11, 4)]
SECOND = [("a", 5, 5), ("a", 6, 6), ("c", 7, 7), ("b", 25, 8)]


def test_co_group_gets_the_elements_of_both_streams_and_empty_lists() -> None:
    def grouped(one: DataStream, other: DataStream) -> DataStream:
        windows = one.co_group(other).where(FirstField(), Types.STRING()).equal_to(FirstField()).window(TUMBLING)
        return windows.allowed_lateness(5).apply(Groups()).process(WithTimes())

    groups = [([[1, 2], [5, 6]], 9), ([[3], []], 9), ([[], [7]], 9), ([[4], []], 19), ([[], [8]], 29)]
    assert results(grouped, FIRST, SECOND) == expected(groups)


@pytest.mark.parametrize("types", [(CLICK, CLICK), (None, CLICK), (None, None)])
def test_elements_may_be_of_any_type(types: Any) -> None:
    def joined(one: DataStream, other: DataStream) -> DataStream:
        keyed = one.key_by(key_of)  # another key counts in a join
        return keyed.join(other).where(key_of).equal_to(key_of).window(TUMBLING).apply(Odd())

    assert results(joined, FIRST, SECOND, types) == expected([(1, 6), (2, 5)])


def test_a_key_may_be_a_column_and_a_join_function_a_plain_one() -> None:
    row = Types.ROW_NAMED(["word", "time", "n"], [Types.STRING(), Types.LONG(), Types.LONG()])

    def joined(one: DataStream, other: DataStream) -> DataStream:
        windows = one.join(other).where("word", Types.STRING()).equal_to("word").window(TUMBLING)
        return windows.apply(lambda first, second: (first.n, second.n))

    found = results(joined, [Row(*one) for one in FIRST], [Row(*one) for one in SECOND], (row, row))
    assert found == expected([(1, 5), (1, 6), (2, 5), (2, 6)])


def test_triggers_and_evictors_see_the_elements_of_both_streams() -> None:
    def grouped(one: DataStream, other: DataStream) -> DataStream:
        windows = one.co_group(other).where(key_of, Types.STRING()).equal_to(key_of).window(GlobalWindows.create())
        return windows.trigger(PurgingTrigger.of(CountTrigger.of(4))).evictor(CountEvictor.of(3)).apply(Groups())

    first, second = [("a", 1, 1), ("a", 2, 2)], [("a", 3, 3), ("a", 4, 4)]
    assert results(grouped, first, second, rows_per_epoch=100) == expected([[[2], [3, 4]]])


def test_sessions_merge_over_both_streams() -> None:
    def grouped(one: DataStream, other: DataStream) -> DataStream:
        windows = one.co_group(other).where(key_of, Types.STRING()).equal_to(key_of)
        return windows.window(EventTimeSessionWindows.with_gap(ms(5))).apply(Groups())

    first, second = [("a", 1, 1), ("a", 9, 2), ("a", 30, 3)], [("a", 5, 4), ("a", 40, 5)]
    assert results(grouped, first, second) == expected([[[1, 2], [4]], [[3], []], [[], [5]]])


class Checkpointed(Groups, CheckpointedFunction):
    def snapshot_state(self, context: Any) -> None:
        """Do nothing."""

    def initialize_state(self, context: Any) -> None:
        """Do nothing."""


def test_what_is_no_join_is_refused_when_the_program_is_built(env: StreamExecutionEnvironment) -> None:
    one, other = streams(env, FIRST, SECOND, (CLICK, CLICK))
    foreign = StreamExecutionEnvironment.get_execution_environment().from_collection(FIRST, CLICK)
    left, right = one.key_by(key_of), other.key_by(key_of)
    close = left.interval_join(right).between(ms(0), ms(1))
    windows = one.join(other).where(key_of).equal_to(key_of).window(TUMBLING)
    groups = one.co_group(other).where(key_of).equal_to(key_of).window(TUMBLING)
    for attempt, message in [
        (lambda: left.interval_join(other), "takes a keyed stream"),
        (lambda: left.interval_join(foreign.key_by(key_of)), "same environment"),
        (lambda: left.interval_join(right).between(ms(2), ms(1)), "above its upper bound"),
        (lambda: left.interval_join(right).between(1, 2), "is a Time"),
        (lambda: left.interval_join(right).in_processing_time(), "event time only"),
        (lambda: close.process(Numbers()), "takes a ProcessJoinFunction"),
        (lambda: close.side_output_left_late_data("late"), "takes an OutputTag"),
        (lambda: one.join(foreign), "same environment"),
        (lambda: one.join(other).where(3), "the name of a column"),
        (lambda: one.join(other).where(key_of, Types.LONG()).equal_to(key_of, Types.STRING()), "of one type"),
        (lambda: windows.apply(Groups()), "takes a JoinFunction"),
        (lambda: groups.apply(Numbers()), "takes a CoGroupFunction"),
        (lambda: groups.apply(Checkpointed()), "takes no part in checkpoints"),
    ]:
        with pytest.raises(JobGraphError, match=message):
            attempt()


def test_late_elements_of_an_interval_join_have_side_outputs(env: StreamExecutionEnvironment) -> None:
    one, other = streams(env, FIRST, SECOND, (CLICK, CLICK))
    late = OutputTag("late", CLICK)
    joined = one.key_by(key_of).interval_join(other.key_by(key_of)).between(ms(0), ms(1))
    stream = joined.side_output_left_late_data(late).side_output_right_late_data(late).process(Close())
    assert stream.get_side_output(late).get_type() == CLICK
