"""Programs for the real-time engine whose slots import them."""

from __future__ import annotations

import time
from pathlib import Path

from pystate.common import Row, RowKind, Time, Types, WatermarkStrategy
from pystate.common.time import current_time_ms
from pystate.common.watermark_strategy import TimestampAssigner
from pystate.connectors.generated.data_generator_source import DataGeneratorSource, Pace, RateLimiterStrategy
from pystate.connectors.generated.iterator_source import RangeReader
from pystate.connectors.source import SourceClock
from pystate.datastream import KeyedProcessFunction
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.functions import MapFunction, ProcessWindowFunction
from pystate.datastream.state import ValueStateDescriptor
from pystate.datastream.window import TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = 17
GROUPS = 5


class Count(KeyedProcessFunction):
    """Counts per key; fails where there is a mark, and takes it away."""

    def __init__(self, mark=None):
        self.mark = mark

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        if self.mark is not None and Path(self.mark).exists():
            Path(self.mark).unlink()
            raise ValueError(value)
        self.count.update((self.count.value() or 0) + 1)
        yield value % KEYS, self.count.value()


def refuse(value):
    raise ValueError(value)


def always_fails(environment):
    """No attempt comes anywhere."""
    environment.from_collection([1, 2, 3], Types.LONG()).map(refuse, Types.LONG()).uid("refuses").print()


class Reciprocal(KeyedProcessFunction):
    """Counts, and then fails at 0."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield 100 // value[1]


def divides(environment):
    """Fails at the third element of "a"."""
    pairs = environment.from_collection([("a", 3), ("b", 1), ("a", 4), ("a", 0)])
    _divided(pairs)


def divides_long_ones(environment):
    """Fails at an element of more than a kilobyte."""
    _divided(environment.from_collection([("a" * 3000, 0)]))


def _divided(pairs):
    pairs.key_by(lambda pair: pair[0], key_type=Types.STRING()).process(Reciprocal()).uid("divides").print()


class InOrder(KeyedProcessFunction):
    """Hands counts on, of which each must be one more than the one before: nothing is lost, doubled or overtaken."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("last", Types.MAP(Types.LONG(), Types.LONG()))
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        key, count = value
        last = dict(self.last.value() or {})
        if last.get(key, 0) + 1 != count:
            message = f"{count} of {key} after {last.get(key, 0)}"
            raise AssertionError(message)
        last[key] = count
        self.last.update(last)
        yield value


class SlowInOrder(InOrder):
    """The same, and takes its time until there is a file."""

    def __init__(self, seconds, gate):
        self.seconds = seconds
        self.gate = gate

    def process_element(self, value, ctx):
        if not Path(self.gate).exists():
            time.sleep(self.seconds)
        yield from super().process_element(value, ctx)


def numbers(count, per_second, gate=None):
    if gate is not None:
        return GatedNumbers(gate, count, per_second)
    return DataGeneratorSource(_same, count, RateLimiterStrategy.per_second(per_second), Types.LONG())


