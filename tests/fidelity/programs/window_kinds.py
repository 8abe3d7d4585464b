"""Windows whose assigners, triggers and functions go together in ways that others haven't."""

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, OutputTag, Trigger, TriggerResult
from pyflink.datastream.functions import ProcessAllWindowFunction, ProcessWindowFunction, ReduceFunction, WindowFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pyflink.datastream.window import (
    ContinuousEventTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 10), ("b", 900), ("a", 1000), ("a", 5200), ("b", 1400), ("c", 3100), ("a", 2400), ("b", 7000), ("c", 2950)]
TEXT = Types.STRING()


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


def timed(env, elements=PAIRS):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    return env.from_collection(elements, PAIR).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )


def keyed(env, elements=PAIRS):
    return timed(env, elements).key_by(lambda value: value[0], TEXT)


def later(one, other):
    return one[0], one[1] + other[1]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window()} {sorted(element[1] for element in elements)}"


class Numbers(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {sorted(element[1] for element in elements)}"


class Applied(WindowFunction):
    def apply(self, key, window, inputs):
        return [f"{key} {window.start} {window.end} {list(inputs)}"]


class Largest(ReduceFunction):
    def reduce(self, one, other):
        return one if one[1] > other[1] else other


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


def sliding_with_gaps(env):
    windows = SlidingEventTimeWindows.of(Time.milliseconds(700), Time.seconds(2))
    return keyed(env).window(windows).process(Contents(), TEXT)


def sliding_of_odd_sizes(env):
    windows = SlidingEventTimeWindows.of(Time.milliseconds(2500), Time.milliseconds(900), Time.milliseconds(-300))
    return keyed(env).window(windows).process(Contents(), TEXT)


def sliding_before_1970(env):
    early = [("a", -1), ("a", -1500), ("a", -2000), ("b", 0), ("b", 499)]
    return keyed(env, early).window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1))).process(Contents(), TEXT)


def sliding_count_trigger(env):
    windows = keyed(env).window(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2))).trigger(CountTrigger.of(2))
    return windows.process(Sizes(), TEXT)


class Sizes(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key} {context.window().start} {len(list(elements))}"


def tumbling_reduce_class_and_apply(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(2)))
    return windows.reduce(Largest(), window_function=Applied(), output_type=TEXT)


def tumbling_aggregate_and_apply(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(2)))
    kind = Types.TUPLE([Types.LONG(), Types.LONG()])
    return windows.aggregate(Mean(), window_function=Applied(), accumulator_type=kind, output_type=TEXT)


def tumbling_untyped(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(3))).process(Numbers())


def tumbling_of_a_day_in_another_zone(env):
    windows = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))
    elements = [("a", 57_599_999), ("a", 57_600_000), ("b", 143_999_999), ("b", 144_000_000)]
    return keyed(env, elements).window(windows).process(Contents(), TEXT)


def tumbling_never(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(3))).trigger(NeverTrigger()).process(Contents(), TEXT)


def tumbling_count_reduce(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(30))).trigger(CountTrigger.of(2))
    return windows.reduce(later)


def tumbling_purging_count_reduce(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(30)))
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(2))).reduce(later)


def tumbling_purging_count_aggregate(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(30)))
    kind = Types.TUPLE([Types.LONG(), Types.LONG()])
    windows = windows.trigger(PurgingTrigger.of(CountTrigger.of(2)))
    return windows.aggregate(Mean(), accumulator_type=kind, output_type=Types.DOUBLE())


def tumbling_processing_trigger(env):
    """A trigger of the other time: nothing is due by the clock before the input ends."""
    windows = keyed(env).window(TumblingProcessingTimeWindows.of(Time.days(1000)))
    return windows.trigger(ProcessingTimeTrigger.create()).process(Numbers(), TEXT)


def session_purging_event_time(env):
    windows = keyed(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(1500)))
    return windows.trigger(PurgingTrigger.of(EventTimeTrigger.create())).process(Contents(), TEXT)


def session_purging_count(env):
    windows = keyed(env).window(EventTimeSessionWindows.with_gap(Time.seconds(3)))
    return windows.trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Numbers(), TEXT)


def session_reduce_with_window(env):
    windows = keyed(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(1401)))
    return windows.reduce(later, window_function=Contents(), output_type=TEXT)


def session_whose_ends_touch(env):
    elements = [("a", 0), ("a", 1000), ("a", 2001), ("b", 1000), ("b", 0), ("b", 500), ("c", 3000), ("c", 1000), ("c", 2000)]
    return keyed(env, elements).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).process(Contents(), TEXT)


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return 100 + element[1] // 2


def session_dynamic_reduce(env):
    return keyed(env).window(EventTimeSessionWindows.with_dynamic_gap(Gap())).reduce(later, Contents(), TEXT)


def session_before_1970(env):
    elements = [("b", -(2**40)), ("a", -5000), ("a", -4500), ("a", -1), ("a", 0), ("b", 7)]
    return keyed(env, elements).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).process(Contents(), TEXT)


def global_purging_aggregate(env):
    windows = keyed(env).window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    kind = Types.TUPLE([Types.LONG(), Types.LONG()])
    return windows.aggregate(Mean(), accumulator_type=kind, output_type=Types.DOUBLE())


def continuous_reduce(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(4)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.seconds(4))).reduce(later)


