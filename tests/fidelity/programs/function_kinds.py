"""State in functions that aren't process functions, kinds of time to live, side outputs after side outputs."""

from pyflink.common import Time, Types
from pyflink.datastream import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
)
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

INT, TEXT = Types.INT(), Types.STRING()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
SALES = [("a", 3), ("b", 5), ("a", 4), ("c", 1), ("b", 2), ("a", 10), ("c", 7), ("b", 5)]


def by_name(value):
    return value[0]


def _sales(env):
    return env.from_collection(SALES, PAIR).key_by(by_name, TEXT)


class RunningTotal(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def map(self, value):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        return value[0], total


class FirstOnly(FilterFunction):
    def open(self, runtime_context: RuntimeContext):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))

    def filter(self, value):
        known = self.seen.contains(value[1])
        self.seen.put(value[1], True)
        return not known


class CountWindowAverage(FlatMapFunction):
    """Flink's known answer: (1, 4) and (1, 5)."""

    def open(self, runtime_context: RuntimeContext):
        kind = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.sum = runtime_context.get_state(ValueStateDescriptor("average", kind))

    def flat_map(self, value):
        count, total = self.sum.value() or (0, 0)
        self.sum.update((count + 1, total + value[1]))
        if count + 1 >= 2:
            self.sum.clear()
            yield value[0], (total + value[1]) // (count + 1)


def map_with_state(env):
    return _sales(env).map(RunningTotal(), PAIR)


def filter_with_state(env):
    return _sales(env).filter(FirstOnly())


def count_window_average(env):
    kind = Types.TUPLE([Types.LONG(), Types.LONG()])
    values = env.from_collection([(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)], kind)
    return values.key_by(lambda value: value[0], Types.LONG()).flat_map(CountWindowAverage(), kind)


class EveryNth(FlatMapFunction):
    def __init__(self, number):
        self.number = number

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def flat_map(self, value):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count % self.number == 0:
            yield value


def every_thousandth(env):
    numbers = env.from_collection(list(range(2500)), INT)
    return numbers.key_by(lambda value: 0, INT).flat_map(EveryNth(1000), INT)


class Lag(MapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def map(self, value):
        last = self.last.value()
        self.last.update(value[1])
        return f"{value[0]} {last} {value[1]}"


def lag(env):
    days = [("a", 10), ("b", 7), ("c", 12), ("a", 5), ("b", 8), ("c", 3)]
    return env.from_collection(days, PAIR).key_by(by_name, TEXT).map(Lag(), TEXT)


class CoTotal(CoMapFunction):
    """Of both inputs; what stands in the state at the end depends on no order."""

    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda one, other: one + other, Types.LONG())
        )

    def map1(self, value):
        self.total.add(value[1])
        return value[0], self.total.get() // 1000

    def map2(self, value):
        return value[0], -value[1]


def co_map_with_state(env):
    others = env.from_collection([("a", 1), ("z", 2)], PAIR).key_by(by_name, TEXT)
    return _sales(env).connect(others).map(CoTotal(), PAIR)


class CoSeen(CoFlatMapFunction):
    def open(self, runtime_context: RuntimeContext):
        self.ones = runtime_context.get_list_state(ListStateDescriptor("ones", Types.LONG()))

    def flat_map1(self, value):
        self.ones.add(value[1])
        if len(list(self.ones.get())) == 3:
            yield f"{value[0]} {sorted(self.ones.get())}"

    def flat_map2(self, value):
        return [value[0]] * value[1]


def co_flat_map_with_state(env):
    others = env.from_collection([("a", 1), ("z", 2)], PAIR).key_by(by_name, TEXT)
    return _sales(env).connect(others).flat_map(CoSeen(), TEXT)


def connect_then_key_by(env):
    numbers = env.from_collection([3, 4, 5], Types.LONG())
    both = env.from_collection(SALES, PAIR).connect(numbers)
    return both.key_by(lambda value: value[1] % 2, lambda value: value % 2, Types.LONG()).process(ByRest(), TEXT)


