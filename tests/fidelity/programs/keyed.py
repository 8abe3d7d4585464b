"""Functions over keyed streams, and every kind of keyed state."""

from pyflink.common import Time, Types
from pyflink.datastream import AggregateFunction, KeyedProcessFunction, KeySelector, ReduceFunction, RuntimeContext
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
SALES = [("a", 3), ("b", 5), ("a", 4), ("c", 1), ("b", 2), ("a", 10), ("c", 7), ("b", 5)]


def by_name(value):
    return value[0]


def reduce_running(env):
    sales = env.from_collection(SALES, PAIR)
    return sales.key_by(by_name, Types.STRING()).reduce(lambda one, other: (one[0], max(one[1], other[1]) + 1))


class Longest(ReduceFunction):
    def reduce(self, one, other):
        return one if len(one) >= len(other) else other


class Length(KeySelector):
    def get_key(self, value):
        return len(value) % 2


def reduce_with_classes(env):
    words = env.from_collection(["a", "to", "tree", "day", "week", "b"], Types.STRING())
    return words.key_by(Length(), Types.INT()).reduce(Longest())


class Average(KeyedProcessFunction):
    """Flink's known answer: the average of every two values of a key."""

    def open(self, runtime_context: RuntimeContext):
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.sum = runtime_context.get_state(ValueStateDescriptor("average", pair))

    def process_element(self, value, ctx):
        count, total = self.sum.value() or (0, 0)
        count, total = count + 1, total + value[1]
        if count >= 2:
            self.sum.clear()
            yield value[0], total // count
        else:
            self.sum.update((count, total))


def value_state_average(env):
    values = env.from_collection([(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)], Types.TUPLE([Types.LONG(), Types.LONG()]))
    return values.key_by(lambda value: value[0], Types.LONG()).process(Average(), Types.TUPLE([Types.LONG(), Types.LONG()]))


class Kept(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))

    def process_element(self, value, ctx):
        self.values.add(value[1])
        kept = list(self.values.get())
        if len(kept) == 3:
            self.values.update(kept[1:])
            self.values.add_all([100, 200])
            yield value[0], ",".join(str(one) for one in self.values.get())
            self.values.clear()
            yield value[0], f"{len(list(self.values.get()))} left"


def list_state(env):
    return (
        env.from_collection(SALES, PAIR)
        .key_by(by_name, Types.STRING())
        .process(Kept(), Types.TUPLE([Types.STRING(), Types.STRING()]))
    )


class Seen(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.STRING()))

    def process_element(self, value, ctx):
        name, number = value
        was_empty, known = self.seen.is_empty(), self.seen.contains(number)
        self.seen.put(number, f"{self.seen.get(number)}{name}")
        if number > 9:
            self.seen.remove(3)
            self.seen.put_all({1: "one", 2: "two"}.items())
        items, keys, values = sorted(self.seen.items()), sorted(self.seen.keys()), sorted(self.seen.values())
        yield f"{name} {was_empty} {known} {items} {keys} {values}"
        if number == 7:
            self.seen.clear()
            yield f"{name} {self.seen.is_empty()} {self.seen.get(7)}"


def map_state(env):
    return env.from_collection(SALES, PAIR).key_by(by_name, Types.STRING()).process(Seen(), Types.STRING())


class Largest(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.largest = runtime_context.get_reducing_state(ReducingStateDescriptor("largest", max, Types.LONG()))

    def process_element(self, value, ctx):
        before = self.largest.get()
        self.largest.add(value[1])
        yield value[0], self.largest.get() if before is None else before * 100 + self.largest.get()


def reducing_state(env):
    return env.from_collection(SALES, PAIR).key_by(by_name, Types.STRING()).process(Largest(), PAIR)


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator):
        return accumulator[1] / accumulator[0]

    def merge(self, one, other):
        return one[0] + other[0], one[1] + other[1]


class Means(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), accumulator))

    def process_element(self, value, ctx):
        self.mean.add(value[1])
        yield value[0], self.mean.get()
        if value[1] == 4:
            self.mean.clear()


def aggregating_state(env):
    return (
        env.from_collection(SALES, PAIR)
        .key_by(by_name, Types.STRING())
        .process(Means(), Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    )


class Once(KeyedProcessFunction):
    """A value, a list and a map whose time to live is over, or isn't, when the next element comes."""

    def __init__(self, seconds):
        self.seconds = seconds

    def open(self, runtime_context: RuntimeContext):
        ttl = (
            StateTtlConfig.new_builder(Time.milliseconds(int(self.seconds * 1000)))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        descriptors = (
            ValueStateDescriptor("first", Types.LONG()),
            ListStateDescriptor("all", Types.LONG()),
            MapStateDescriptor("numbers", Types.LONG(), Types.LONG()),
        )
        for descriptor in descriptors:
            descriptor.enable_time_to_live(ttl)
        self.first = runtime_context.get_state(descriptors[0])
        self.all = runtime_context.get_list_state(descriptors[1])
        self.numbers = runtime_context.get_map_state(descriptors[2])

    def process_element(self, value, ctx):
        yield f"{value} {self.first.value()} {list(self.all.get() or [])} {sorted(self.numbers.items() or [])}"
        if self.first.value() is None:
            self.first.update(value[1])
        self.all.add(value[1])
        self.numbers.put(value[1], value[1] * 2)


def ttl_that_lasts(env):
    return env.from_collection(SALES, PAIR).key_by(by_name, Types.STRING()).process(Once(3600), Types.STRING())


class Pause:
    def __call__(self, value):
        import time

        time.sleep(0.25)
        return value


def ttl_that_ends(env):
    paced = env.from_collection([("a", 1), ("a", 2), ("a", 3)], PAIR).rebalance().map(Pause(), PAIR)
    return paced.key_by(by_name, Types.STRING()).process(Once(0.05), Types.STRING())


class EveryThird(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count % 3)
        if count == 3:
            yield value


def every_nth_of_all(env):
    return (
        env.from_collection(list(range(20)), Types.INT())
        .key_by(lambda value: 0, Types.INT())
        .process(EveryThird(), Types.INT())
    )


class Larger(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        last = self.last.value()
        if last is not None and value[1] > last:
            yield ctx.get_current_key(), value[1] - last
        self.last.update(value[1])


def larger_than_before(env):
    return env.from_collection(SALES, PAIR).key_by(by_name, Types.STRING()).process(Larger(), PAIR)


def keyed_map_filter_flat_map(env):
    keyed = env.from_collection(SALES, PAIR).key_by(by_name, Types.STRING())
    return {
        "map": keyed.map(lambda value: value[1] * 2, Types.LONG()),
        "filter": keyed.filter(lambda value: value[1] > 3),
        "flat_map": keyed.flat_map(lambda value: [value[0]] * value[1], Types.STRING()),
    }


def two_keys_one_after_another(env):
    sums = env.from_collection(SALES, PAIR).key_by(by_name, Types.STRING()).process(Larger(), PAIR)
    return sums.key_by(lambda value: value[1] % 2, Types.LONG()).map(lambda value: value[1], Types.LONG())


PACED = ("ttl_that_ends",)
BATCH = ("reduce_running", "keyed_map_filter_flat_map")
