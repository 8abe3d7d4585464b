"""Windows of event time over input in which nothing is late: every assigner, and every way to reduce what is in a window."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction
from pyflink.datastream.functions import AllWindowFunction, ProcessAllWindowFunction, ProcessWindowFunction, WindowFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

CLICK = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
CLICKS = [
    ("a", 0, 1),
    ("b", 400, 2),
    ("a", 999, 3),
    ("a", 1000, 4),
    ("c", 1500, 5),
    ("b", 2300, 6),
    ("a", 2999, 7),
    ("b", 3000, 8),
    ("c", 3001, 9),
    ("a", 7200, 10),
    ("b", 7777, 11),
    ("c", 9999, 12),
    ("c", 10000, 13),
]
RESULT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def clicks(env, elements=CLICKS):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    timed = env.from_collection(elements, CLICK).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )
    return timed.key_by(lambda value: value[0], Types.STRING())


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, " ".join(str(one) for one in sorted(element[2] for element in elements))


class Numbers(WindowFunction):
    def apply(self, key, window, inputs):
        yield key, window.start, window.end, " ".join(str(one) for one in sorted(element[2] for element in inputs))


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return accumulator * 10

    def merge(self, one, other):
        return one + other


class OfResult(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, context.window().max_timestamp(), str(list(elements))


def tumbling_process(env):
    return clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Contents(), RESULT)


def tumbling_with_offset(env):
    windows = TumblingEventTimeWindows.of(Time.seconds(3), Time.milliseconds(500))
    return clicks(env).window(windows).process(Contents(), RESULT)


def tumbling_with_negative_offset(env):
    windows = TumblingEventTimeWindows.of(Time.seconds(3), Time.milliseconds(-500))
    return clicks(env).window(windows).process(Contents(), RESULT)


def tumbling_before_1970(env):
    early = [("a", -1, 1), ("a", -1000, 2), ("a", -1001, 3), ("a", 0, 4)]
    return clicks(env, early).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Contents(), RESULT)


def tumbling_apply(env):
    return clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(5))).apply(Numbers(), RESULT)


def tumbling_reduce(env):
    windows = clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    return windows.reduce(lambda one, other: (one[0], max(one[1], other[1]), one[2] + other[2]))


def tumbling_reduce_with_window(env):
    windows = clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    return windows.reduce(
        lambda one, other: (one[0], max(one[1], other[1]), one[2] + other[2]), window_function=Contents(), output_type=RESULT
    )


def tumbling_aggregate(env):
    windows = clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    return windows.aggregate(Total(), accumulator_type=Types.LONG(), output_type=Types.LONG())


def tumbling_aggregate_with_window(env):
    windows = clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    return windows.aggregate(Total(), window_function=OfResult(), accumulator_type=Types.LONG(), output_type=RESULT)


def sliding(env):
    return clicks(env).window(SlidingEventTimeWindows.of(Time.seconds(3), Time.seconds(1))).process(Contents(), RESULT)


def sliding_with_offset(env):
    windows = SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2), Time.milliseconds(700))
    return (
        clicks(env)
        .window(windows)
        .reduce(
            lambda one, other: (one[0], max(one[1], other[1]), one[2] + other[2]),
            window_function=Contents(),
            output_type=RESULT,
        )
    )


def sliding_aggregate(env):
    windows = clicks(env).window(SlidingEventTimeWindows.of(Time.seconds(6), Time.seconds(4)))
    return windows.aggregate(Total(), window_function=OfResult(), accumulator_type=Types.LONG(), output_type=RESULT)


def session(env):
    return clicks(env).window(EventTimeSessionWindows.with_gap(Time.seconds(2))).process(Contents(), RESULT)


def session_reduce(env):
    windows = clicks(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(1500)))
    return windows.reduce(lambda one, other: (one[0], max(one[1], other[1]), one[2] + other[2]))


def session_aggregate_that_merges(env):
    apart = [("a", 0, 1), ("a", 4000, 2), ("a", 2000, 4), ("b", 1000, 8), ("a", 9000, 16), ("a", 6999, 32), ("b", 3000, 64)]
    windows = clicks(env, apart).window(EventTimeSessionWindows.with_gap(Time.milliseconds(2001)))
    return windows.aggregate(Total(), window_function=OfResult(), accumulator_type=Types.LONG(), output_type=RESULT)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 100 * element[2]


def session_with_dynamic_gap(env):
    return clicks(env).window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Contents(), RESULT)


class AllNumbers(ProcessAllWindowFunction):
    def process(self, context, elements):
        window = context.window()
        yield "all", window.start, window.end, " ".join(str(one) for one in sorted(element[2] for element in elements))


class AllApplied(AllWindowFunction):
    def apply(self, window, inputs):
        yield "all", window.start, window.end, " ".join(str(one) for one in sorted(element[2] for element in inputs))


def window_all_process(env):
    timed = clicks(env).map(lambda value: value, CLICK)
    return timed.window_all(TumblingEventTimeWindows.of(Time.seconds(2))).process(AllNumbers(), RESULT)


def window_all_apply(env):
    timed = clicks(env).map(lambda value: value, CLICK)
    return timed.window_all(EventTimeSessionWindows.with_gap(Time.seconds(1))).apply(AllApplied(), RESULT)


def window_all_aggregate(env):
    timed = clicks(env).map(lambda value: value, CLICK)
    windows = timed.window_all(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2)))
    return windows.aggregate(Total(), accumulator_type=Types.LONG(), output_type=Types.LONG())


def windows_after_windows(env):
    small = clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Contents(), RESULT)
    large = small.key_by(lambda result: "all", Types.STRING()).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    return large.process(Starts(), RESULT)


class Starts(ProcessWindowFunction):
    def process(self, key, context, elements):
        starts = sorted((element[1], element[0]) for element in elements)
        yield key, context.window().start, context.window().end, str(starts)


class Numbered(ProcessWindowFunction):
    """Which window of its key it is."""

    def process(self, key, context, elements):
        windows = context.global_state().get_state(number())
        windows.update((windows.value() or 0) + 1)
        yield key, windows.value(), len(list(elements)), "of the key"


class Here(ProcessWindowFunction):
    """How many elements of the window were seen, in state of its own."""

    def process(self, key, context, elements):
        seen = context.window_state().get_state(number())
        seen.update((seen.value() or 0) + len(list(elements)))
        yield key, context.window().start, seen.value(), "of the window"

    def clear(self, context):
        context.window_state().get_state(number()).clear()


def number():
    return ValueStateDescriptor("number", Types.LONG())


def state_of_the_key(env):
    return clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(2))).process(Numbered(), RESULT)


def state_of_the_window(env):
    return clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(2))).process(Here(), RESULT)


class Times(ProcessWindowFunction):
    def process(self, key, context, elements):
        is_past = context.current_watermark() >= context.window().max_timestamp()
        yield key, context.window().start, context.window().max_timestamp(), str(is_past)


def watermark_in_a_window(env):
    return clicks(env).window(TumblingEventTimeWindows.of(Time.seconds(2))).process(Times(), RESULT)


BATCH = ("tumbling_process", "session_reduce")
