"""Late elements again: with other triggers, functions, lateness and side outputs, and timers that elements move."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, OutputTag, RuntimeContext
from pyflink.datastream.functions import ProcessAllWindowFunction, ProcessWindowFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEXT = Types.STRING()
MIXED = [("a", 1000), ("a", 2500), ("b", 2600), ("a", 900), ("a", 4100), ("a", 2400), ("b", 500), ("a", 7000), ("a", 2300)]


def late():
    """Return a tag for each use: PyFlink can't ship one whose types were used in the program."""
    return OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Pause:
    """A pause in front of each element, longer than watermarks take."""

    def __call__(self, value):
        import time

        time.sleep(0.3)
        return value


def slowly(env, elements=MIXED, bound_ms=None):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if bound_ms is not None:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound_ms))
    slow = env.from_collection(elements, PAIR).rebalance().map(Pause(), PAIR)
    return slow.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def paced(env, elements=MIXED, bound_ms=None):
    return slowly(env, elements, bound_ms).key_by(lambda value: value[0], TEXT)


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {[element[1] for element in elements]} {context.current_watermark()}"


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


def purged_and_late(env):
    """What comes late to a window that was purged is alone in it."""
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(10_000)
    return windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())).process(Contents(), TEXT)


def aggregate_late(env):
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(2))).allowed_lateness(10_000)
    kind = Types.TUPLE([Types.LONG(), Types.LONG()])
    return windows.aggregate(Mean(), accumulator_type=kind, output_type=Types.DOUBLE())


def sliding_allowed_lateness(env):
    windows = paced(env).window(SlidingEventTimeWindows.of(Time.seconds(3), Time.seconds(1))).allowed_lateness(1500)
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def with_offset_late(env):
    windows = TumblingEventTimeWindows.of(Time.seconds(2), Time.milliseconds(500))
    main = paced(env).window(windows).allowed_lateness(1000).side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def session_that_a_late_element_joins(env):
    """An element behind the watermark joins a session that is open, or two of them."""
    elements = [("a", 1000), ("a", 2600), ("b", 3000), ("a", 1800), ("b", 2100), ("a", 5000), ("a", 3300), ("a", 9000)]
    windows = paced(env, elements, 800).window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def session_reduce_late(env):
    windows = paced(env).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).allowed_lateness(4000)
    return windows.reduce(lambda one, other: (one[0], one[1] + other[1]))


def session_purging_late(env):
    windows = paced(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(1700))).allowed_lateness(4000)
    return windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())).process(Contents(), TEXT)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 300 if element[1] % 1000 else 1600


def session_dynamic_late(env):
    windows = paced(env).window(EventTimeSessionWindows.with_dynamic_gap(Gap())).allowed_lateness(500)
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def session_count_late(env):
    windows = paced(env).window(EventTimeSessionWindows.with_gap(Time.seconds(2))).trigger(CountTrigger.of(2))
    return windows.process(Contents(), TEXT)


def global_is_never_late(env):
    windows = paced(env).window(GlobalWindows.create()).trigger(CountTrigger.of(3))
    main = windows.side_output_late_data(late()).process(Numbers(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


class Numbers(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {[element[1] for element in elements]}"


class AllContents(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield f"{context.window().start} {[element[1] for element in elements]}"


def all_windows_late(env):
    windows = slowly(env).window_all(TumblingEventTimeWindows.of(Time.seconds(2))).allowed_lateness(2500)
    main = windows.side_output_late_data(late()).process(AllContents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


class Fired(ProcessWindowFunction):
    """How often a window has fired, in state of its own that lateness keeps, and its key's windows."""

    def process(self, key, context, elements):
        fired = context.window_state().get_state(ValueStateDescriptor("fired", Types.LONG()))
        fired.update((fired.value() or 0) + 1)
        yield f"{key} {context.window().start} {fired.value()}"

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("fired", Types.LONG())).clear()


def state_of_a_late_window(env):
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(3))).allowed_lateness(2000)
    return windows.process(Fired(), TEXT)


def after_late_windows(env):
    """What a window gives a second time may be late for the next one."""
    first = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(1500)
    sums = first.reduce(lambda one, other: (one[0], one[1] + other[1]))
    windows = sums.key_by(lambda value: "all", TEXT).window(TumblingEventTimeWindows.of(Time.seconds(2)))
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


class Moves(KeyedProcessFunction):
    """A key's alarm a second behind its newest element, moved by each."""

    def open(self, runtime_context: RuntimeContext):
        self.alarm = runtime_context.get_state(ValueStateDescriptor("alarm", Types.LONG()))

    def process_element(self, value, ctx):
        service, alarm = ctx.timer_service(), self.alarm.value()
        if alarm is not None:
            service.delete_event_time_timer(alarm)
        self.alarm.update(max(alarm or 0, value[1] + 1000))
        service.register_event_time_timer(self.alarm.value())
        return []

    def on_timer(self, timestamp, ctx):
        self.alarm.clear()
        yield f"{ctx.get_current_key()} {timestamp} {ctx.timer_service().current_watermark()}"


def timers_that_elements_move(env):
    return paced(env).process(Moves(), TEXT)


class InThePast(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] - 3000)
        yield f"element {value[1]} {ctx.timer_service().current_watermark()}"

    def on_timer(self, timestamp, ctx):
        yield f"timer {ctx.get_current_key()} {timestamp} {ctx.timer_service().current_watermark()}"


def timers_in_the_past(env):
    return paced(env).process(InThePast(), TEXT)


PACED = (
    "purged_and_late",
    "aggregate_late",
    "sliding_allowed_lateness",
    "with_offset_late",
    "session_that_a_late_element_joins",
    "session_reduce_late",
    "session_purging_late",
    "session_dynamic_late",
    "session_count_late",
    "global_is_never_late",
    "all_windows_late",
    "state_of_a_late_window",
    "after_late_windows",
    "timers_that_elements_move",
    "timers_in_the_past",
)
