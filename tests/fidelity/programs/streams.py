"""Steps without time: union, connect, broadcast state, side outputs, partitioning, types."""

import datetime
import decimal

from pyflink.common import Row, Types
from pyflink.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
)
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

INT, TEXT = Types.INT(), Types.STRING()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 1), ("b", 2), ("a", 3), ("c", 4)]


def first(value):
    return value[0]


class Double(MapFunction):
    def map(self, value):
        return value * 2


class Even(FilterFunction):
    def filter(self, value):
        return value % 4 == 0


class Twice(FlatMapFunction):
    def flat_map(self, value):
        yield value
        yield value + 1


def map_filter_flat_map(env):
    numbers = env.from_collection([1, 2, 3, 4, 5], INT)
    return numbers.map(Double(), INT).filter(Even()).flat_map(Twice(), INT)


def untyped(env):
    return env.from_collection([1, "two", (3, None), [4.5], {"five": 5}, None, b"six", True]).map(lambda value: [value])


def union_of_three(env):
    one, two = env.from_collection([1, 2], INT), env.from_collection([2, 3], INT)
    return one.union(two, one.map(lambda value: value * 100, INT)).map(lambda value: value + 1, INT)


def union_of_a_stream_with_itself(env):
    numbers = env.from_collection([1, 2], INT)
    return numbers.union(numbers)


class CoMap(CoMapFunction):
    def map1(self, value):
        return f"first {value}"

    def map2(self, value):
        return f"second {value}"


class CoFlatMap(CoFlatMapFunction):
    def flat_map1(self, value):
        return [str(value)] * value

    def flat_map2(self, value):
        yield value


class CoProcess(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield f"1 {value} {ctx.timestamp()}"

    def process_element2(self, value, ctx):
        yield f"2 {value}"


def connected(env):
    numbers, words = env.from_collection([1, 2, 3], INT), env.from_collection(["x", "y"], TEXT)
    both = numbers.connect(words)
    return {
        "map": both.map(CoMap(), TEXT),
        "flat_map": both.flat_map(CoFlatMap(), TEXT),
        "process": both.process(CoProcess(), TEXT),
    }


class KeyedCoMap(CoMapFunction):
    def map1(self, value):
        return f"{value[0]} one {value[1]}"

    def map2(self, value):
        return f"{value[0]} two {value[1]}"


class Together(KeyedCoProcessFunction):
    """The sum of what both streams have for a key: the largest sum is what has seen all of it."""

    def open(self, runtime_context: RuntimeContext):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element1(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        if self.total.value() == 114:
            yield ctx.get_current_key()

    def process_element2(self, value, ctx):
        yield from self.process_element1(value, ctx)


def keyed_connected(env):
    one, two = env.from_collection(PAIRS, PAIR), env.from_collection([("a", 110), ("c", 110)], PAIR)
    keyed = one.key_by(first, TEXT).connect(two.key_by(first, TEXT))
    return {"map": keyed.map(KeyedCoMap(), TEXT), "process": keyed.process(Together(), TEXT)}


def rules_state():
    """Return a descriptor for each use: PyFlink can't ship one that was used in the program, and with it its types."""
    return MapStateDescriptor("rules", Types.STRING(), Types.LONG())


MISSED = OutputTag("missed", Types.STRING())


class Matched(BroadcastProcessFunction):
    """Rules and data in any order: each side tells what it has found of the other, so that no order counts."""

    def process_element(self, value, ctx):
        ctx.get_broadcast_state(rules_state())
        yield MISSED, value[0]

    def process_broadcast_element(self, value, ctx):
        rules = ctx.get_broadcast_state(rules_state())
        rules.put(value[0], value[1])
        yield f"{value[0]} {rules.contains(value[0])} {rules.get(value[0])}"


def broadcast(env):
    data, rules = env.from_collection(PAIRS, PAIR), env.from_collection([("a", 10), ("c", 20)], PAIR)
    main = data.connect(rules.broadcast(rules_state())).process(Matched(), TEXT)
    return {"main": main, "missed": main.get_side_output(MISSED)}


def seen_state():
    return MapStateDescriptor("seen", Types.STRING(), Types.STRING())


class KeyedMatched(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()} {self.count.value()}"

    def process_broadcast_element(self, value, ctx):
        seen = ctx.get_broadcast_state(seen_state())
        seen.put(value, value.upper())
        return []


def keyed_broadcast(env):
    data, words = env.from_collection(PAIRS, PAIR), env.from_collection(["x", "y"], TEXT)
    return data.key_by(first, TEXT).connect(words.broadcast(seen_state())).process(KeyedMatched(), TEXT)


ODD = OutputTag("odd", INT)
LARGE = OutputTag("large", TEXT)


class Split(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, value
        else:
            yield value
        if value > 3:
            yield LARGE, f"large {value}"


def side_outputs(env):
    split = env.from_collection([1, 2, 3, 4, 5], INT).process(Split(), INT)
    large = split.get_side_output(LARGE).map(lambda text: text.upper(), TEXT)
    return {"main": split, "odd": split.get_side_output(ODD), "large": large}


def partitioned(env):
    numbers = env.from_collection([1, 2, 3, 4, 5, 6], INT)
    return {
        "rebalance": numbers.rebalance().map(lambda value: value, INT),
        "shuffle": numbers.shuffle().map(lambda value: value, INT),
    }


def broadcast_to_all_subtasks(env):
    return env.from_collection([1, 2], INT).broadcast().map(lambda value: value, INT)


def rows(env):
    row = Types.ROW_NAMED(["name", "count"], [TEXT, Types.LONG()])
    typed = env.from_collection([Row("a", 1), Row("b", None)], row)
    return {
        "rows": typed.map(lambda value: Row(value[0], value[1]), row),
        "fields": typed.map(lambda value: f"{value.name} {value.count if callable(value.count) else 0}".split()[0], TEXT),
    }


def numbers_of_all_types(env):
    kinds = Types.TUPLE(
        [Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.BOOLEAN()]
    )
    smallest = (-128, -32768, -2147483648, -(2**63), -1.5, -1e300, False)
    largest = (127, 32767, 2147483647, 2**63 - 1, 0.25, 1e-300, True)
    return env.from_collection([smallest, largest], kinds).map(lambda value: value, kinds)


def dates_and_decimals(env):
    time = datetime.datetime.fromisoformat
    kinds = Types.TUPLE([Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()])
    values = [
        (datetime.date(1970, 1, 1), time("2024-02-29T23:59:59.123"), decimal.Decimal("12.50")),
        (datetime.date(2024, 12, 31), time("1999-01-01"), decimal.Decimal("-0.001")),
    ]
    return env.from_collection(values, kinds).map(lambda value: value, kinds)


def collections(env):
    kinds = Types.TUPLE([Types.LIST(Types.LONG()), Types.MAP(TEXT, Types.LONG()), Types.PRIMITIVE_ARRAY(Types.BYTE())])
    untyped = env.from_collection([([1, 2], {"a": 1}, b"xy"), ([], {}, b"")])
    return untyped.map(lambda value: value, kinds).rebalance()


BATCH = ("union_of_three",)
