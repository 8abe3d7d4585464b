"""Windows of streams without a key, and count windows with all that reduces them."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction
from pyflink.datastream.functions import ProcessAllWindowFunction, ProcessWindowFunction
from pyflink.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 100), ("b", 200), ("a", 1100), ("c", 1200), ("a", 2500), ("b", 2600), ("c", 2700), ("a", 6000), ("b", 6001)]
TEXT = Types.STRING()


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _timed(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    return env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def _plain(env):
    return env.from_collection(PAIRS, PAIR)


class Contents(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"{context.window().start} {context.window().end} {sorted(elements)}"


class Values(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"{sorted(elements)}"


class OfKey(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {sorted(elements)}"


def together(one, other):
    return min(one[0], other[0]), one[1] + other[1]


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):
        return f"{accumulator[0]} {accumulator[1]}"

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


ACCUMULATOR = Types.TUPLE([Types.LONG(), Types.LONG()])


def all_reduce(env):
    return _timed(env).window_all(TumblingEventTimeWindows.of(Time.seconds(2))).reduce(together)


def all_reduce_with_window(env):
    windows = _timed(env).window_all(TumblingEventTimeWindows.of(Time.seconds(2)))
    return windows.reduce(together, window_function=Contents(), output_type=TEXT)


def all_aggregate_with_window(env):
    windows = _timed(env).window_all(TumblingEventTimeWindows.of(Time.seconds(3), Time.milliseconds(500)))
    return windows.aggregate(Total(), window_function=Contents(), accumulator_type=ACCUMULATOR, output_type=TEXT)


def all_sliding(env):
    return _timed(env).window_all(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))).process(Contents(), TEXT)


def all_sessions_reduce(env):
    windows = _timed(env).window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(1000)))
    return windows.reduce(together, window_function=Contents(), output_type=TEXT)


def all_by_count(env):
    return _plain(env).window_all(CountTumblingWindowAssigner.of(4)).process(Values(), TEXT)


def all_by_count_sliding(env):
    return _plain(env).window_all(CountSlidingWindowAssigner.of(4, 3)).process(Values(), TEXT)


def all_global_purging(env):
    windows = _plain(env).window_all(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return windows.reduce(together)


def all_after_keyed_windows(env):
    keyed = _timed(env).key_by(lambda value: value[0], TEXT).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return keyed.reduce(together).window_all(TumblingEventTimeWindows.of(Time.seconds(3))).process(Contents(), TEXT)


def all_count_trigger(env):
    windows = _timed(env).window_all(TumblingEventTimeWindows.of(Time.seconds(3))).trigger(CountTrigger.of(2))
    return windows.aggregate(Total(), accumulator_type=ACCUMULATOR, output_type=TEXT)


def _keyed(env):
    return _plain(env).key_by(lambda value: value[0], TEXT)


def count_window_aggregate(env):
    return _keyed(env).count_window(2).aggregate(Total(), accumulator_type=ACCUMULATOR, output_type=TEXT)


def count_window_aggregate_with_window(env):
    windows = _keyed(env).count_window(3)
    return windows.aggregate(Total(), window_function=OfKey(), accumulator_type=ACCUMULATOR, output_type=TEXT)


def count_window_reduce_with_window(env):
    return _keyed(env).count_window(2).reduce(together, window_function=OfKey(), output_type=TEXT)


def count_window_sliding_reduce(env):
    return _keyed(env).count_window(3, 1).reduce(together)


def count_window_sliding_aggregate(env):
    return _keyed(env).count_window(2, 1).aggregate(Total(), accumulator_type=ACCUMULATOR, output_type=TEXT)


def count_window_of_one(env):
    return _keyed(env).count_window(1).process(OfKey(), TEXT)


def count_window_untyped(env):
    return env.from_collection(PAIRS).key_by(lambda value: value[0]).count_window(2).process(OfKey(), TEXT)


ONE_SUBTASK = ("all_count_trigger",)
BATCH = ("all_reduce", "all_sliding", "all_by_count", "count_window_aggregate", "count_window_sliding_reduce")
