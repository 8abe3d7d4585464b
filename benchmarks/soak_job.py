"""The job of `benchmarks/soak.py`: keys that come and go, time to live, timers of both kinds, windows.

python soak_job.py ROWS_PER_SECOND

Element i has one of 5,000 keys, and each five elements one of them is replaced by a new one: at 1,000 elements a second a
key lives for 25 s, and 200 new ones come each second.
"""

import sys
import time

from pystate.common import Time, Types, WatermarkStrategy
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from pystate.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from pystate.datastream.window import TumblingEventTimeWindows

KEYS, ELEMENTS_PER_NEW_KEY = 5000, 5
TTL_S, TIMER_MS, WINDOW_S = 30, 5000, 5
ELEMENT = Types.TUPLE([Types.STRING(), Types.LONG()])


def element(number):
    """Return (key, ms)."""
    key = number // ELEMENTS_PER_NEW_KEY + number * 7919 % KEYS
    return f"key-{key:012d}", int(time.time() * 1000)


class TimeOfElement(TimestampAssigner):
    """When it was made."""

    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Churn(KeyedProcessFunction):
    """Counts with a time to live, and keeps the last elements until a processing-time timer clears them."""

    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(Time.seconds(TTL_S)).build()
        count = ValueStateDescriptor("count", Types.LONG())
        minutes = MapStateDescriptor("minutes", Types.LONG(), Types.LONG())
        for descriptor in (count, minutes):
            descriptor.enable_time_to_live(ttl)
        self.count = runtime_context.get_state(count)
        self.minutes = runtime_context.get_map_state(minutes)
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        minute = value[1] // 60_000
        self.minutes.put(minute, (self.minutes.get(minute) or 0) + 1)
        self.recent.add(value[1])
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() // 1000 * 1000 + 2 * TIMER_MS)
        timers.register_event_time_timer(value[1] // 1000 * 1000 + TIMER_MS)
        yield value[0][-3:], count

    def on_timer(self, timestamp, ctx):
        recent = [one for one in self.recent.get() if one > timestamp - TIMER_MS]
        if recent:
            self.recent.update(recent)
        else:
            self.recent.clear()
        return ()


class Count(AggregateFunction):
    """How many."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(element, 1 << 40, RateLimiterStrategy.per_second(float(sys.argv[1])), ELEMENT)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeOfElement())
    timed = env.from_source(source, times, "made").uid("made")
    counted = timed.key_by(lambda value: value[0], Types.STRING()).process(
        Churn(), Types.TUPLE([Types.STRING(), Types.LONG()])
    )
    windows = (
        counted.uid("churn")
        .key_by(lambda value: value[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(WINDOW_S)))
    )
    windows.aggregate(Count(), accumulator_type=Types.LONG(), output_type=Types.LONG()).uid("windows").print()
    env.execute("soak")


if __name__ == "__main__":
    main()
