"""What batch mode changes: the order of a key's elements, when timers fire, what late means, and which results there are."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
)
from pyflink.datastream.functions import CoProcessFunction, ProcessWindowFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

TEXT = Types.STRING()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
MIXED = [("a", 2500), ("b", 2600), ("a", 100), ("c", 5000), ("a", 900), ("b", 200), ("a", 2400), ("c", 1200), ("b", 8000)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def _timed(env, elements=MIXED):
    """Return elements that keep their order at parallelism 2, too: one subtask gives them their times."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60))
    timed = env.from_collection(elements, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )
    return timed.set_parallelism(1)


def by_name(value):
    return value[0]


def _keyed(env):
    return _timed(env).key_by(by_name, TEXT)


class Order(KeyedProcessFunction):
    """In which order a key's elements come: by their times in batch mode."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(9_000_000)
        return []

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {list(self.seen.get())} {ctx.timer_service().current_watermark()}"


def order_of_a_key(env):
    return _keyed(env).process(Order(), TEXT)


def order_without_times(env):
    return env.from_collection(MIXED, PAIR).key_by(by_name, TEXT).process(Order(), TEXT)


class Watermarks(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + 10)
        yield f"element {value} {ctx.timer_service().current_watermark() > 0}"

    def on_timer(self, timestamp, ctx):
        yield f"timer {ctx.get_current_key()} {timestamp} {ctx.timestamp()} {ctx.timer_service().current_watermark()}"


def watermarks(env):
    return _keyed(env).process(Watermarks(), TEXT)


class Last(KeyedProcessFunction):
    """State is that of one key at a time, and what timers set is seen by later ones."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] // 1000 * 1000)
        if value[1] == 900:
            ctx.timer_service().delete_event_time_timer(2000)
        if value[1] == 2600:
            ctx.timer_service().delete_event_time_timer(2000)
        return []

    def on_timer(self, timestamp, ctx):
        self.count.update((self.count.value() or 0) * 10)
        yield ctx.get_current_key(), self.count.value()


def timers_one_after_the_other(env):
    return _keyed(env).process(Last(), PAIR)


def timers_after_timers(env):
    return _keyed(env).process(Last(), PAIR).key_by(lambda value: "all", TEXT).process(Order(), TEXT)


class Clock(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(2**60 + value[1] // 1000)
        return []

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp - 2**60} {ctx.time_domain()} {ctx.timestamp() - 2**60}"


def timers_by_the_clock_far_away(env):
    """Batch mode fires them at the end of a key; streaming mode drops them."""
    return _keyed(env).process(Clock(), TEXT)


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {[element[1] for element in elements]}"


def windows_by_the_clock_far_away(env):
    return _keyed(env).window(TumblingProcessingTimeWindows.of(Time.days(40000))).process(Contents(), TEXT)


def tumbling_in_order(env):
    return _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(3))).process(Contents(), TEXT)


def sliding_in_order(env):
    return _keyed(env).window(SlidingEventTimeWindows.of(Time.seconds(3), Time.seconds(1))).process(Contents(), TEXT)


def sessions_in_order(env):
    return _keyed(env).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).process(Contents(), TEXT)


def lateness_means_nothing(env):
    windows = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(5000)
    return windows.process(Contents(), TEXT)


def count_trigger(env):
    windows = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(100))).trigger(CountTrigger.of(2))
    return windows.process(Contents(), TEXT)


def global_windows(env):
    windows = _keyed(env).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return windows.process(Contents(), TEXT)


def continuous_trigger(env):
    windows = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(100)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.seconds(200))).process(Contents(), TEXT)


def count_windows(env):
    return _keyed(env).count_window(2).process(Contents(), TEXT)


def windows_after_windows(env):
    first = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    totals = first.reduce(lambda one, other: (one[0], one[1] + other[1]))
    return totals.key_by(by_name, TEXT).window(TumblingEventTimeWindows.of(Time.seconds(5))).process(Contents(), TEXT)


def reduced_after_reduced(env):
    summed = _keyed(env).reduce(lambda one, other: (one[0], one[1] + other[1]))
    return summed.key_by(lambda value: value[1] % 2, Types.LONG()).reduce(lambda one, other: ("x", one[1] + other[1]))


def times_of_reduced(env):
    return _keyed(env).sum(1).process(Seen(), TEXT)


class Seen(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timestamp()}"


class Sides(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def process_element1(self, value, ctx):
        self.seen.add(f"1:{value[1]}")
        ctx.timer_service().register_event_time_timer(value[1] + 1)
        return []

    def process_element2(self, value, ctx):
        self.seen.add(f"2:{value[1]}")
        return []

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} {sorted(self.seen.get())}"


def two_inputs(env):
    others = _timed(env, [("a", 1), ("a", 2450), ("b", 9000), ("d", 1), ("c", 5001)]).key_by(by_name, TEXT)
    return _keyed(env).connect(others).process(Sides(), TEXT)


class Unkeyed(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield f"1 {value} {ctx.timestamp()}"

    def process_element2(self, value, ctx):
        yield f"2 {value} {ctx.timestamp()}"


def two_inputs_without_keys(env):
    return _timed(env).connect(_timed(env, [("x", 5)])).process(Unkeyed(), TEXT)


class Rules(KeyedBroadcastProcessFunction):
    """Broadcast elements are all there when timers fire."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + 10_000)
        return []

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG())).put(value[0], value[1])
        return []

    def on_timer(self, timestamp, ctx):
        rules = ctx.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
        yield f"{ctx.get_current_key()} {timestamp} {sorted(rules.items())}"


def broadcast_with_timers(env):
    rules = _timed(env, [("a", 7), ("c", 9)]).broadcast(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
    return _keyed(env).connect(rules).process(Rules(), TEXT)


def side():
    return OutputTag("side", Types.STRING())


class Aside(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        yield side(), f"{value[1]}"
        yield value[1]

    def on_timer(self, timestamp, ctx):
        yield side(), f"timer {ctx.get_current_key()}"


def side_outputs(env):
    main = _keyed(env).process(Aside(), Types.LONG())
    return {"main": main, "side": main.get_side_output(side())}


ONE_SUBTASK = (
    "order_of_a_key",
    "timers_after_timers",
    "count_windows",
    "count_trigger",
    "global_windows",
    "continuous_trigger",
    "reduced_after_reduced",
    "times_of_reduced",
)
BATCH = (
    "order_of_a_key",
    "watermarks",
    "timers_one_after_the_other",
    "timers_after_timers",
    "timers_by_the_clock_far_away",
    "windows_by_the_clock_far_away",
    "tumbling_in_order",
    "sliding_in_order",
    "sessions_in_order",
    "lateness_means_nothing",
    "count_trigger",
    "global_windows",
    "continuous_trigger",
    "count_windows",
    "windows_after_windows",
    "reduced_after_reduced",
    "times_of_reduced",
    "two_inputs",
    "two_inputs_without_keys",
    "broadcast_with_timers",
    "side_outputs",
)
