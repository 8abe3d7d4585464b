"""Each kind of function is called as Flink calls it, with the state and the key it may use."""

from __future__ import annotations

import pytest

from pystate.common import Row, Types
from pystate.common.errors import ControlError, JobGraphError, StateError
from pystate.core.api.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pystate.testing import (
    BroadcastOperatorTestHarness,
    KeyedOneInputOperatorTestHarness,
    OneInputOperatorTestHarness,
    OperatorTestHarness,
    ProcessFunctionTestHarnesses,
    TwoInputOperatorTestHarness,
)

BACKENDS = pytest.mark.parametrize("state_backend", ["hashmap", "rocksdb"])


def first(element):
    return element[0]


def run(harness, elements):
    with harness:
        harness.open()
        harness.process_elements(elements)
        return harness.extract_output()


@pytest.mark.parametrize(
    ("kind", "function", "elements", "expected"),
    [
        (OperatorKind.MAP, lambda x: x + 1, [1, 2], [2, 3]),
        (OperatorKind.FLAT_MAP, lambda x: [x] * x, [0, 2], [2, 2]),
        (OperatorKind.FLAT_MAP, lambda x: None, [1], []),
        (OperatorKind.FILTER, lambda x: x % 2, [1, 2, 3], [1, 3]),
    ],
)
def test_plain_functions(kind, function, elements, expected):
    assert run(OneInputOperatorTestHarness(function, kind=kind), elements) == expected


