"""Windows: assigners, triggers, evictors, lateness, functions and their states, under the public harness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from pystate.common import Types
from pystate.common.errors import JobGraphError, RecordError, StateDeclarationError
from pystate.common.time import Time
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.output_tag import OutputTag
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from pystate.core.api.window.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)
from pystate.core.api.window.evictors import CountEvictor, DeltaEvictor, TimeEvictor
from pystate.core.api.window.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from pystate.core.api.window.window_functions import ProcessWindowFunction, WindowFunction
from pystate.core.api.window.windows import MAX_TIMESTAMP, CountWindow, GlobalWindow, TimeWindow
from pystate.testing import WindowOperatorTestHarness

ms = Time.milliseconds
LATE = OutputTag("late")
TYPED = Types.TUPLE([Types.STRING(), Types.LONG()])
BACKENDS = pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])


def key_of(value: Any) -> Any:
    return value[0]


class Collect(WindowFunction):
    """Emits the key, the window's bounds, and the sorted numbers in it."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterator[Any]:
        yield key, bounds(window), sorted(number for _, number in inputs)


def bounds(window: Any) -> Any:
    if isinstance(window, TimeWindow):
        return window.start, window.end
    return window.id if isinstance(window, CountWindow) else None


def windows(assigner: WindowAssigner, **options: Any) -> WindowOperatorTestHarness:
    options = {"window_function": Collect(), "input_type": TYPED, **options}
    harness = WindowOperatorTestHarness(assigner, key_of, Types.STRING(), **options)
    harness.open()
    return harness


def entries(harness: WindowOperatorTestHarness) -> int:
    harness.end_epoch()
    return harness.num_keyed_state_entries()


@BACKENDS
def test_tumbling_windows_fire_at_their_end_and_nothing_of_them_is_left(backend: str) -> None:
    with windows(TumblingEventTimeWindows.of(ms(10), ms(3)), state_backend=backend) as harness:
        harness.process_elements([("a", 3), ("a", 12), ("b", 13), ("a", 2)], [3, 12, 13, 2])
        harness.process_watermark(1)
        assert harness.extract_output() == []
        harness.process_watermark(2)
        assert harness.extract_output() == [("a", (-7, 3), [2])]
        harness.process_watermark(12)
        assert harness.extract_output()[1:] == [("a", (3, 13), [3, 12])]
        assert entries(harness) > 0
        harness.process_watermark(22)
        assert harness.extract_output()[2:] == [("b", (13, 23), [13])]
        assert entries(harness) == 0


def test_an_element_is_in_each_sliding_window_around_it() -> None:
    with windows(SlidingEventTimeWindows.of(ms(10), ms(4), ms(1))) as harness:
        harness.process_elements([("a", 5), ("a", 9)], [5, 9])
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.extract_output() == [
            ("a", (-3, 7), [5]),
            ("a", (1, 11), [5, 9]),
            ("a", (5, 15), [5, 9]),
            ("a", (9, 19), [9]),
        ]
        assert entries(harness) == 0
    with windows(SlidingEventTimeWindows.of(ms(2), ms(5))) as harness:  # between two windows there is none
        harness.process_elements([("a", 1), ("a", 2)], [1, 2])
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.extract_output() == [("a", (0, 2), [1])]


@BACKENDS
def test_windows_by_the_clock_ignore_the_times_of_elements(backend: str) -> None:
    with windows(TumblingProcessingTimeWindows.of(ms(10)), state_backend=backend) as harness:
        harness.set_processing_time(7)
        harness.process_elements([("a", 1), ("a", 2)], [100, None])
        harness.set_processing_time(10)
        harness.process_element(("a", 3))
        assert harness.extract_output() == [("a", (0, 10), [1, 2])]
        harness.process_watermark(MAX_TIMESTAMP)
        harness.set_processing_time(19)
        assert harness.extract_output()[1:] == [("a", (10, 20), [3])]
        assert entries(harness) == 0
    with windows(SlidingProcessingTimeWindows.of(ms(10), ms(5)), state_backend=backend) as harness:
        harness.set_processing_time(7)
        harness.process_element(("a", 1))
        harness.set_processing_time(100)
        assert harness.extract_output() == [("a", (0, 10), [1]), ("a", (5, 15), [1])]
        assert entries(harness) == 0


