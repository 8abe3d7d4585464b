"""Which subtask an element goes to; projections; kinds of rows and keys that cross from task to task."""

from pyflink.common import Duration, Row, RowKind, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import KeyedProcessFunction, KeySelector, MapFunction, Partitioner, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor

TRIPLE = Types.TUPLE([Types.STRING(), Types.INT(), Types.DOUBLE()])
TRIPLES = [("a", 1, 0.5), ("b", 2, 1.5), ("a", 3, 2.5), ("c", 4, 3.5), ("b", 6, 4.5)]
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
TEXT = Types.STRING()


def project_one(env):
    return env.from_collection(TRIPLES, TRIPLE).project(1)


def project_in_another_order(env):
    return env.from_collection(TRIPLES, TRIPLE).project(2, 0)


def project_a_field_twice(env):
    return env.from_collection(TRIPLES, TRIPLE).project(0, 1, 0).map(lambda value: value)


class Subtask(MapFunction):
    """Tells which subtask has an element, by its index."""

    def open(self, runtime_context: RuntimeContext):
        self.index = runtime_context.get_index_of_this_subtask()

    def map(self, value):
        return f"{value} {self.index}"


def partition_custom_function(env):
    split = env.from_collection(TRIPLES, TRIPLE).partition_custom(lambda key, count: key % count, lambda value: value[1])
    return split.map(Subtask(), TEXT)


class ByLetter(Partitioner):
    def open(self, runtime_context: RuntimeContext):
        self.letters = "abc"

    def partition(self, key, num_partitions):
        return self.letters.index(key) % num_partitions


class Letter(KeySelector):
    def get_key(self, value):
        return value[0]


def partition_custom_classes(env):
    return env.from_collection(TRIPLES, TRIPLE).partition_custom(ByLetter(), Letter()).map(Subtask(), TEXT)


def partition_custom_untyped(env):
    split = env.from_collection(["a", 2, (4, 5)]).partition_custom(lambda key, count: count - 1, lambda value: value)
    return split.map(Subtask(), TEXT)


def partition_custom_then_key_by(env):
    split = env.from_collection(TRIPLES, TRIPLE).partition_custom(lambda key, count: 0, lambda value: value[1])
    return split.key_by(lambda value: value[0], TEXT).sum(1)


def force_non_parallel(env):
    alone = env.from_collection(TRIPLES, TRIPLE).rebalance().map(Subtask(), TEXT).force_non_parallel()
    return alone.map(lambda text: text.upper(), TEXT)


def rescale_and_forward(env):
    numbers = env.from_collection([1, 2, 3, 4, 5], Types.INT())
    return {
        "rescale": numbers.rescale().map(lambda value: value + 1, Types.INT()),
        "forward": numbers.map(lambda value: value, Types.INT()).forward().map(lambda value: value * 2, Types.INT()),
    }


KINDS = (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)


def of_kind(number):
    row = Row("a" if number % 2 else "b", number)
    row.set_row_kind(KINDS[number % 4])
    return row


def described(row):
    return f"{row[0]} {row[1]} {row.get_row_kind()}"


def row_kinds_of_untyped_rows(env):
    rows = env.from_collection([0, 1, 2, 3, 4], Types.INT()).map(of_kind)
    return rows.rebalance().map(described, TEXT)


class LastRow(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        row = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.INT()])
        self.last = runtime_context.get_state(ValueStateDescriptor("last", row))

    def process_element(self, value, ctx):
        last = self.last.value()
        self.last.update(of_kind(value))
        yield f"{value} after {'nothing' if last is None else described(last)}"


def row_kinds_in_state(env):
    numbers = env.from_collection([0, 1, 2, 3, 4], Types.INT())
    return numbers.key_by(lambda number: number % 2, Types.INT()).process(LastRow(), TEXT)


class Counted(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()} {self.count.value()}"


def keys_without_a_type(env):
    return env.from_collection(TRIPLES, TRIPLE).key_by(lambda value: value[0]).process(Counted(), TEXT)


def keys_that_are_pickled(env):
    keyed = env.from_collection(TRIPLES, TRIPLE).key_by(lambda value: value[0], Types.PICKLED_BYTE_ARRAY())
    return keyed.process(Counted(), TEXT)


def keys_that_are_tuples(env):
    keyed = env.from_collection(TRIPLES, TRIPLE).key_by(lambda value: (value[0], value[1] % 2))
    return keyed.process(Counted(), TEXT)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Pause:
    """A pause in front of each element; a long one in front of all, for workers to start."""

    def __init__(self, first_s, pause_s):
        self.first_s = first_s
        self.pause_s = pause_s

    def __call__(self, value):
        import time

        time.sleep(self.first_s if value[1] == 0 else self.pause_s)
        return value


class Seen(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value[0]} {value[1]} {ctx.timer_service().current_watermark()}"


def two_sources(env, idle):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(SecondField())
    busy = env.from_collection([("busy", number) for number in (0, 100, 200, 300)], PAIR)
    busy = busy.rebalance().map(Pause(3, 0.4), PAIR).assign_timestamps_and_watermarks(strategy)
    silent = env.from_collection([("silent", number) for number in (0, 1, 2, 3)], PAIR)
    silent = silent.rebalance().map(Pause(3, 0.7), PAIR).filter(lambda value: False)
    silent = silent.assign_timestamps_and_watermarks(strategy.with_idleness(Duration.of_millis(150)) if idle else strategy)
    return busy.union(silent).key_by(lambda value: value[0], TEXT).process(Seen(), TEXT)


def union_with_an_idle_source(env):
    return two_sources(env, True)


def union_with_a_silent_source(env):
    return two_sources(env, False)


PACED = ("union_with_an_idle_source", "union_with_a_silent_source")
BATCH = ("project_in_another_order", "partition_custom_then_key_by")
