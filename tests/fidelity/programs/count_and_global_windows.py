"""Windows by count, global windows, and triggers of one's own choice over input in which nothing is late."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import Trigger, TriggerResult
from pyflink.datastream.functions import ProcessWindowFunction, WindowFunction
from pyflink.datastream.state import ReducingStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    TumblingEventTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5), ("a", 6), ("c", 7), ("a", 8), ("b", 9), ("a", 10), ("a", 11)]
TEXT = Types.STRING()


def keyed(env, elements=PAIRS):
    return env.from_collection(elements, PAIR).key_by(lambda value: value[0], TEXT)


def in_time(env, elements):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    timed = env.from_collection(elements, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )
    return timed.key_by(lambda value: value[0], TEXT)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {sorted(element[1] for element in elements)}"


class Applied(WindowFunction):
    def apply(self, key, window, inputs):
        yield f"{key} {sorted(element[1] for element in inputs)}"


def count_window_process(env):
    return keyed(env).count_window(2).process(Contents(), TEXT)


def count_window_apply(env):
    return keyed(env).count_window(3).apply(Applied(), TEXT)


def count_window_reduce(env):
    return keyed(env).count_window(2).reduce(lambda one, other: (one[0], one[1] + other[1]))


def count_window_sliding(env):
    return keyed(env).count_window(3, 2).process(Contents(), TEXT)


def count_window_sliding_with_gaps(env):
    return keyed(env).count_window(1, 3).process(Contents(), TEXT)


def count_assigner_tumbling(env):
    return keyed(env).window(CountTumblingWindowAssigner.of(3)).process(Contents(), TEXT)


def count_assigner_sliding(env):
    return keyed(env).window(CountSlidingWindowAssigner.of(4, 1)).process(Contents(), TEXT)


def global_count(env):
    return keyed(env).window(GlobalWindows.create()).trigger(CountTrigger.of(3)).process(Contents(), TEXT)


def global_count_purging(env):
    windows = keyed(env).window(GlobalWindows.create())
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(3))).process(Contents(), TEXT)


def global_count_reduce(env):
    windows = keyed(env).window(GlobalWindows.create()).trigger(CountTrigger.of(2))
    return windows.reduce(lambda one, other: (one[0], one[1] + other[1]))


def global_never(env):
    return keyed(env).window(GlobalWindows.create()).trigger(NeverTrigger()).process(Contents(), TEXT)


def global_by_itself(env):
    return keyed(env).window(GlobalWindows.create()).process(Contents(), TEXT)


def tumbling_count_trigger(env):
    windows = in_time(env, PAIRS).window(TumblingEventTimeWindows.of(Time.milliseconds(6)))
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Sizes(), TEXT)


class Sizes(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {len(list(elements))}"


def tumbling_event_time_trigger(env):
    windows = in_time(env, PAIRS).window(TumblingEventTimeWindows.of(Time.milliseconds(4)))
    return windows.trigger(EventTimeTrigger.create()).process(Contents(), TEXT)


def tumbling_purging_event_time(env):
    windows = in_time(env, PAIRS).window(TumblingEventTimeWindows.of(Time.milliseconds(4)))
    return windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())).process(Contents(), TEXT)


def tumbling_continuous(env):
    elements = [("a", 10), ("a", 1020), ("b", 2040), ("a", 3100), ("b", 9999), ("a", 10001)]
    windows = in_time(env, elements).window(TumblingEventTimeWindows.of(Time.seconds(10)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.seconds(4))).process(Contents(), TEXT)


def session_continuous(env):
    elements = [("a", 10), ("a", 1020), ("b", 2040), ("a", 3100), ("b", 9999), ("a", 10001)]
    windows = in_time(env, elements).window(EventTimeSessionWindows.with_gap(Time.seconds(3)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.seconds(2))).process(Contents(), TEXT)


def session_count_trigger(env):
    elements = [("a", 10), ("a", 1020), ("b", 2040), ("a", 3100), ("b", 9999), ("a", 10001), ("b", 2050)]
    windows = in_time(env, elements).window(EventTimeSessionWindows.with_gap(Time.seconds(3)))
    return windows.trigger(CountTrigger.of(2)).process(Lengths(), TEXT)


class Lengths(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {len(list(elements))}"


class SumReaches(Trigger):
    """Fires when the numbers of a window are 10 or more together, and at the window's end."""

    def on_element(self, element, timestamp, window, ctx):
        total = ctx.get_partitioned_state(self.state())
        total.add(element[1])
        ctx.register_event_time_timer(window.max_timestamp())
        if total.get() < 10:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.state())
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.state()).clear()
        ctx.delete_event_time_timer(window.max_timestamp())

    def state(self):
        return ReducingStateDescriptor("sum", lambda one, other: one + other, Types.LONG())


def custom_trigger(env):
    windows = in_time(env, PAIRS).window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    return windows.trigger(SumReaches()).process(Contents(), TEXT)


def custom_trigger_in_sessions(env):
    windows = in_time(env, PAIRS).window(EventTimeSessionWindows.with_gap(Time.milliseconds(3)))
    return windows.trigger(SumReaches()).process(Contents(), TEXT)


ONE_SUBTASK = ("custom_trigger", "custom_trigger_in_sessions", "session_count_trigger", "tumbling_count_trigger")
BATCH = ("count_window_process",)
