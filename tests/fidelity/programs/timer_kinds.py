"""Timers of connected and broadcast streams, of other keys, at other times, and by functions behind each other."""

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
)
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 100), ("b", 200), ("a", 300), ("c", 400), ("a", 2500), ("b", 2600), ("c", 5000)]
TEXT = Types.STRING()


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def timed(env, elements=PAIRS):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    return env.from_collection(elements, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )


def by_name(value):
    return value[0]


def keyed(env, elements=PAIRS):
    return timed(env, elements).key_by(by_name, TEXT)


def rules_state():
    return MapStateDescriptor("rules", Types.STRING(), Types.LONG())


FIRED = OutputTag("fired", Types.STRING())
RULED = OutputTag("ruled", Types.STRING())


class Rules(KeyedBroadcastProcessFunction):
    """All rules are there when event time comes to its end, whichever came first."""

    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(10_000)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 20_000)
        ctx.timer_service().delete_event_time_timer(20_300)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules_state()).put(value[0], value[1])
        yield RULED, f"{value[0]} {ctx.timestamp()}"

    def on_timer(self, timestamp, ctx):
        rule = ctx.get_broadcast_state(rules_state()).get(ctx.get_current_key())
        yield f"{ctx.get_current_key()} {timestamp} {rule} {self.total.value()}"
        yield FIRED, f"{timestamp} {ctx.timestamp()}"


def broadcast_with_timers(env):
    rules = timed(env, [("a", 7), ("c", 9), ("x", 11)]).broadcast(rules_state())
    main = keyed(env).connect(rules).process(Rules(), TEXT)
    return {"main": main, "fired": main.get_side_output(FIRED), "ruled": main.get_side_output(RULED)}


class TwoSides(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.ones = runtime_context.get_list_state(ListStateDescriptor("ones", Types.LONG()))
        self.others = runtime_context.get_reducing_state(ReducingStateDescriptor("others", max, Types.LONG()))

    def process_element1(self, value, ctx):
        self.ones.add(value[1])
        ctx.timer_service().register_event_time_timer(6000)
        yield FIRED, f"one {value[1]} {ctx.timestamp()}"

    def process_element2(self, value, ctx):
        self.others.add(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 7000)

    def on_timer(self, timestamp, ctx):
        yield FIRED, f"{ctx.get_current_key()} {timestamp} {sorted(self.ones.get() or [])}"
        yield f"{ctx.get_current_key()} {timestamp} {self.others.get()}"


def co_process_with_state_and_sides(env):
    main = keyed(env).connect(keyed(env, [("a", 5), ("b", 6), ("b", 7), ("z", 8)])).process(TwoSides(), TEXT)
    return {"main": main, "fired": main.get_side_output(FIRED)}


class Alarm(KeyedProcessFunction):
    def __init__(self, later):
        self.later = later

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + self.later)
        return []

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} {ctx.timestamp()}"


def in_the_past(env):
    return keyed(env).process(Alarm(-50_000), TEXT)


def of_negative_times(env):
    return keyed(env, [("a", -5000), ("b", -1), ("a", 0), ("b", 1)]).process(Alarm(-1), TEXT)


def far_in_the_future(env):
    return keyed(env).process(Alarm(2**62), TEXT)


class AtTheEnd(Alarm):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(2**63 - 1)
        ctx.timer_service().register_event_time_timer(2**63 - 2)
        return []


def at_the_end_of_time(env):
    return keyed(env).process(AtTheEnd(0), TEXT)


def of_keys_that_are_numbers(env):
    return timed(env).key_by(lambda value: value[1] % 3, Types.LONG()).process(Alarm(10), TEXT)


def of_keys_that_are_tuples(env):
    kind = Types.TUPLE([Types.STRING(), Types.LONG()])
    return timed(env).key_by(lambda value: (value[0], value[1] // 1000), kind).process(Alarm(10), TEXT)


def of_keys_without_a_type(env):
    return timed(env).key_by(lambda value: value[0]).process(Alarm(10), TEXT)


class Same(KeyedProcessFunction):
    """A timer that registers its own time again, thrice."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] // 1000 * 1000)
        return []

    def on_timer(self, timestamp, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count < 4:
            ctx.timer_service().register_event_time_timer(timestamp)
        yield f"{ctx.get_current_key()} {timestamp}"


def a_timer_sets_itself(env):
    return keyed(env).process(Same(), TEXT)


class DeletesNext(KeyedProcessFunction):
    """The first timer of a key deletes the second."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10_000)
        ctx.timer_service().register_event_time_timer(20_000)
        return []

    def on_timer(self, timestamp, ctx):
        ctx.timer_service().delete_event_time_timer(timestamp + 10_000)
        yield f"{ctx.get_current_key()} {timestamp}"


def a_timer_deletes_the_next(env):
    return keyed(env).process(DeletesNext(), TEXT)


class Flushed(KeyedProcessFunction):
    """What a key has is emitted and cleared by one timer, of several."""

    def open(self, runtime_context: RuntimeContext):
        self.kept = runtime_context.get_map_state(MapStateDescriptor("kept", Types.LONG(), Types.STRING()))

    def process_element(self, value, ctx):
        self.kept.put(value[1], value[0] * 2)
        ctx.timer_service().register_event_time_timer(3000)
        ctx.timer_service().register_event_time_timer(4000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), len(list(self.kept.keys())) + timestamp
        self.kept.clear()


def flushed_one_after_another(env):
    return keyed(env).process(Flushed(), PAIR).key_by(lambda value: "all", TEXT).process(Alarm(1), TEXT)


def of_a_union(env):
    united = timed(env).union(timed(env, [("a", 1), ("d", 2)]))
    return united.key_by(by_name, TEXT).process(Alarm(5), TEXT)


class Shifted(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + 100_000


def of_a_second_assigner(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Shifted())
    return timed(env).assign_timestamps_and_watermarks(strategy).key_by(by_name, TEXT).process(Seen(), TEXT)


class Seen(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        yield f"element {value[1]} {ctx.timestamp()}"

    def on_timer(self, timestamp, ctx):
        yield f"timer {ctx.get_current_key()} {timestamp}"


class NoKey(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timestamp()} {ctx.timer_service().current_watermark() < 5000}"


def times_without_a_key(env):
    return timed(env).process(NoKey(), TEXT)


def no_watermarks(env):
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(SecondField())
    stamped = env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(strategy)
    return stamped.key_by(by_name, TEXT).process(Seen(), TEXT)


class AtTheClocksEnd(KeyedProcessFunction):
    """Timers by the clock, far away: streaming mode drops them at the end of the input, batch mode fires them."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(2**62)
        ctx.timer_service().register_event_time_timer(2**62)
        return []

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} {timestamp} {ctx.time_domain()}"


def by_the_clock_that_never_fire(env):
    return keyed(env).process(AtTheClocksEnd(), TEXT)


BATCH = (
    "co_process_with_state_and_sides",
    "in_the_past",
    "by_the_clock_that_never_fire",
    "flushed_one_after_another",
    "no_watermarks",
)