@BACKENDS
def test_sessions_merge_when_an_element_lies_between_them(backend: str) -> None:
    with windows(EventTimeSessionWindows.with_gap(ms(10)), state_backend=backend) as harness:
        harness.process_elements([("a", 0), ("a", 15), ("b", 5), ("a", 30)], [0, 15, 5, 30])
        assert harness.num_event_time_timers() == 4
        harness.end_epoch()
        harness.process_element(("a", 8), 8)  # from 8 to 18: both first sessions of a become one
        assert harness.num_event_time_timers() == 3
        harness.process_watermark(24)
        assert harness.extract_output() == [("b", (5, 15), [5]), ("a", (0, 25), [0, 8, 15])]
        harness.process_watermark(39)
        assert harness.extract_output()[2:] == [("a", (30, 40), [30])]
        assert entries(harness) == 0


def test_sessions_that_were_merged_leave_no_timers() -> None:
    with windows(EventTimeSessionWindows.with_gap(ms(10)), allowed_lateness=5) as harness:
        harness.process_elements([("a", 0), ("a", 15), ("a", 8)], [0, 15, 8])
        assert harness.num_event_time_timers() == 2, "that of the end, and that of the lateness"


def test_a_session_touches_the_one_that_begins_where_it_ends() -> None:
    with windows(EventTimeSessionWindows.with_gap(ms(10))) as harness:
        harness.process_elements([("a", 0), ("a", 10), ("b", 0), ("b", 11)], [0, 10, 0, 11])
        harness.process_watermark(MAX_TIMESTAMP)
        assert sorted(harness.extract_output()) == [("a", (0, 20), [0, 10]), ("b", (0, 10), [0]), ("b", (11, 21), [11])]


