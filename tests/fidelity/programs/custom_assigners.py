"""Window assigners of one's own."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import MergingWindowAssigner, TimeWindow, WindowAssigner
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import EventTimeTrigger, TimeWindowSerializer

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 1), ("b", 2), ("a", 3), ("a", 14), ("b", 15), ("a", 16), ("c", 17), ("a", 38), ("b", 39)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield f"{key} {window.start} {window.end} {sorted(element[1] for element in elements)}"


class TensAndTwenties(WindowAssigner):
    """Each element is in a window of 10 and in one of 20."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp // size * size, timestamp // size * size + size) for size in (10, 20)]

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


class Neighbours(MergingWindowAssigner):
    """Windows of 5, which merge where they touch."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + 5)]

    def merge_windows(self, windows, callback):
        TimeWindow.merge_windows(windows, callback)

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


def pairs(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    timed = env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )
    return timed.key_by(lambda value: value[0], Types.STRING())


def several_sizes(env):
    return pairs(env).window(TensAndTwenties()).process(Contents(), Types.STRING())


def merging(env):
    return pairs(env).window(Neighbours()).process(Contents(), Types.STRING())
