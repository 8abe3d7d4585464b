"""Joins as PyFlink's programs write them, which has none: by state and timers, and by windows over a union.

`tests/fidelity/test_joins.py` holds the joins of Flink's Java API against what these answer.
"""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedCoProcessFunction, RuntimeContext
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.state import MapStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
SIDED = Types.TUPLE([Types.INT(), Types.STRING(), Types.LONG()])
TEXT = Types.STRING()
ORDERS = [("a", 100), ("b", 200), ("a", 1100), ("c", 1200), ("a", 2500), ("b", 2600), ("d", 4000), ("a", 1100)]
PAYMENTS = [("a", 150), ("b", 1200), ("a", 2100), ("c", 700), ("e", 900), ("a", 2600), ("b", 2600), ("a", 3499), ("a", 100)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def timed(env, elements):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    return env.from_collection(elements, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )


class Interval(KeyedCoProcessFunction):
    """Pairs what lies between two bounds of each other; each side keeps its own by time, and counts equal ones."""

    def __init__(self, lower, upper):
        self.lower = lower
        self.upper = upper

    def open(self, runtime_context: RuntimeContext):
        self.left = runtime_context.get_map_state(MapStateDescriptor("left", Types.LONG(), Types.INT()))
        self.right = runtime_context.get_map_state(MapStateDescriptor("right", Types.LONG(), Types.INT()))

    def process_element1(self, value, ctx):
        self.keep(self.left, ctx, self.upper)
        yield from self.pairs(self.right, ctx, self.lower, self.upper, "{key} {own} {other} {later}")

    def process_element2(self, value, ctx):
        self.keep(self.right, ctx, -self.lower)
        yield from self.pairs(self.left, ctx, -self.upper, -self.lower, "{key} {other} {own} {later}")

    def keep(self, state, ctx, longest):
        time = ctx.timestamp()
        state.put(time, (state.get(time) or 0) + 1)
        ctx.timer_service().register_event_time_timer(time + max(longest, 0))

    def pairs(self, state, ctx, lower, upper, text):
        own = ctx.timestamp()
        for other, count in state.items():
            if own + lower <= other <= own + upper:
                for _ in range(count):
                    yield text.format(key=ctx.get_current_key(), own=own, other=other, later=max(own, other))

    def on_timer(self, timestamp, ctx):
        yield from ()


def interval(env, lower, upper):
    left, right = timed(env, ORDERS).key_by(first, TEXT), timed(env, PAYMENTS).key_by(first, TEXT)
    return left.connect(right).process(Interval(lower, upper), TEXT)


def first(value):
    return value[0]


def interval_around(env):
    return interval(env, -1000, 1000)


def interval_after(env):
    return interval(env, 0, 1500)


def interval_exclusive(env):
    return interval(env, -399, 999)


def _both(env):
    left = timed(env, ORDERS).map(lambda value: (0, value[0], value[1]), SIDED)
    right = timed(env, PAYMENTS).map(lambda value: (1, value[0], value[1]), SIDED)
    return left.union(right).key_by(lambda value: value[1], TEXT)


def sides(elements):
    found = list(elements)
    return [sorted(value[2] for value in found if value[0] == side) for side in (0, 1)]


class Pairs(ProcessWindowFunction):
    def process(self, key, context, elements):
        left, right = sides(elements)
        for one in left:
            for other in right:
                yield f"{key} {one} {other}"


class Groups(ProcessWindowFunction):
    def process(self, key, context, elements):
        left, right = sides(elements)
        yield f"{key} {left} {right}"


def window_join_tumbling(env):
    return _both(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Pairs(), TEXT)


def window_join_sliding(env):
    return _both(env).window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))).process(Pairs(), TEXT)


def window_join_session(env):
    return _both(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(600))).process(Pairs(), TEXT)


def co_group_tumbling(env):
    return _both(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Groups(), TEXT)


def co_group_sliding(env):
    return _both(env).window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))).process(Groups(), TEXT)


def co_group_session(env):
    return _both(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(600))).process(Groups(), TEXT)