def continuous_of_sliding(env):
    windows = keyed(env).window(SlidingEventTimeWindows.of(Time.seconds(4), Time.seconds(2)))
    return windows.trigger(ContinuousEventTimeTrigger.of(Time.seconds(10))).process(Contents(), TEXT)


def count_assigner_reduce(env):
    return keyed(env).window(CountTumblingWindowAssigner.of(2)).reduce(later)


def count_assigner_sliding_aggregate(env):
    kind = Types.TUPLE([Types.LONG(), Types.LONG()])
    windows = keyed(env).window(CountSlidingWindowAssigner.of(2, 1))
    return windows.aggregate(Mean(), accumulator_type=kind, output_type=Types.DOUBLE())


def count_window_larger_slide(env):
    return keyed(env).count_window(2, 4).process(Numbers(), TEXT)


class Marks(Trigger):
    """Fires at the first element, purges at one that is marked, fires at a time of its own and at the end."""

    def on_element(self, element, timestamp, window, ctx):
        first = ctx.get_partitioned_state(ValueStateDescriptor("first", Types.BOOLEAN()))
        ctx.register_event_time_timer(window.max_timestamp() - 500)
        ctx.register_event_time_timer(window.max_timestamp())
        if first.value() is None:
            first.update(True)
            return TriggerResult.FIRE
        return TriggerResult.PURGE if element[1] % 1000 == 400 else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == window.max_timestamp() else TriggerResult.FIRE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(ValueStateDescriptor("first", Types.BOOLEAN())).clear()


def custom_trigger_that_purges(env):
    windows = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(3))).trigger(Marks())
    return windows.process(Contents(), TEXT)


class Listed(Trigger):
    """State of more than one kind: fires when three different numbers modulo 11 were seen."""

    def on_element(self, element, timestamp, window, ctx):
        seen = ctx.get_partitioned_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG()))
        seen.put(element[1] % 11, 1)
        order = ctx.get_partitioned_state(ListStateDescriptor("order", Types.LONG()))
        order.add(element[1])
        if len(list(seen.keys())) < 3:
            return TriggerResult.CONTINUE
        seen.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(MapStateDescriptor("seen", Types.LONG(), Types.LONG())).clear()
        ctx.get_partitioned_state(ListStateDescriptor("order", Types.LONG())).clear()


def custom_trigger_with_a_map(env):
    return keyed(env).window(GlobalWindows.create()).trigger(Listed()).process(Numbers(), TEXT)


OTHER = OutputTag("other", Types.STRING())


class Sides(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            if element[1] % 1000:
                yield OTHER, f"{element} {context.window().end}"
            else:
                yield element


def side_outputs_of_windows(env):
    main = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(2))).process(Sides(), PAIR)
    return {"main": main, "other": main.get_side_output(OTHER)}


class AllSides(ProcessAllWindowFunction):
    def process(self, context, elements):
        numbers = sorted(element[1] for element in elements)
        yield f"{context.window().start} {len(numbers)}"
        yield OTHER, f"{numbers}"


def side_outputs_of_all_windows(env):
    main = timed(env).window_all(TumblingEventTimeWindows.of(Time.seconds(2))).process(AllSides(), TEXT)
    return {"main": main, "other": main.get_side_output(OTHER)}


def windows_of_a_side_output(env):
    main = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Sides(), PAIR)
    texts = main.get_side_output(OTHER).map(lambda text: (text[2:3], 1), PAIR)
    ones = texts.key_by(lambda value: value[0], TEXT).window(TumblingEventTimeWindows.of(Time.seconds(4)))
    return ones.process(Contents(), TEXT)


def window_of_another_key(env):
    counted = keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(later)
    return (
        counted.key_by(lambda value: value[1] % 2, Types.LONG())
        .window(SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)))
        .process(Contents(), TEXT)
    )


def window_after_a_union(env):
    united = timed(env).union(timed(env, [("a", 4000), ("d", 100)]).map(lambda value: value, PAIR))
    return united.key_by(lambda value: value[0], TEXT).window(TumblingEventTimeWindows.of(Time.seconds(5))).reduce(later)


def window_of_rows(env):
    kind = Types.ROW_NAMED(["name", "time"], [TEXT, Types.LONG()])
    rows = timed(env).map(lambda value: Row(name=value[0], time=value[1]), kind)
    windows = rows.key_by(lambda row: row.name, TEXT).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    return windows.reduce(lambda one, other: Row(name=one.name, time=max(one.time, other.time)))


class Nothing(ProcessWindowFunction):
    def process(self, key, context, elements):
        return []


def windows_that_give_nothing(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.seconds(2))).process(Nothing(), TEXT)


ONE_SUBTASK = (
    "sliding_count_trigger",
    "tumbling_count_reduce",
    "tumbling_purging_count_reduce",
    "tumbling_purging_count_aggregate",
    "session_purging_count",
    "global_purging_aggregate",
    "count_assigner_reduce",
    "count_assigner_sliding_aggregate",
    "count_window_larger_slide",
    "custom_trigger_that_purges",
    "custom_trigger_with_a_map",
)
BATCH = (
    "sliding_of_odd_sizes",
    "session_dynamic_reduce",
    "tumbling_processing_trigger",
    "continuous_reduce",
)
