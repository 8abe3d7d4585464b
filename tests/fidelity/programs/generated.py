"""Programs made by seed: chains of windows, timers, connections and side outputs over random elements out of order.

FIDELITY_SEEDS (`first-last`) makes others than those that are recorded.
"""

import os
import random

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    RuntimeContext,
    Trigger,
    TriggerResult,
)
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

TEXT, LONG = Types.STRING(), Types.LONG()
EVENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Pause:
    def __call__(self, value):
        import time

        time.sleep(0.4)
        return value


def side(name):
    return OutputTag(name, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))


def by_name(value):
    return value[0]


def by_number(value):
    return f"n{value[2] % 3}"


def by_time(value):
    return f"t{value[1] // 1000 % 4}"


KEYS = (by_name, by_number, by_time)


class Contents(ProcessWindowFunction):
    """A result of a window, and one aside where its sum is odd."""

    def __init__(self, name, in_order):
        self.name = name
        self.in_order = in_order

    def process(self, key, context, elements):
        numbers = [element[2] for element in elements]
        total = sum(place * number for place, number in enumerate(numbers, 1)) if self.in_order else sum(numbers)
        result = key, context.window().max_timestamp() if hasattr(context.window(), "end") else 0, total % 1009
        yield (side(self.name), result) if total % 2 else result


