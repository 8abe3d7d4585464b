"""Elements that are late, over input that comes so slowly that each element stands behind the watermark of those before."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, OutputTag
from pyflink.datastream.functions import ProcessWindowFunction
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
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


def paced(env, elements=MIXED, bound_ms=None):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    if bound_ms is not None:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound_ms))
    slow = env.from_collection(elements, PAIR).rebalance().map(Pause(), PAIR)
    return slow.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField())).key_by(
        lambda value: value[0], TEXT
    )


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {[element[1] for element in elements]} {context.current_watermark()}"


def dropped(env):
    return paced(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Contents(), TEXT)


def out_of_orderness(env):
    return paced(env, bound_ms=1600).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Contents(), TEXT)


def side_output(env):
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).side_output_late_data(late())
    main = windows.process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def allowed_lateness(env):
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).allowed_lateness(2000)
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def allowed_lateness_reduce(env):
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(2))).allowed_lateness(3000)
    return windows.reduce(lambda one, other: (one[0], one[1] + other[1]))


def sliding_partly_late(env):
    windows = paced(env).window(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(1)))
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def session_late(env):
    windows = paced(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(1200)))
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def session_allowed_lateness(env):
    windows = paced(env).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).allowed_lateness(2500)
    main = windows.side_output_late_data(late()).process(Contents(), TEXT)
    return {"main": main, "late": main.get_side_output(late())}


def count_trigger_late(env):
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(3))).trigger(CountTrigger.of(2))
    return windows.process(Contents(), TEXT)


def continuous_fires(env):
    windows = paced(env).window(TumblingEventTimeWindows.of(Time.seconds(6)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.seconds(2))).process(Contents(), TEXT)


class Watermarks(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])
        yield f"element {value} {ctx.timer_service().current_watermark()}"

    def on_timer(self, timestamp, ctx):
        yield f"timer {ctx.get_current_key()} {timestamp} {ctx.timer_service().current_watermark()}"


def watermarks_seen(env):
    return paced(env, bound_ms=500).process(Watermarks(), TEXT)


PACED = (
    "dropped",
    "out_of_orderness",
    "side_output",
    "allowed_lateness",
    "allowed_lateness_reduce",
    "sliding_partly_late",
    "session_late",
    "session_allowed_lateness",
    "count_trigger_late",
    "continuous_fires",
    "watermarks_seen",
)
