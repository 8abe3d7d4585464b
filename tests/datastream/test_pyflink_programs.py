"""A program with the calls of PyFlink's example programs, by PyFlink's module paths, in one process without Spark.

The same program in a real PyFlink 2.3.0 gives the same answers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

from pystate.common import Duration, Time, WatermarkStrategy
from pystate.common.typeinfo import Types
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.core.api.executor import register_executor
from pystate.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from pystate.datastream.functions import KeyedProcessFunction, RuntimeContext
from pystate.datastream.state import StateTtlConfig, ValueStateDescriptor
from pystate.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from tests.fidelity.in_process import InProcessExecutor

READING = Types.TUPLE([Types.STRING(), Types.INT()])
COUNTED = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()])
READINGS = [("tap", 1), ("tap", 2), ("tap", 4), ("tap", 9), ("tap", 10), ("tap", 17)]
ORDERS = [(1, '{"city": "Ulm", "sum": 3}'), (2, '{"city": "Bonn", "sum": 5}'), (3, '{"city": "Ulm", "sum": 4}')]


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[1])


class AsLongAsItsTime(SessionWindowTimeGapExtractor):
    def extract(self, element: tuple) -> int:
        return element[1]


class Count(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[tuple]
    ) -> Iterable[tuple]:
        return [(key, context.window().start, context.window().end, len(list(elements)))]


class Total(WindowFunction[tuple, tuple, str, CountWindow]):
    def apply(self, key: str, window: CountWindow, inputs: Iterable[tuple]):
        return [(key, sum(element[1] for element in inputs))]


class Balance(KeyedProcessFunction):
    def __init__(self):
        self.state = None

    def open(self, runtime_context: RuntimeContext):
        descriptor = ValueStateDescriptor("balance", Types.LONG())
        builder = StateTtlConfig.new_builder(Time.hours(1)).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        descriptor.enable_time_to_live(builder.disable_cleanup_in_background().build())
        self.state = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        self.state.update((self.state.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext):
        yield ctx.get_current_key(), timestamp, self.state.value()


@pytest.fixture
def in_process() -> Iterator[None]:
    register_executor(InProcessExecutor())
    yield
    register_executor(None)


def test_the_calls_of_the_shipped_examples_give_pyflinks_answers(in_process):
    found = defaultdict(list)

    def run():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)

        def collect(name, stream):
            stream.for_each_batch(lambda frame, epoch: found[name].extend(tuple(row) for row in frame.collect()))

        readings = env.from_collection(READINGS, type_info=READING)
        timed = readings.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
        ).key_by(lambda reading: reading[0], key_type=Types.STRING())
        assigners = {
            "tumbling": TumblingEventTimeWindows.of(Time.milliseconds(5)),
            "sliding": SlidingEventTimeWindows.of(Time.milliseconds(6), Time.milliseconds(3)),
            "session": EventTimeSessionWindows.with_gap(Time.milliseconds(4)),
            "dynamic": EventTimeSessionWindows.with_dynamic_gap(AsLongAsItsTime()),
        }
        for name, assigner in assigners.items():
            collect(name, timed.window(assigner).process(Count(), COUNTED))
        keyed = readings.key_by(lambda reading: reading[0], key_type=Types.STRING())
        collect("count", keyed.count_window(2).apply(Total(), READING))
        late = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(Second())
        balances = readings.assign_timestamps_and_watermarks(late).key_by(lambda reading: reading[0])
        collect("timers", balances.process(Balance(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])))

        orders = env.from_collection(
            collection=ORDERS, type_info=Types.ROW_NAMED(["id", "info"], [Types.INT(), Types.STRING()])
        )
        cities = orders.map(lambda order: (json.loads(order.info)["city"], json.loads(order.info)["sum"]))
        big = cities.filter(lambda city: city[1] > 3).map(lambda city: city, output_type=READING)
        collect("filter", big)
        collect("sum", cities.key_by(lambda city: city[0]).sum(1).map(lambda city: city, output_type=READING))
        words = env.from_collection(["to be or", "not to be"]).flat_map(lambda line: line.split())
        pairs = words.map(lambda word: (word, 1), output_type=READING)
        collect("words", pairs.key_by(lambda pair: pair[0]).reduce(lambda one, two: (one[0], one[1] + two[1])))
        env.execute()

    run()
    windows = {name: [row[1:] for row in found[name]] for name in ("tumbling", "sliding", "session", "dynamic")}
    assert windows["tumbling"] == [(0, 5, 3), (5, 10, 1), (10, 15, 1), (15, 20, 1)]
    assert windows["sliding"] == [(-3, 3, 2), (0, 6, 3), (3, 9, 1), (6, 12, 2), (9, 15, 2), (12, 18, 1), (15, 21, 1)]
    assert windows["session"] == [(1, 8, 3), (9, 14, 2), (17, 21, 1)]
    assert windows["dynamic"] == [(1, 8, 3), (9, 34, 3)]
    assert found["count"] == [("tap", 3), ("tap", 13), ("tap", 27)]
    assert found["timers"] == [("tap", at + 100, 43) for _, at in READINGS]
    assert found["filter"] == [("Bonn", 5), ("Ulm", 4)]
    assert found["sum"] == [("Ulm", 3), ("Bonn", 5), ("Ulm", 7)]
    assert sorted(found["words"]) == [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)]
