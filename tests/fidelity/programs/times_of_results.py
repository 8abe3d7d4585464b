"""The times that results have: of windows that fire early, late, by the clock, or have no end; and windows behind those."""

from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedCoProcessFunction, KeyedProcessFunction, OutputTag, ProcessFunction
from pyflink.datastream.functions import ProcessAllWindowFunction, ProcessWindowFunction
from pyflink.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

TEXT = Types.STRING()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 100), ("b", 200), ("a", 1100), ("c", 1200), ("a", 2500), ("b", 2600), ("c", 2700), ("a", 6000), ("b", 6001)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Pause:
    def __call__(self, value):
        import time

        time.sleep(0.4)
        return value


def _timed(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(60))
    return env.from_collection(PAIRS, PAIR).assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField()))


def by_name(value):
    return value[0]


def _keyed(env):
    return _timed(env).key_by(by_name, TEXT)


def _paced(env, elements=PAIRS):
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    slow = env.from_collection(elements, PAIR).rebalance().map(Pause(), PAIR)
    return slow.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondField())).key_by(by_name, TEXT)


class Seen(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timestamp()}"


class Total(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, sum(element[1] for element in elements)


class Totals(ProcessAllWindowFunction):
    def process(self, context, elements):
        found = list(elements)
        yield found[0][0], sum(element[1] for element in found)


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {sorted(element[1] for element in elements)}"


def _seen(stream):
    return stream.process(Seen(), TEXT)


def _seconds(stream):
    windows = stream.key_by(by_name, TEXT).window(TumblingEventTimeWindows.of(Time.seconds(1)))
    return windows.process(Contents(), TEXT)


SECONDS = TumblingEventTimeWindows.of(Time.seconds(5))


def at_the_end(env):
    return _seen(_keyed(env).window(SECONDS).process(Total(), PAIR))


def early(env):
    return _seen(_keyed(env).window(SECONDS).trigger(CountTrigger.of(2)).process(Total(), PAIR))


def early_of_sliding(env):
    windows = _keyed(env).window(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2))).trigger(CountTrigger.of(2))
    return _seen(windows.process(Total(), PAIR))


def early_of_sessions(env):
    windows = _keyed(env).window(EventTimeSessionWindows.with_gap(Time.seconds(2))).trigger(CountTrigger.of(2))
    return _seen(windows.process(Total(), PAIR))


def early_reduce(env):
    windows = _keyed(env).window(SECONDS).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return _seen(windows.reduce(lambda one, other: (one[0], one[1] + other[1])))


def early_of_all(env):
    return _seen(_timed(env).window_all(SECONDS).trigger(CountTrigger.of(2)).process(Totals(), PAIR))


class AtTime(Trigger):
    """Fires a second behind each element, by event time."""

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(timestamp + 1000)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


def by_timers(env):
    """Windows that are gone when the timer fires aren't asked for: all timers lie in front of the end."""
    windows = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(100))).trigger(AtTime())
    return _seen(windows.process(Total(), PAIR))


def by_timers_one_after_another(env):
    windows = _keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(100))).trigger(AtTime())
    return _seconds(windows.process(Total(), PAIR))


def late(env):
    windows = _paced(env, [*PAIRS, ("a", 4700), ("b", 3)]).window(SECONDS).allowed_lateness(1500)
    tag = OutputTag("late", Types.TUPLE([Types.STRING(), Types.LONG()]))
    main = windows.side_output_late_data(tag).process(Total(), PAIR)
    return {"main": _seen(main), "late": _seen(main.get_side_output(tag))}


def count_windows(env):
    return _seen(_keyed(env).count_window(2).process(Total(), PAIR))


def count_windows_sliding(env):
    return _seen(_keyed(env).count_window(2, 1).process(Total(), PAIR))


def windows_after_count_windows(env):
    return _seconds(_keyed(env).count_window(2).process(Total(), PAIR))


def windows_after_count_windows_reduced(env):
    return _seconds(_keyed(env).count_window(2).reduce(lambda one, other: (one[0], one[1] + other[1])))


def sessions_after_count_windows(env):
    totals = _keyed(env).count_window(1).process(Total(), PAIR)
    return totals.key_by(by_name, TEXT).window(EventTimeSessionWindows.with_gap(Time.seconds(2))).process(Contents(), TEXT)


def windows_after_global_windows(env):
    windows = _keyed(env).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return _seconds(windows.process(Total(), PAIR))


def windows_after_global_windows_of_all(env):
    windows = _timed(env).window_all(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3)))
    return _seconds(windows.process(Totals(), PAIR))


def windows_after_early_ones(env):
    return _seconds(_keyed(env).window(SECONDS).trigger(CountTrigger.of(2)).process(Total(), PAIR))


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 500)
        yield value

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()}!", timestamp


def timers_after_count_windows(env):
    alarms = _keyed(env).count_window(2).process(Total(), PAIR).key_by(by_name, TEXT).process(Alarm(), PAIR)
    return _seen(alarms)


def by_the_clock(env):
    """The clock's windows: the results have no time, or that of their window."""
    windows = _paced(env, PAIRS[:3]).window(TumblingProcessingTimeWindows.of(Time.milliseconds(200)))
    return windows.process(Total(), PAIR).process(HasTime(), TEXT)


def sessions_by_the_clock(env):
    windows = _paced(env, PAIRS[:3]).window(ProcessingTimeSessionWindows.with_gap(Time.milliseconds(100)))
    sums = windows.process(Total(), PAIR).filter(lambda value: value[1] < 1000)  # the job may end in front of the last one
    return sums.process(HasTime(), TEXT)


class HasTime(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} {ctx.timestamp() is not None and ctx.timestamp() > 0}"


class Clock(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_processing_time_timer(value[1])
        return []

    def on_timer(self, timestamp, ctx):
        if timestamp < 1000:  # the job may end in front of the last one
            yield ctx.get_current_key(), timestamp


def timers_by_the_clock(env):
    return _seen(_paced(env, PAIRS[:3]).process(Clock(), PAIR))


def rolling(env):
    return _seen(_keyed(env).sum(1))


def reduced(env):
    return _seen(_keyed(env).reduce(lambda one, other: (one[0], one[1] + other[1])))


def steps_between(env):
    twice = _timed(env).map(lambda value: (value[0], value[1] + 1), PAIR).flat_map(lambda value: [value, value], PAIR)
    return _seen(twice.filter(lambda value: value[0] != "b").rebalance().union(_timed(env)))


class Both(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield value

    def process_element2(self, value, ctx):
        yield value[0] * 2, value[1]


def connected(env):
    return _seen(_keyed(env).connect(_keyed(env)).process(Both(), PAIR))


ONE_SUBTASK = (
    "early",
    "early_of_all",
    "early_of_sessions",
    "early_of_sliding",
    "early_reduce",
    "count_windows",
    "count_windows_sliding",
    "windows_after_count_windows",
    "windows_after_count_windows_reduced",
    "windows_after_global_windows",
    "windows_after_global_windows_of_all",
    "windows_after_early_ones",
    "timers_after_count_windows",
    "rolling",
    "reduced",
)
PACED = ("late", "by_the_clock", "sessions_by_the_clock", "timers_by_the_clock")
BATCH = ("at_the_end", "windows_after_count_windows", "by_timers")