class GapOf(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        gap: int = element[1]
        return gap


@BACKENDS
def test_the_gap_of_a_session_may_depend_on_the_element(backend: str) -> None:
    with windows(EventTimeSessionWindows.with_dynamic_gap(GapOf()), state_backend=backend) as harness:
        harness.process_elements([("a", 10), ("a", 2), ("a", 3)], [0, 5, 11])
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.extract_output() == [("a", (0, 10), [2, 10]), ("a", (11, 14), [3])]
        with pytest.raises(RecordError, match="must be an integer above 0"):
            harness.process_element(("a", 0), 5)
    with windows(ProcessingTimeSessionWindows.with_dynamic_gap(GapOf()), state_backend=backend) as harness:
        harness.process_element(("a", 10))
        harness.set_processing_time(8)
        harness.process_element(("a", 5))
        harness.set_processing_time(12)
        assert harness.extract_output() == [("a", (0, 13), [5, 10])]
        assert entries(harness) == 0


def test_the_gap_of_a_session_may_be_an_integer_of_numpy() -> None:
    gap: Any = EventTimeSessionWindows.with_dynamic_gap(GapOf())
    assert type(gap.gap_of(("a", np.int64(3)))) is int
    with pytest.raises(RecordError, match="must be an integer above 0"):
        gap.gap_of(("a", 2.0))


def add(first: Any, second: Any) -> Any:
    return first[0], first[1] + second[1]


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Only(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        (only,) = elements
        yield key, bounds(context.window()), only


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
INCREMENTAL = pytest.mark.parametrize(
    ("options", "result"),
    [
        ({"reduce_function": add, "window_function": None}, [("a", 9)]),
        ({"reduce_function": add, "window_function": Only()}, [("a", (0, 10), ("a", 9))]),
        ({"aggregate_function": Mean(), "accumulator_type": PAIR, "window_function": None}, [3.0]),
        ({"aggregate_function": Mean(), "window_function": Only()}, [("a", (0, 10), 3.0)]),
    ],
)


@BACKENDS
@INCREMENTAL
def test_reduce_and_aggregate_keep_one_accumulator_per_window(backend: str, options: Any, result: Any) -> None:
    with windows(TumblingEventTimeWindows.of(ms(10)), state_backend=backend, **options) as harness:
        harness.process_elements([("a", 2), ("a", 3)], [2, 3])
        alone = entries(harness)
        harness.process_element(("a", 4), 4)
        assert entries(harness) == alone
        harness.process_watermark(9)
        assert harness.extract_output() == result
        assert entries(harness) == 0


@INCREMENTAL
def test_accumulators_of_sessions_are_merged(options: Any, result: Any) -> None:
    with windows(EventTimeSessionWindows.with_gap(ms(5)), **options) as harness:
        harness.process_elements([("a", 2), ("a", 4), ("a", 3)], [0, 5, 3])
        harness.process_watermark(MAX_TIMESTAMP)
        assert harness.extract_output() == result
        assert entries(harness) == 0


@BACKENDS
def test_a_late_element_fires_again_until_the_lateness_is_over_and_goes_to_the_side_output_then(backend: str) -> None:
    with windows(TumblingEventTimeWindows.of(ms(10)), allowed_lateness=5, late_tag=LATE, state_backend=backend) as harness:
        harness.process_element(("a", 1), 1)
        harness.process_watermark(9)
        harness.process_element(("a", 2), 2)
        assert harness.extract_output() == [("a", (0, 10), [1]), ("a", (0, 10), [1, 2])]
        harness.process_watermark(13)
        assert entries(harness) > 0
        harness.process_watermark(14)
        assert entries(harness) == 0
        harness.process_element(("a", 3), 3)
        assert (len(harness.extract_output()), harness.get_side_output(LATE)) == (2, [("a", 3)])
        assert entries(harness) == 0


def test_late_elements_are_counted_where_nobody_wants_them() -> None:
    with windows(EventTimeSessionWindows.with_gap(ms(10))) as harness:
        harness.process_watermark(100)
        harness.process_elements([("a", 1), ("a", 2), ("a", 95)], [1, 2, 95])
        assert harness.get_metrics()["numLateRecordsDropped"] == 2
        harness.process_element(("a", 86), 86)  # it is late, and part of a session that isn't
        harness.process_watermark(200)
        assert harness.extract_output() == [("a", (86, 105), [86, 95])]
        assert entries(harness) == 0


def test_an_element_without_a_time_is_refused_by_windows_of_event_time() -> None:
    for assigner in (TumblingEventTimeWindows.of(ms(5)), EventTimeSessionWindows.with_gap(ms(5))):
        with (
            windows(assigner) as harness,
            pytest.raises(RecordError, match="without a timestamp"),
        ):
            harness.process_element(("a", 1))


@BACKENDS
def test_count_windows_fire_when_they_are_full_and_keep_nothing_but_the_count(backend: str) -> None:
    with windows(CountTumblingWindowAssigner.of(3), state_backend=backend) as harness:
        harness.process_elements([("a", number) for number in range(7)])
        assert harness.extract_output() == [("a", 0, [0, 1, 2]), ("a", 1, [3, 4, 5])]
        harness.process_elements([("a", 7), ("a", 8)])
        assert entries(harness) == 1
    with windows(CountSlidingWindowAssigner.of(4, 2), state_backend=backend) as harness:
        harness.process_elements([("a", number) for number in range(8)])
        assert harness.extract_output() == [("a", 0, [0, 1, 2, 3]), ("a", 1, [2, 3, 4, 5]), ("a", 2, [4, 5, 6, 7])]
    with windows(CountSlidingWindowAssigner.of(1, 3), state_backend=backend) as harness:
        harness.process_elements([("a", number) for number in range(5)])
        assert harness.extract_output() == [("a", 0, [0]), ("a", 1, [3])]


def test_the_global_window_fires_by_its_trigger_alone() -> None:
    with windows(GlobalWindows.create()) as harness:
        harness.process_element(("a", 1))
        harness.process_watermark(MAX_TIMESTAMP)
        harness.set_processing_time(1 << 62)
        assert harness.extract_output() == []
    with windows(GlobalWindows.create(), trigger=CountTrigger.of(2)) as harness:
        harness.process_elements([("a", number) for number in range(4)])
        assert harness.extract_output() == [("a", None, [0, 1]), ("a", None, [0, 1, 2, 3])]
    with windows(GlobalWindows.create(), trigger=PurgingTrigger.of(CountTrigger.of(2))) as harness:
        harness.process_elements([("a", number) for number in range(4)])
        assert harness.extract_output() == [("a", None, [0, 1]), ("a", None, [2, 3])]
        assert entries(harness) == 0


def test_a_continuous_trigger_fires_at_multiples_of_its_interval() -> None:
    with windows(TumblingEventTimeWindows.of(ms(10)), trigger=ContinuousEventTimeTrigger.of(ms(4))) as harness:
        harness.process_element(("a", 1), 1)
        harness.process_watermark(4)
        harness.process_element(("a", 5), 5)
        harness.process_watermark(8)
        harness.process_watermark(MAX_TIMESTAMP)
        assert [numbers for _, _, numbers in harness.extract_output()] == [[1], [1, 5], [1, 5]]
        assert entries(harness) == 0
    with windows(GlobalWindows.create(), trigger=ContinuousProcessingTimeTrigger.of(ms(4))) as harness:
        harness.set_processing_time(1)
        harness.process_element(("a", 1))
        harness.set_processing_time(12)
        assert harness.extract_output() == [("a", None, [1])] * 3


def test_a_continuous_trigger_by_the_clock_goes_on_after_the_end_of_a_window_of_event_time() -> None:
    trigger = ContinuousProcessingTimeTrigger.of(ms(4))
    with windows(TumblingEventTimeWindows.of(ms(10)), trigger=trigger) as harness:
        harness.set_processing_time(1)
        harness.process_element(("a", 1), 1)
        fired = ("a", (0, 10), [1])
        for now, count in ((7, 1), (8, 2), (9, 3), (10, 3), (11, 3), (12, 4), (1000, 5)):  # nothing is made up for
            harness.set_processing_time(now)
            assert harness.extract_output() == [fired] * count
        harness.process_element(("b", 2), 2)
        assert harness.num_processing_time_timers() == 2
        harness.set_processing_time(1003)
        assert len(harness.extract_output()) == 5
        harness.process_watermark(9)
        assert entries(harness) == 0
        assert harness.num_processing_time_timers() == 0
    with windows(TumblingEventTimeWindows.of(ms(10)), trigger=trigger) as harness:
        harness.set_processing_time(1001)  # who comes late enough for the clock waits for the next multiple, too
        harness.process_element(("a", 1), 1)
        assert harness.extract_output() == []
        harness.set_processing_time(1004)
        assert harness.extract_output() == [fired]


def test_continuous_triggers_and_counts_go_on_where_sessions_merge() -> None:
    with windows(EventTimeSessionWindows.with_gap(ms(10)), trigger=ContinuousEventTimeTrigger.of(ms(6))) as harness:
        harness.process_elements([("a", 1), ("a", 14), ("a", 8)], [1, 14, 8])
        harness.process_watermark(6)
        assert harness.extract_output() == [("a", (1, 24), [1, 8, 14])]
        harness.process_watermark(MAX_TIMESTAMP)
        assert entries(harness) == 0
        assert harness.num_event_time_timers() == 0
    with windows(EventTimeSessionWindows.with_gap(ms(10)), trigger=CountTrigger.of(3)) as harness:
        harness.process_elements([("a", 1), ("a", 14), ("a", 8)], [1, 14, 8])
        assert harness.extract_output() == [("a", (1, 24), [1, 8, 14])]
    with windows(ProcessingTimeSessionWindows.with_gap(ms(10))) as harness:
        for now in (0, 8, 16):
            harness.set_processing_time(now)
            harness.process_element(("a", now))
        harness.set_processing_time(100)
        assert harness.extract_output() == [("a", (0, 26), [0, 8, 16])]


def test_the_triggers_say_what_they_do_and_whether_they_merge() -> None:
    merging = [EventTimeTrigger.create(), ProcessingTimeTrigger.create(), CountTrigger(1), PurgingTrigger(CountTrigger(1))]
    assert all(trigger.can_merge() for trigger in merging)
    assert not NeverTrigger().can_merge()
    assert [(one.is_fire(), one.is_purge()) for one in TriggerResult] == [one.value for one in TriggerResult]
    with pytest.raises(JobGraphError, match="no on_merge"):
        EveryOther().on_merge(TimeWindow(0, 1), None)  # type: ignore[arg-type]


class EveryOther(Trigger):
    """Fires and purges at every other element, and by the clock; keeps the parity per window."""

    parity = ValueStateDescriptor("parity", Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        state: Any = ctx.get_partitioned_state(self.parity)
        count = (state.value() or 0) + 1
        state.update(count % 2 or None)
        ctx.register_processing_time_timer(ctx.get_current_processing_time() + 5)
        ctx.get_metric_group().counter("seen").inc()
        return TriggerResult.CONTINUE if count % 2 else TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.PURGE

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self.parity).clear()
        ctx.delete_processing_time_timer(5)


@BACKENDS
def test_a_trigger_of_the_programs_own_keeps_state_per_window(backend: str) -> None:
    with windows(TumblingEventTimeWindows.of(ms(10)), trigger=EveryOther(), state_backend=backend) as harness:
        harness.process_elements([("a", 1), ("a", 11), ("a", 2), ("a", 12), ("a", 3)], [1, 11, 2, 12, 3])
        assert harness.extract_output() == [("a", (0, 10), [1, 2]), ("a", (10, 20), [11, 12])]
        assert harness.get_metrics()["seen"] == 5
        harness.set_processing_time(5)
        assert harness.extract_output()[2:] == [("a", (0, 10), [3])]
        harness.process_watermark(100)
        assert entries(harness) == 0


EVICTORS = [
    (CountEvictor.of(2), [[1, 2], [1, 2, 3][-2:], [3, 4]]),
    (CountEvictor.of(1, True), [[1, 2], [2, 3], [3, 4]]),  # noqa: FBT003 - Flink's signature
    (DeltaEvictor.of(2, lambda element, last: last[1] - element[1]), [[1, 2], [2, 3], [3, 4]]),
    (TimeEvictor.of(ms(10)), [[1, 2], [2, 3], [3, 4]]),
]


@BACKENDS
@pytest.mark.parametrize(("evictor", "expected"), EVICTORS)
def test_an_evictor_takes_elements_out(backend: str, evictor: Any, expected: Any) -> None:
    trigger = CountTrigger.of(1)
    with windows(GlobalWindows.create(), trigger=trigger, evictor=evictor, state_backend=backend) as harness:
        for number in (1, 2, 3, 4):
            harness.process_element(("a", number), 5 * number)
            harness.end_epoch()
        assert [numbers for _, _, numbers in harness.extract_output()][1:] == expected


def test_reduce_and_aggregate_of_a_window_with_an_evictor_see_what_it_leaves() -> None:
    window = {"trigger": CountTrigger.of(3), "evictor": CountEvictor.of(2), "window_function": None}
    for functions, result in (({"reduce_function": add}, ("a", 5)), ({"aggregate_function": Mean()}, 2.5)):
        with windows(GlobalWindows.create(), **window, **functions) as harness:
            harness.process_elements([("a", 1), ("a", 2), ("a", 3)])
            assert harness.extract_output() == [result]


class Remember(ProcessWindowFunction):
    """Emits how often the window fired, how often the key's windows did, and the time."""

    fired = ValueStateDescriptor("fired", Types.LONG())
    ever = ValueStateDescriptor("ever", Types.LONG())

    def __init__(self, *, clears: bool = True) -> None:
        self.clears = clears

    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
        counts = []
        for state in (context.window_state().get_state(self.fired), context.global_state().get_state(self.ever)):
            state.update((state.value() or 0) + 1)
            counts.append(state.value())
        yield bounds(context.window()), *counts, context.current_watermark(), context.current_processing_time()

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        if self.clears:
            context.window_state().get_state(self.fired).clear()


@BACKENDS
def test_a_window_has_state_of_its_own_beside_that_of_the_key(backend: str) -> None:
    options: dict[str, Any] = {"allowed_lateness": 10, "window_function": Remember(), "state_backend": backend}
    with windows(TumblingEventTimeWindows.of(ms(10)), **options) as harness:
        harness.set_processing_time(77)
        harness.process_elements([("a", 1), ("a", 11)], [1, 11])
        harness.process_watermark(9)
        harness.end_epoch()
        harness.process_element(("a", 2), 2)
        harness.process_watermark(20)
        assert harness.extract_output() == [
            ((0, 10), 1, 1, 9, 77),
            ((0, 10), 2, 2, 9, 77),
            ((10, 20), 1, 3, 20, 77),
        ]
        harness.process_watermark(100)
        assert entries(harness) == 1  # the key's


def test_sessions_have_no_state_of_their_own() -> None:
    with windows(EventTimeSessionWindows.with_gap(ms(10)), window_function=Remember()) as harness:
        harness.process_element(("a", 1), 1)
        with pytest.raises(StateDeclarationError, match="no state of their own"):
            harness.process_watermark(100)


def test_states_of_all_kinds_are_there_per_window() -> None:
    lists = ListStateDescriptor("list", Types.LONG())
    maps = MapStateDescriptor("map", Types.LONG(), Types.LONG())
    sums = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())

    class Kinds(ProcessWindowFunction):
        def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Iterable[Any]) -> Iterator[Any]:
            states = context.window_state()
            states.get_list_state(lists).add(1)
            states.get_map_state(maps).put(1, 2)
            states.get_reducing_state(sums).add(3)
            yield bounds(context.window()), list(states.get_list_state(lists)), dict(states.get_map_state(maps).items())

        def clear(self, context: ProcessWindowFunction.Context) -> None:
            states = context.window_state()
            for state in (states.get_list_state(lists), states.get_map_state(maps), states.get_reducing_state(sums)):
                state.clear()

    with windows(SlidingEventTimeWindows.of(ms(10), ms(5)), window_function=Kinds(), allowed_lateness=3) as harness:
        harness.process_element(("a", 7), 7)
        harness.process_watermark(9)
        assert entries(harness) > 5
        harness.process_watermark(100)
        assert harness.extract_output() == [((0, 10), [1], {1: 2}), ((5, 15), [1], {1: 2})]
        assert entries(harness) == 0