class ByRest(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        yield f"{ctx.get_current_key()} {value[0]}"

    def process_element2(self, value, ctx):
        yield f"{ctx.get_current_key()} {value}"


ODD = OutputTag("odd", Types.LONG())
LARGE = OutputTag("large", Types.LONG())
UNTYPED = OutputTag("untyped")


class Odd(ProcessFunction):
    def process_element(self, value, ctx):
        yield (ODD, value[1]) if value[1] % 2 else value


class Large(ProcessFunction):
    def process_element(self, value, ctx):
        if value > 4:
            yield LARGE, value
        yield value


def side_outputs_one_after_another(env):
    split = env.from_collection(SALES, PAIR).process(Odd(), PAIR)
    odd = split.get_side_output(ODD).process(Large(), Types.LONG())
    large = odd.get_side_output(LARGE)
    return {"split": split, "odd": odd, "large": large, "again": large.union(odd.get_side_output(LARGE))}


class Untyped(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield UNTYPED, {value[0]: [value[1]]}
        yield UNTYPED, value[1] / 4


def side_output_without_a_type(env):
    split = _sales(env).process(Untyped(), TEXT)
    return {"main": split, "side": split.get_side_output(UNTYPED)}


class CoSides(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield ODD, value[1]

    def process_element2(self, value, ctx):
        yield f"{value}"
        yield LARGE, value


def side_outputs_of_connected(env):
    both = env.from_collection(SALES, PAIR).connect(env.from_collection([1, 2], Types.LONG()))
    main = both.process(CoSides(), TEXT)
    return {"main": main, "odd": main.get_side_output(ODD), "large": main.get_side_output(LARGE)}


def side_output_with_a_key(env):
    odd = env.from_collection(SALES, PAIR).process(Odd(), PAIR).get_side_output(ODD)
    return odd.key_by(lambda value: value % 3, Types.LONG()).reduce(lambda one, other: one + other)


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return f"sum {accumulator}"

    def merge(self, one, other):
        return one + other


class LivesLong(KeyedProcessFunction):
    """State of each kind with a time to live that is long, read and written, and shown when it is over."""

    def __init__(self, update, visibility):
        self.update = update
        self.visibility = visibility

    def open(self, runtime_context: RuntimeContext):
        ttl = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType[self.update])
            .set_state_visibility(StateTtlConfig.StateVisibility[self.visibility])
            .cleanup_full_snapshot()
            .build()
        )
        total = ReducingStateDescriptor("total", lambda one, other: one + other, Types.LONG())
        text = AggregatingStateDescriptor("text", Sum(), Types.LONG())
        last = ValueStateDescriptor("last", Types.LONG())
        seen = MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        for descriptor in (total, text, last, seen):
            descriptor.enable_time_to_live(ttl)
        self.total = runtime_context.get_reducing_state(total)
        self.text = runtime_context.get_aggregating_state(text)
        self.last = runtime_context.get_state(last)
        self.seen = runtime_context.get_map_state(seen)

    def process_element(self, value, ctx):
        self.total.add(value[1])
        self.text.add(value[1])
        self.seen.put(value[1], self.last.value())
        self.last.update(value[1])
        yield f"{value[0]} {self.total.get()} {self.text.get()} {sorted(self.seen.keys())}"


def ttl_by_reading(env):
    return _sales(env).process(LivesLong("OnReadAndWrite", "ReturnExpiredIfNotCleanedUp"), TEXT)


def ttl_by_writing(env):
    return _sales(env).process(LivesLong("OnCreateAndWrite", "NeverReturnExpired"), TEXT)


class Numbered(ProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.of = runtime_context.get_number_of_parallel_subtasks()

    def process_element(self, value, ctx):
        yield f"{value[1]} {0 <= self.subtask < self.of} {self.of}"


def where_it_runs(env):
    return env.from_collection(SALES, PAIR).rebalance().process(Numbered(), TEXT)


def union_of_keyed_streams(env):
    one, other = _sales(env), env.from_collection([("a", 100)], PAIR).key_by(by_name, TEXT)
    return one.union(other).map(lambda value: value[1], Types.LONG())


def key_by_twice(env):
    return _sales(env).key_by(lambda value: value[1] % 2, Types.LONG()).process(Keys(), TEXT)


class Keys(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield f"{ctx.get_current_key()} {value[1]}"


def keys_of_many_kinds(env):
    kinds = env.from_collection([(1, "x"), (2, "y")], Types.TUPLE([Types.INT(), Types.STRING()]))
    return {
        "boolean": kinds.key_by(lambda value: value[0] == 1, Types.BOOLEAN()).process(Keyed(), TEXT),
        "double": kinds.key_by(lambda value: value[0] / 4, Types.DOUBLE()).process(Keyed(), TEXT),
        "short": kinds.key_by(lambda value: value[0], Types.SHORT()).process(Keyed(), TEXT),
    }


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield f"{ctx.get_current_key()!r} {value[1]}"


ONE_SUBTASK = (
    "lag",
    "side_output_with_a_key",
    "map_with_state",
    "filter_with_state",
    "ttl_by_reading",
    "ttl_by_writing",
    "every_thousandth",
)
BATCH = ("map_with_state", "side_outputs_one_after_another", "connect_then_key_by", "union_of_keyed_streams")
