"""Sessions that come together: bridged by an element between them, and grown by elements with gaps of their own."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import EventTimeSessionWindows, SessionWindowTimeGapExtractor

TEXT = Types.STRING()
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
BRIDGED = [("a", 1000, 1), ("b", 1000, 2), ("a", 2500, 4), ("a", 4100, 8), ("b", 9000, 16), ("a", 1800, 32), ("a", 3300, 64)]
FAR = [(name, time + 2**62, number) for name, time, number in BRIDGED]
MIXED = [("a", 1000, number * 7 % 5 + 1) for number in range(15)]
LONGER = [("a", 1000, 1), ("a", 1000, 2), ("b", 1000, 4), ("a", 1000, 8), ("b", 1000, 16), ("a", 1000, 32), ("b", 1000, 64)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Number(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 100 * element[2]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {context.window().end} {sorted(element[2] for element in elements)}"


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return f"{accumulator}"

    def merge(self, one, other):
        return one + other


def _keyed(env, elements):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60))
    timed = env.from_collection(elements, EVENT).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )
    return timed.key_by(lambda value: value[0], TEXT)


def _together(one, other):
    return one[0], max(one[1], other[1]), one[2] + other[2]


SECOND = EventTimeSessionWindows.with_gap(Time.seconds(1))


def bridged(env):
    return _keyed(env, BRIDGED).window(SECOND).process(Contents(), TEXT)


def bridged_reduce(env):
    return _keyed(env, BRIDGED).window(SECOND).reduce(_together)


def bridged_reduce_with_window(env):
    return _keyed(env, BRIDGED).window(SECOND).reduce(_together, Contents(), TEXT)


def bridged_aggregate(env):
    return _keyed(env, BRIDGED).window(SECOND).aggregate(Total(), accumulator_type=Types.LONG(), output_type=TEXT)


def bridged_far_away(env):
    return _keyed(env, FAR).window(SECOND).process(Contents(), TEXT)


def longer(env):
    return _keyed(env, LONGER).window(EventTimeSessionWindows.with_dynamic_gap(Number())).process(Contents(), TEXT)


def longer_reduce(env):
    return _keyed(env, LONGER).window(EventTimeSessionWindows.with_dynamic_gap(Number())).reduce(_together)


def shorter(env):
    windows = _keyed(env, LONGER[::-1]).window(EventTimeSessionWindows.with_dynamic_gap(Number()))
    return windows.process(Contents(), TEXT)


def longer_far_away(env):
    far = [(name, time + 2**62, number) for name, time, number in LONGER]
    return _keyed(env, far).window(EventTimeSessionWindows.with_dynamic_gap(Number())).process(Contents(), TEXT)


def longer_and_shorter(env):
    """Each element is within the session, or makes it end later; all are one session."""
    return _keyed(env, MIXED).window(EventTimeSessionWindows.with_dynamic_gap(Number())).process(Contents(), TEXT)


def longer_and_shorter_reduce(env):
    return _keyed(env, MIXED).window(EventTimeSessionWindows.with_dynamic_gap(Number())).reduce(_together)
