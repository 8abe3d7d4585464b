"""Which programs wait for event time that never advances, and which ones only look like it."""

from __future__ import annotations

import pytest

from pystate.common import Duration, Time, WatermarkStrategy
from pystate.connectors.operators.source_operator import SourceOperator
from pystate.connectors.source import SourceFunction
from pystate.core.api.interval_join_operation import IntervalJoinOperation
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.stream_graph import StreamGraph
from pystate.core.api.transformations import (
    OneInputTransformation,
    OwnSourceTransformation,
    TimestampsTransformation,
    TwoInputTransformation,
)
from pystate.core.api.window.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pystate.core.api.window.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    PurgingTrigger,
)
from pystate.core.api.window.window_operation import WindowOperation
from pystate.datastream import KeyedCoProcessFunction, KeyedProcessFunction
from pystate.datastream.connectors.number_seq import NumberSequenceSource
from pystate.runtime.plan.missing_watermarks import missing_watermarks
from tests.runtime.plan.programs import keyed, mapped, printed, source, united

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
NONE = WatermarkStrategy.no_watermarks()


class EventTimers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        def later():
            ctx.timer_service().register_event_time_timer(1)

        later()

    def on_timer(self, timestamp, ctx):
        yield timestamp


class ProcessingTimers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(1)

    def on_timer(self, timestamp, ctx):
        yield timestamp


class NoTimers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class JoinedTimers(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def process_element2(self, value, ctx):
        pass

    def on_timer(self, timestamp, ctx):
        yield timestamp


def step(parent, function):
    kind = OperatorKind.WINDOW if isinstance(function, WindowOperation) else OperatorKind.PROCESS
    return OneInputTransformation("late", (keyed(parent, selector=len),), kind=kind, function=function, keyed=True)


def window(assigner, trigger=None):
    return WindowOperation(assigner, trigger or assigner.get_default_trigger(None), reduce_function=max)


def timed(parent, strategy):
    return TimestampsTransformation("times", (parent,), kind=OperatorKind.ASSIGN_TIMESTAMPS, function=strategy)


def told(*roots, batch=False):
    graph = StreamGraph(list(roots))
    graph.batch = batch
    return [one.message for one in missing_watermarks(graph)]


WAITS = [
    (EventTimers(), "its event-time timers never fire"),
    (window(TumblingEventTimeWindows.of(Time.seconds(1))), "its windows never end"),
    (window(TumblingEventTimeWindows.of(Time.seconds(1)), CountTrigger(3)), "its windows never end"),
    (window(EventTimeSessionWindows.with_gap(Time.seconds(1))), "its windows never end"),
    (
        window(GlobalWindows.create(), PurgingTrigger.of(ContinuousEventTimeTrigger.of(Time.seconds(1)))),
        "its windows never end",
    ),
]
WAITS_NOT = [
    ProcessingTimers(),
    NoTimers(),
    window(TumblingProcessingTimeWindows.of(Time.seconds(1))),
    window(ProcessingTimeSessionWindows.with_gap(Time.seconds(1))),
    window(CountTumblingWindowAssigner.of(3), CountTrigger(3)),
    window(GlobalWindows.create(), CountTrigger(3)),
    window(GlobalWindows.create(), ContinuousProcessingTimeTrigger.of(Time.seconds(1))),
]


@pytest.mark.parametrize(("function", "what"), WAITS)
@pytest.mark.parametrize("strategy", [None, NONE])
def test_what_waits_for_a_stream_without_watermarks_is_told(function, what, strategy):
    root = source("words", watermark_strategy=strategy)
    printed(step(mapped(root), function))
    assert told(root) == [
        f"'late' waits for the event time of all streams that it reads, and 'words' has no watermarks: {what}."
    ]


@pytest.mark.parametrize("function", WAITS_NOT)
def test_what_waits_for_no_watermark_is_not_told(function):
    root = source("words")
    printed(step(root, function))
    assert told(root) == []


@pytest.mark.parametrize("function", [function for function, _ in WAITS])
def test_watermarks_on_the_way_are_enough(function):
    first, second = source("words", watermark_strategy=BOUNDED), source("words")
    printed(step(mapped(first), function))
    printed(step(step(timed(second, BOUNDED), NoTimers()), function))
    assert told(first, second) == []


def test_a_stream_that_ends_and_batch_mode_wait_for_nothing():
    ending, collection, endless = source("a", bounded=True), source("b", collection=[], bounded=True), source("c")
    for root in (ending, collection, endless):
        printed(step(root, EventTimers()))
    assert told(ending, collection) == []
    assert told(endless) != []
    assert told(endless, batch=True) == []


def test_each_of_several_streams_must_have_watermarks():
    first, second, third = source("a", watermark_strategy=BOUNDED), source("b"), source("c")
    printed(step(united(first, third, second), EventTimers()))
    assert told(first, second, third) == [
        "'late' waits for the event time of all streams that it reads, and 'b' and 'c' have no watermarks: "
        "its event-time timers never fire."
    ]


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (JoinedTimers(), "its event-time timers never fire"),
        (IntervalJoinOperation.__new__(IntervalJoinOperation), "it keeps every element forever"),
    ],
)
def test_the_second_stream_of_a_join_counts(function, what):
    first, second = source("a", watermark_strategy=BOUNDED), source("rules")
    kind = OperatorKind.INTERVAL_JOIN if isinstance(function, IntervalJoinOperation) else OperatorKind.KEYED_CO_PROCESS
    parents = keyed(first, selector=len), keyed(second, selector=len)
    printed(TwoInputTransformation("both", parents, kind=kind, function=function, keyed=True))
    assert told(first, second) == [
        f"'both' waits for the event time of all streams that it reads, and 'rules' has no watermarks: {what}."
    ]


class SilentSource(SourceFunction):
    def run(self, ctx):
        ctx.collect(1)

    def cancel(self):
        pass


def own(function, **options):
    return OwnSourceTransformation("own", function=SourceOperator(function), **options)


def test_a_source_of_the_program_may_make_watermarks_itself():
    root = own(SilentSource())  # this file has the name emit_watermark
    printed(step(root, EventTimers()))
    assert told(root) == []


def test_a_source_of_ours_makes_none():
    root = own(NumberSequenceSource(1, 2))
    printed(step(root, EventTimers()))
    assert told(root) != []
    ending = own(NumberSequenceSource(1, 2), bounded=True)
    printed(step(ending, EventTimers()))
    assert told(ending) == []


def test_the_sentence_says_where_and_what_to_add():
    root = source("words")
    printed(step(root, EventTimers()))
    (one,) = missing_watermarks(StreamGraph([root]))
    one.step.place = "job.py, line 7"
    assert "(job.py, line 7) Try: give the source a WatermarkStrategy" in str(one)