def test_a_window_is_its_content() -> None:
    assert TimeWindow(1, 2) == TimeWindow(1, 2) != TimeWindow(1, 3)
    assert hash(TimeWindow(1, 2)) == hash(TimeWindow(1, 2))
    assert sorted([TimeWindow(2, 3), TimeWindow(1, 9), TimeWindow(1, 2)])[0] == TimeWindow(1, 2)
    assert TimeWindow(1, 2) <= TimeWindow(1, 2)
    assert (CountWindow(1), GlobalWindow()) == (CountWindow(1), GlobalWindow.get())
    assert CountWindow(1) != CountWindow(2)
    assert TimeWindow(0, 10).cover(TimeWindow(5, 12)) == TimeWindow(0, 12)
    assert (TimeWindow(0, 10).max_timestamp(), CountWindow(1).max_timestamp()) == (9, MAX_TIMESTAMP)
    assert not TimeWindow(0, 10).intersects(TimeWindow(11, 12))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(ms(5), ms(5)),
        lambda: SlidingEventTimeWindows.of(ms(0), ms(5)),
        lambda: SlidingProcessingTimeWindows.of(ms(5), ms(5), ms(-5)),
        lambda: EventTimeSessionWindows.with_gap(ms(0)),
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: TumblingEventTimeWindows.of(5),  # type: ignore[arg-type]
    ],
)
def test_windows_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(JobGraphError):
        make()