def counting(base, method, result):
    """A function of class `base` that counts per key in keyed state."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def call(self, value):
        self.seen.update((self.seen.value() or 0) + 1)
        return result(value, self.seen.value())

    return type("Counting", (base,), {"open": open, method: call})()


@BACKENDS
@pytest.mark.parametrize(
    ("base", "method", "result", "expected"),
    [
        (MapFunction, "map", lambda value, n: (value, n), [("a", 1), ("b", 1), ("a", 2)]),
        (FlatMapFunction, "flat_map", lambda value, n: [value] * n, ["a", "b", "a", "a"]),
        (FilterFunction, "filter", lambda value, n: n == 1, ["a", "b"]),
    ],
)
def test_map_flat_map_and_filter_directly_after_key_by_have_keyed_state(base, method, result, expected, state_backend):
    function = counting(base, method, result)
    harness = KeyedOneInputOperatorTestHarness(function, str, Types.STRING(), state_backend=state_backend)
    assert run(harness, ["a", "b", "a"]) == expected


class Sum(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1]


PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
PAIRS = [("a", 1), ("b", 5), ("a", 2), ("a", 3)]
SUMS = [("a", 1), ("b", 5), ("a", 3), ("a", 6)]


@BACKENDS
@pytest.mark.parametrize("input_type", [PAIR, None])
@pytest.mark.parametrize("function", [Sum(), lambda a, b: (a[0], a[1] + b[1])], ids=["object", "lambda"])
def test_reduce_emits_the_rolling_result_of_each_key(function, input_type, state_backend):
    harness = KeyedOneInputOperatorTestHarness(
        function, first, Types.STRING(), kind=OperatorKind.REDUCE, input_type=input_type, state_backend=state_backend
    )
    assert run(harness, PAIRS) == SUMS


@pytest.mark.parametrize("parallelism", [1, 2])
def test_reduce_goes_on_after_a_restore(parallelism):
    with KeyedOneInputOperatorTestHarness(Sum(), first, Types.STRING(), input_type=PAIR) as harness:
        harness.open()
        harness.process_elements(PAIRS)
        harness.end_epoch()
        harness.process_element(("a", 1000))
        harness.roll_back_epoch()
        snapshots = [harness.snapshot(1)]
    found = []
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 1, parallelism, 128)):
        with KeyedOneInputOperatorTestHarness(
            Sum(), first, Types.STRING(), input_type=PAIR, parallelism=parallelism, subtask_index=index
        ) as harness:
            harness.initialize_state(share)
            harness.open()
            harness.process_elements([pair for pair in [("a", 10), ("b", 10)] if harness.owns_key(pair[0])])
            found += harness.extract_output()
    assert sorted(found) == [("a", 16), ("b", 15)]


def test_a_reduce_function_that_forgets_to_return_is_an_error():
    harness = KeyedOneInputOperatorTestHarness(lambda a, b: None, first, Types.STRING(), kind=OperatorKind.REDUCE)
    with harness, pytest.raises(StateError, match="returned None"):
        harness.open()
        harness.process_elements(PAIRS)


class Twice(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield value


def test_a_process_function_without_a_key():
    harness = ProcessFunctionTestHarnesses.for_process_function(Twice())
    harness.process_element(1)
    assert harness.extract_output() == [1, 1]
    harness.clear_output()
    assert harness.extract_output() == []
    harness.close()


def test_a_keyed_process_function_has_no_place_on_a_stream_without_a_key():
    class Keyed(KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key()

    with OneInputOperatorTestHarness(Keyed()) as harness, pytest.raises(JobGraphError, match="after key_by"):
        harness.open()


def test_a_function_of_another_kind_is_refused_by_name():
    harness = OneInputOperatorTestHarness(Twice(), kind=OperatorKind.MAP)
    with harness, pytest.raises(JobGraphError, match="Twice is no function for Map: it lacks map"):
        harness.open()


class Sides(CoMapFunction):
    def map1(self, value):
        return f"left {value}"

    def map2(self, value):
        return f"right {value}"


class Even(CoMapFunction):
    """Makes nothing of odd numbers: of connected streams, None is no element in PyFlink."""

    def map1(self, value):
        return None if value % 2 else value

    map2 = map1


class Repeat(CoFlatMapFunction):
    def flat_map1(self, value):
        return [value] * 2

    def flat_map2(self, value):
        return None


class Switch(CoProcessFunction):
    """The second stream says which elements of the first go on."""

    def open(self, runtime_context):
        self.wanted = None

    def process_element1(self, value, ctx):
        if value == self.wanted:
            yield value

    def process_element2(self, value, ctx):
        self.wanted = value


@pytest.mark.parametrize(
    ("function", "expected"),
    [(Sides(), ["left 1", "right 2", "left 2"]), (Even(), [2, 2]), (Repeat(), [1, 1, 2, 2]), (Switch(), [2])],
    ids=lambda one: type(one).__name__,
)
def test_functions_over_two_streams(function, expected):
    with TwoInputOperatorTestHarness(function) as harness:
        harness.open()
        harness.process_element1(1)
        harness.process_element2(2)
        harness.process_element1(2)
        assert harness.extract_output() == expected


class Join(KeyedCoProcessFunction):
    """Joins orders with the name that the other stream gave for their key; both sides see the same state."""

    def open(self, runtime_context):
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element1(self, value, ctx):
        name = self.name.value()
        if name is None:
            self.waiting.add(value[1])
        else:
            yield ctx.get_current_key(), name, value[1]

    def process_element2(self, value, ctx):
        self.name.update(value[1])
        for order in self.waiting.get():
            yield ctx.get_current_key(), value[1], order
        self.waiting.clear()


@BACKENDS
def test_both_inputs_of_a_keyed_function_see_the_state_of_their_key(state_backend):
    harness = ProcessFunctionTestHarnesses.for_keyed_co_process_function(
        Join(), first, first, Types.LONG(), state_backend=state_backend
    )
    harness.process_element1((1, "book"))
    harness.process_element1((2, "pen"))
    harness.process_element2((1, "Ada"))
    harness.end_epoch()
    harness.process_element2((2, "Bob"))
    harness.roll_back_epoch()
    snapshot = harness.snapshot(1)
    assert harness.extract_output() == [(1, "Ada", "book")]
    harness.close()
    harness = TwoInputOperatorTestHarness(Join(), first, first, Types.LONG(), state_backend=state_backend)
    with harness:
        harness.initialize_state(snapshot)
        harness.open()
        harness.process_element2((2, "Eve"))
        harness.process_element1((1, "lamp"))
        assert harness.extract_output() == [(2, "Eve", "pen"), (1, "Ada", "lamp")]


def test_an_element_of_another_subtasks_key_is_refused_on_either_input():
    with TwoInputOperatorTestHarness(Join(), first, first, Types.LONG(), parallelism=2) as harness:
        harness.open()
        foreign = next(key for key in range(100) if not harness.owns_key(key))
        for process in (harness.process_element1, harness.process_element2):
            with pytest.raises(ControlError, match="reached subtask 0"):
                process((foreign, "x"))


LIMIT = MapStateDescriptor("limit", Types.STRING(), Types.LONG())


class Below(BroadcastProcessFunction):
    """Lets elements below the limit through."""

    def process_element(self, value, ctx):
        limit = ctx.get_broadcast_state(LIMIT).get("limit")
        if limit is not None and value < limit:
            yield value

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(LIMIT).put("limit", value)
        return [f"limit {value}"]


def test_a_broadcast_function_without_a_key():
    harness = ProcessFunctionTestHarnesses.for_broadcast_process_function(Below(), LIMIT)
    harness.process_element(1)
    harness.process_broadcast_element(5)
    harness.process_element(1)
    harness.end_epoch()
    harness.process_broadcast_element(0)
    harness.roll_back_epoch()
    harness.process_elements([4, 5, 6])
    assert harness.extract_output() == ["limit 5", 1, 4]
    harness.close()


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_subtask_gets_a_copy_of_the_broadcast_state(parallelism):
    snapshots = []
    for index in range(2):
        with BroadcastOperatorTestHarness(Below(), [LIMIT], parallelism=2, subtask_index=index) as harness:
            harness.open()
            harness.process_broadcast_element(5)
            snapshots.append(harness.snapshot(1))
    for index, share in enumerate(OperatorTestHarness.repartition(snapshots, 2, parallelism, 128)):
        with BroadcastOperatorTestHarness(Below(), [LIMIT], parallelism=parallelism, subtask_index=index) as harness:
            harness.initialize_state(share)
            harness.open()
            harness.process_elements([4, 6])
            assert harness.extract_output() == [4]


class Meddler(KeyedBroadcastProcessFunction):
    """Tries what it must not."""

    def __init__(self, on_data=None, on_broadcast=None):
        self.on_data, self.on_broadcast = on_data, on_broadcast
        self.kept = None

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        if self.on_data is not None:
            self.on_data(self, ctx)
        yield ctx.get_current_key(), self.count.value()

    def process_broadcast_element(self, value, ctx):
        self.kept = ctx.get_broadcast_state(LIMIT)
        if self.on_broadcast is not None:
            self.on_broadcast(self, ctx)


def meddling(function):
    return ProcessFunctionTestHarnesses.for_keyed_broadcast_process_function(function, str, Types.STRING(), LIMIT)


@pytest.mark.parametrize(
    "write",
    [
        lambda function, ctx: ctx.get_broadcast_state(LIMIT).put("limit", 1),
        lambda function, ctx: ctx.get_broadcast_state(LIMIT).clear(),
        lambda function, ctx: function.kept.put("limit", 1),
        lambda function, ctx: function.kept.remove("limit"),
    ],
)
def test_broadcast_state_is_written_on_the_broadcast_side_only(write):
    harness = meddling(Meddler(on_data=write))
    harness.process_broadcast_element("any")
    with pytest.raises(StateError, match="only process_broadcast_element may write"):
        harness.process_element("a")
    harness.roll_back_epoch()
    harness.process_broadcast_element("any")
    harness.close()


def test_there_is_no_current_key_on_the_broadcast_side():
    harness = meddling(Meddler(on_broadcast=lambda function, ctx: function.count.value()))
    harness.process_element("a")
    with pytest.raises(StateError, match="no current key"):
        harness.process_broadcast_element("any")
    harness.close()


@pytest.mark.parametrize(
    "descriptor",
    [
        MapStateDescriptor("limits", Types.STRING(), Types.LONG()),
        MapStateDescriptor("limit", Types.STRING(), Types.STRING()),
        MapStateDescriptor("limit", Types.LONG(), Types.LONG()),
    ],
)
def test_a_broadcast_state_that_was_not_declared_does_not_exist(descriptor):
    harness = meddling(Meddler(on_data=lambda function, ctx: ctx.get_broadcast_state(descriptor)))
    with pytest.raises(StateError, match="does not exist; declared are: MapStateDescriptor"):
        harness.process_element("a")
    harness.close()


@BACKENDS
def test_a_broadcast_element_visits_the_keyed_state_of_all_keys(state_backend):
    visited = []

    def double(key, state):
        visited.append((key, state.value()))
        state.update(state.value() * 2)

    def visit(function, ctx):
        ctx.apply_to_keyed_state(ValueStateDescriptor("count", Types.LONG()), double)

    harness = BroadcastOperatorTestHarness(
        Meddler(on_broadcast=visit), [LIMIT], str, Types.STRING(), state_backend=state_backend
    )
    with harness:
        harness.open()
        harness.process_elements(["a", "b", "a"])
        harness.end_epoch()
        harness.process_element("c")
        harness.process_broadcast_element("visit")
        assert sorted(visited) == [("a", 2), ("b", 1), ("c", 1)]
        harness.process_element("a")
        assert harness.extract_output()[-1] == ("a", 5)
        harness.roll_back_epoch()
        harness.process_element("a")
        assert harness.extract_output()[-1] == ("a", 3)


class CountAndSum(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += 1
        accumulator[1] += value
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class EveryThousand(KeyedProcessFunction):
    """Counts in aggregating state; emits and clears at every 1,000th record of a key."""

    def open(self, runtime_context):
        descriptor = AggregatingStateDescriptor("stats", CountAndSum(), Types.LIST(Types.LONG()))
        self.stats = runtime_context.get_aggregating_state(descriptor)

    def process_element(self, value, ctx):
        self.stats.add(value[1])
        count, total = self.stats.get()
        if count >= 1000:
            yield ctx.get_current_key(), count, total
            self.stats.clear()


@BACKENDS
@pytest.mark.parametrize("epoch_size", [1, 700, 10_000])
def test_aggregating_state_emits_and_clears_at_every_thousandth_record(state_backend, epoch_size):
    if epoch_size == 1:
        count, epoch_size = 2500, 50
    else:
        count = 7000
    records = [("even" if i % 2 == 0 else "odd", i) for i in range(count)]
    harness = ProcessFunctionTestHarnesses.for_keyed_process_function(
        EveryThousand(), first, Types.STRING(), state_backend=state_backend
    )
    for start in range(0, count, epoch_size):
        harness.process_elements(records[start : start + epoch_size])
        harness.end_epoch()
    expected = []
    for thousand in range(count // 2000):
        base = thousand * 2000
        # the sum of 1,000 numbers that are two apart, from `base` on
        expected += [("even", 1000, 1000 * base + 999_000), ("odd", 1000, 1000 * (base + 1) + 999_000)]
    assert harness.extract_output() == expected
    harness.close()


def test_rows_and_typed_elements_arrive_as_they_do_in_a_job():
    row = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
    harness = OneInputOperatorTestHarness(
        lambda r: Row(word=r.word * r.n, n=0), kind=OperatorKind.MAP, input_type=row, output_type=row
    )
    assert run(harness, [Row(word="a", n=3)]) == [Row(word="aaa", n=0)]


def test_the_runtime_context_tells_where_the_function_runs():
    told = []

    class Asks(MapFunction):
        def open(self, c):
            told.extend(
                [
                    c.get_index_of_this_subtask(),
                    c.get_number_of_parallel_subtasks(),
                    c.get_max_number_of_parallel_subtasks(),
                    c.get_attempt_number(),
                    c.get_job_parameter("a", "-"),
                    c.get_job_parameter("b", "-"),
                ]
            )

        def map(self, value):
            return value

    with OneInputOperatorTestHarness(
        Asks(), parallelism=3, subtask_index=2, max_parallelism=30, attempt=4, job_parameters={"a": 1}
    ) as harness:
        harness.open()
    assert told == [2, 3, 30, 4, "1", "-"]