class Largest(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            yield key, element[1], element[2] + 1


class Total(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return "total", accumulator, accumulator % 1009

    def merge(self, one, other):
        return one + other


class Reaches(Trigger):
    """Fires by number and by time, with state of its own."""

    def __init__(self, limit):
        self.limit = limit

    def on_element(self, element, timestamp, window, ctx):
        total = ctx.get_partitioned_state(self.state())
        total.add(element[2])
        ctx.register_event_time_timer(window.max_timestamp())
        if total.get() < self.limit:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE_AND_PURGE if element[2] % 2 else TriggerResult.FIRE

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


class Timers(KeyedProcessFunction):
    """Sums of a key at times that its elements set, and take back."""

    def __init__(self, name, seed):
        self.name = name
        self.step = 300 + seed * 137 % 1900
        self.takes_back = seed % 2 == 0

    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda one, other: one + other, Types.LONG())
        )
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))
        self.times = runtime_context.get_list_state(ListStateDescriptor("times", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.add(value[2])
        service, time = ctx.timer_service(), ctx.timestamp() // self.step * self.step
        service.register_event_time_timer(time + self.step)
        # elements that share this timer all delete it or none does, so that no order counts
        place = 1 + value[2] % (self.step - 1)
        service.register_event_time_timer(time + 3 * self.step + place)
        if self.takes_back and place % 3 == 0:
            service.delete_event_time_timer(time + 3 * self.step + place)
        if value[2] % 4 == 1:
            yield side(self.name), (value[0], value[1], value[2] + 1)

    def on_timer(self, timestamp, ctx):
        fired = (self.fired.value() or 0) + 1
        self.fired.update(fired)
        self.times.add(timestamp)
        result = ctx.get_current_key(), timestamp, ((self.total.get() or 0) + fired + len(list(self.times.get()))) % 1009
        yield (side(self.name), result) if result[2] % 3 == 0 else result
        if fired == 4:
            self.total.clear()
            self.times.clear()


class Both(KeyedCoProcessFunction):
    """What both inputs have of a key, at times that each of them sets."""

    def __init__(self, name, seed):
        self.name = name
        self.step = 500 + seed * 91 % 1500

    def open(self, runtime_context: RuntimeContext):
        self.one = runtime_context.get_map_state(MapStateDescriptor("one", Types.LONG(), Types.LONG()))
        self.other = runtime_context.get_state(ValueStateDescriptor("other", Types.LONG()))

    def process_element1(self, value, ctx):
        self.one.put(value[2] % 5, max(self.one.get(value[2] % 5) or 0, value[1]))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + self.step)

    def process_element2(self, value, ctx):
        self.other.update((self.other.value() or 0) + value[2])
        ctx.timer_service().register_event_time_timer(value[1] // 1000 * 1000 + 999)
        yield side(self.name), value

    def on_timer(self, timestamp, ctx):
        seen = sum(self.one.values()) + sum(self.one.keys()) + 7 * (self.other.value() or 0)
        yield ctx.get_current_key(), timestamp, seen % 1009
        if seen % 5 == 0:
            self.one.clear()


def rules():
    return MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class Ruled(KeyedBroadcastProcessFunction):
    """Elements wait for a timer; then all rules are there."""

    def __init__(self, name):
        self.name = name

    def open(self, runtime_context: RuntimeContext):
        self.kept = runtime_context.get_map_state(MapStateDescriptor("kept", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        self.kept.put(value[2], max(self.kept.get(value[2]) or 0, value[1]))
        ctx.timer_service().register_event_time_timer(2**62)
        return []

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules()).put(value[2] % 7, value[2] % 7 * 11)
        return []

    def on_timer(self, timestamp, ctx):
        found = ctx.get_broadcast_state(rules())
        for number, time in self.kept.items():
            rule = found.get(number % 7)
            result = ctx.get_current_key(), time, (number + (rule or 0)) % 1009
            yield result if rule is not None else (side(self.name), result)
        self.kept.clear()


def _assigner(chance):
    size, offset = Time.milliseconds(chance.randint(5, 40) * 100), Time.milliseconds(chance.randint(-9, 9) * 100)
    kind = chance.choice(["tumbling", "sliding", "session"])
    if kind == "tumbling":
        return kind, TumblingEventTimeWindows.of(size, Time.milliseconds(chance.randint(-4, 4) * 100))
    if kind == "sliding":
        slide = chance.randint(10, 25) * 100
        return kind, SlidingEventTimeWindows.of(size, Time.milliseconds(slide), offset)
    return kind, EventTimeSessionWindows.with_gap(Time.milliseconds(chance.randint(2, 18) * 100))


def _trigger(chance, *, in_order):
    few = [None, None, EventTimeTrigger.create(), PurgingTrigger.of(EventTimeTrigger.create())]
    if in_order:
        few += [CountTrigger.of(2), PurgingTrigger.of(CountTrigger.of(3)), Reaches(chance.randint(10, 40))]
        few += [ContinuousEventTimeTrigger.of(Time.seconds(100))]
    return chance.choice(few)


def _together(one, other):
    return min(one[0], other[0]), max(one[1], other[1]), one[2] + other[2]


def _window(chance, stream, name, *, paced, in_order):
    keyed = stream.key_by(chance.choice(KEYS), TEXT)
    if in_order and chance.random() < 0.3:
        if chance.random() < 0.5:
            windows = keyed.count_window(chance.randint(1, 4), chance.randint(1, 4))
        else:
            windows = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(chance.randint(1, 4)))
        result = windows.process(Contents(name, in_order), EVENT)
        return result, [result.get_side_output(side(name))]
    kind, assigner = _assigner(chance)
    windows = keyed.window(assigner)
    trigger = _trigger(chance, in_order=in_order)
    windows = windows if trigger is None else windows.trigger(trigger)
    tag = side(f"{name}-late")
    if paced:
        windows = windows.allowed_lateness(chance.choice([0, 0, 700, 2500])).side_output_late_data(tag)
    # of sessions that merge PyFlink keeps one value, or one accumulator
    way = "process" if kind == "session" else chance.choice(["process", "reduce", "reduce with window", "aggregate"])
    if way == "aggregate":
        result = windows.aggregate(Total(), accumulator_type=LONG, output_type=EVENT)
    elif way == "reduce":
        result = windows.reduce(_together)
    elif way == "reduce with window":
        result = windows.reduce(_together, Largest(), EVENT)
    else:
        result = windows.process(Contents(name, in_order), EVENT)
    sides = [result.get_side_output(side(name))] if way == "process" else []
    return result, [*sides, *([result.get_side_output(tag)] if paced else [])]


def _stage(chance, streams, name, *, paced):
    """Return a stream made of those before, and what it has aside.

    Elements of a stage of windows have no order among each other: only the first stage, at a pace, may ask for one.
    """
    stream = streams[-1]
    kind = chance.choice(["window", "window", "window", "timers", "timers", *([] if paced else ["both", "ruled", "union"])])
    if kind == "window":
        return _window(chance, stream, name, paced=paced, in_order=paced and len(streams) == 1)
    if kind == "timers":
        result = stream.key_by(chance.choice(KEYS), TEXT).process(Timers(name, chance.randint(0, 99)), EVENT)
    elif kind == "both":
        key = chance.choice(KEYS)
        connected = stream.key_by(key, TEXT).connect(streams[0].key_by(key, TEXT))
        result = connected.process(Both(name, chance.randint(0, 99)), EVENT)
    elif kind == "ruled":
        broadcast = streams[0].filter(lambda value: value[2] % 2 == 0).broadcast(rules())
        result = stream.key_by(chance.choice(KEYS), TEXT).connect(broadcast).process(Ruled(name), EVENT)
    else:
        return stream.union(streams[0].map(lambda value: (value[0], value[1], value[2] + 100), EVENT)), []
    return result, [result.get_side_output(side(name))]


def _elements(chance, count):
    late = chance.choice([200, 1500, 4000])
    times = [max(0, 400 * place + chance.randint(-late, late)) for place in range(count)]
    return [(chance.choice("abc"), time, number) for number, time in enumerate(times, 1)]


def _program(seed, *, paced):
    def program(env):
        chance = random.Random(seed)
        elements = _elements(chance, 9 if paced else 40)
        source = env.from_collection(elements, EVENT)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(
            Duration.of_millis(chance.choice([0, 300, 1200])) if paced else Duration.of_seconds(60)
        )
        if paced:
            source = source.rebalance().map(Pause(), EVENT)
        streams = [source.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))]
        found = {}
        count = chance.randint(1, 2 if paced else 3)
        for number in range(count):
            stream, sides = _stage(chance, streams, f"side{number}", paced=paced)
            for place, one in enumerate(sides):
                found[f"{number}{'ab'[place]}"] = one
            streams.append(stream)
        return {"end": streams[-1], **found}

    return program


_first, _, _last = os.environ.get("FIDELITY_SEEDS", "0-7").partition("-")
_SEEDS = range(int(_first), int(_last) + 1)
for _seed in _SEEDS:
    globals()[f"seed_{_seed}"] = _program(_seed, paced=False)
    globals()[f"paced_{_seed}"] = _program(_seed + 10_000, paced=True)
PACED = tuple(f"paced_{_seed}" for _seed in _SEEDS)