class GatedNumbers(DataGeneratorSource):
    """Numbers of which each attempt reads no more than a quarter until there is a file, however slow the machine is.

    With `late` only that subtask waits for the file; the others come to their end, once it has a split.
    """

    def __init__(self, gate, count, per_second, late=None):
        super().__init__(_same, count, None, Types.LONG())
        self.gate = gate
        self.late = late
        self.quarter = count // 4
        self.per_second = per_second

    def create_reader(self, context):
        parallelism = context.current_parallelism()
        pace, left = Pace(self.per_second / parallelism, SourceClock()), [self.quarter // parallelism]
        waits, begun = self.late in (None, context.get_index_of_subtask()), Path(f"{self.gate}-begun")

        def allowed(wanted):
            if waits:
                begun.touch()
            elif not begun.exists():
                return 0
            count = pace.allowed(min(wanted, left[0]) if waits and not Path(self.gate).exists() else wanted)
            left[0] = max(0, left[0] - count)
            return count

        return RangeReader(context, _same, allowed, lambda: max(pace.next_at(), current_time_ms() + 10))


class PacedNumbers(DataGeneratorSource):
    """Numbers that come at a rate until there is a file, and then as fast as they can."""

    def __init__(self, gate, count, per_second):
        super().__init__(_same, count, None, Types.LONG())
        self.gate = gate
        self.per_second = per_second

    def create_reader(self, context):
        pace = Pace(self.per_second / context.current_parallelism(), SourceClock())
        return RangeReader(
            context, _same, lambda wanted: wanted if Path(self.gate).exists() else pace.allowed(wanted), pace.next_at
        )


def counts(count=4000, per_second=1500, mark=None, slow=0.0, slow_until=None, gate=None):
    """Return the program: numbers, counted by key, and looked at by group of keys after another shuffle.

    Args:
        count: How many numbers.
        per_second: Of them.
        mark: Where this file is, counting fails.
        slow: Seconds for each look.
        slow_until: The file with which looks are fast.
        gate: The file without which an attempt reads no more than a quarter.
    """

    def program(environment):
        stream = environment.from_source(numbers(count, per_second, gate), None, "numbers").uid("numbers")
        counted = stream.key_by(_key, Types.LONG()).process(Count(mark), PAIR).uid("count")
        look = SlowInOrder(slow, slow_until) if slow else InOrder()
        counted.key_by(_group, Types.LONG()).process(look, PAIR).uid("in order").print()

    return program


def _same(number):
    return number


def _key(number):
    return number % KEYS


def _group(pair):
    return pair[0] % GROUPS


class Slowly(MapFunction):
    """Hands elements on, not too fast, until there is a file."""

    def __init__(self, seconds, gate=None):
        self.seconds = seconds
        self.gate = gate

    def map(self, value):
        if self.gate is None or not Path(self.gate).exists():
            time.sleep(self.seconds)
        return value


class SlowInOne(Slowly):
    """Hands elements on, not too fast in the second subtask."""

    def open(self, runtime_context):
        self.is_slow = runtime_context.get_index_of_this_subtask() == 1

    def map(self, value):
        return super().map(value) if self.is_slow else value


def one_slow_channel(count, per_second, seconds):
    """Return the program: numbers, counted by key, whose second source takes its time for each, and so for barriers."""

    def program(environment):
        stream = environment.from_source(numbers(count, per_second), None, "numbers").uid("numbers")
        slow = stream.map(SlowInOne(seconds), Types.LONG()).uid("slow")
        slow.key_by(_key, Types.LONG()).process(Count(), PAIR).uid("count").print()

    return program


class Once(KeyedProcessFunction):
    """Counts each line."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


def slow_lines(folder, seconds, interval_ms=None, gate=None):
    """Return the program: the lines of a folder, read not too fast until there is a file, each counted."""

    def program(environment):
        source = FileSource(folder, interval_ms)
        lines = environment.from_source(source, None, "lines").uid("lines")
        lines = lines.map(Slowly(seconds, gate), Types.STRING())
        counted = lines.key_by(_itself, Types.STRING()).process(Once(), Types.TUPLE([Types.STRING(), Types.LONG()]))
        counted.uid("count").print()

    return program


class _At(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value["at"]


class _Windowed(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, len(list(elements))


def per_ten_seconds(source):
    """Return the program: rows by their `k` and ten seconds of their `at`."""

    def program(environment):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_At())
        rows = environment.from_source(source, strategy, "rows")
        windows = rows.key_by(_k, Types.STRING()).window(TumblingEventTimeWindows.of(Time.seconds(10)))
        windows.process(_Windowed(), Types.TUPLE([Types.STRING(), Types.LONG()])).print()

    return program


def _itself(value):
    return value


def _k(row):
    return row["k"]


class SlowSubtask(MapFunction):
    """Hands elements on; until there is a file one subtask takes its time now and then, so that barriers that come through
    it come late: from when the file `late` is there.
    """

    def __init__(self, seconds, gate):
        self.seconds = seconds
        self.gate = gate

    def open(self, runtime_context):
        self.is_slow = runtime_context.get_index_of_this_subtask() == 1

    def map(self, value):
        if self.is_slow and value % 50 == 0 and not Path(self.gate).exists():
            Path(self.gate).with_name("late").touch()
            time.sleep(self.seconds)
        return value


def late_barriers(count, per_second, seconds, gate):
    """Return the program: numbers, counted by key; one of the two ways to the counters is slow until a file is there."""

    def program(environment):
        stream = environment.from_source(PacedNumbers(gate, count, per_second), None, "numbers").uid("numbers")
        stream = stream.map(SlowSubtask(seconds, gate), Types.LONG())
        stream.key_by(_key, Types.LONG()).process(Count(), PAIR).uid("count").print()

    return program


class Alarm(KeyedProcessFunction):
    """Has a timer of event time for each element, which fires at the end of it."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        yield f"fired {timestamp}"


def alarms(environment):
    """Timers of event time after a collection."""
    numbers = environment.from_collection([1, 2, 3], Types.LONG()).uid("numbers")
    numbers.key_by(_same, Types.LONG()).process(Alarm(), Types.STRING()).uid("alarms").print()


class FalseAlarm(Alarm):
    """Fails at the timer of 2."""

    def on_timer(self, timestamp, ctx):
        yield f"fired {1 // (timestamp - 2)}"


def false_alarms(environment):
    """A timer of event time that fails after a collection."""
    numbers = environment.from_collection([1, 2, 3], Types.LONG()).uid("numbers")
    numbers.key_by(_same, Types.LONG()).process(FalseAlarm(), Types.STRING()).uid("alarms").print()


CHANGE = Types.ROW_NAMED(["key", "n"], [Types.LONG(), Types.LONG()])


def change_of(number):
    """Return a row whose kind follows from its number."""
    return Row.of_kind(RowKind(number % 4), key=number % KEYS, n=number)


class Kinds(KeyedProcessFunction):
    """Tells of each row its number and kind, as long as there is a file slowly."""

    def __init__(self, slow_until):
        self.slow_until = slow_until

    def process_element(self, value, ctx):
        if not Path(self.slow_until).exists():
            time.sleep(0.02)
        yield value.n, value.get_row_kind().value


def changes(count, slow_until, type_info):
    """Rows of all kinds, declared or not, to another task; printed pairs of number and kind."""

    def program(environment):
        numbers_ = environment.from_source(numbers(count, 100_000), None, "numbers").uid("numbers")
        rows = numbers_.map(change_of, type_info).key_by(lambda row: row.key, Types.LONG())
        rows.process(Kinds(slow_until), PAIR).uid("kinds").print()

    return program
