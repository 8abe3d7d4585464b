"""`process_batch`: columns in, columns out, and the state of many keys at once."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pystate.common import Row, RowKind, TypeInformation, Types
from pystate.common.errors import JobGraphError, RecordError, StateError
from pystate.common.time import Time
from pystate.datastream import (
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.runtime.slot.chain.input_processors import one_key_each
from pystate.testing import KeyedOneInputOperatorTestHarness

BACKENDS = ["hashmap", "rocksdb"]
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
ORDER = Types.ROW_NAMED(["customer", "amount"], [Types.STRING(), Types.DOUBLE()])


class Totals(KeyedBatchProcessFunction):
    """The sum of each key's numbers, once per batch and key."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_batch(self, batch, ctx):
        sums = pa.table({"key": batch.key_index, "number": batch.data.column("f1")})
        sums = sums.group_by("key").aggregate([("number", "sum")]).sort_by("key")
        new = [
            (old or 0) + added
            for old, added in zip(batch.get(self.total), sums.column("number_sum").to_pylist(), strict=True)
        ]
        batch.update(self.total, new)
        return pa.table({"f0": list(batch.keys), "f1": new})


class TotalsByElement(KeyedProcessFunction):
    """The same sums, after each element."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value[1])
        yield value[0], self.total.value()


def harness(function: Any, **more: Any) -> KeyedOneInputOperatorTestHarness:
    options = {"input_type": PAIR, "output_type": PAIR, **more}
    made = KeyedOneInputOperatorTestHarness(function, lambda value: value[0], Types.STRING(), **options)
    made.open()
    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", range(3))
def test_state_is_that_of_the_function_that_takes_one_element_at_a_time(backend: str, seed: int) -> None:
    chance = random.Random(seed)
    batches, elements = harness(Totals(), state_backend=backend), harness(TotalsByElement(), state_backend=backend)
    for number in range(12):
        rows = [(f"k{chance.randrange(20)}", chance.randrange(100)) for _ in range(chance.randrange(1, 40))]
        for one in (batches, elements):
            one.process_elements(rows)
            if number % 4 == 1:
                one.roll_back_epoch()
            elif number % 2:
                one.end_epoch()
            if number % 5 == 4:
                snapshot = one.snapshot(number)
                assert snapshot.checkpoint_id == number
    final = dict(elements.extract_output())
    assert dict(batches.extract_output()) == final
    assert batches.num_keyed_state_entries() == elements.num_keyed_state_entries() > 0
    batches.close()
    elements.close()


def test_a_snapshot_of_one_goes_on_in_the_other() -> None:
    with harness(Totals()) as batches:
        batches.process_elements([("a", 1), ("b", 2), ("a", 3)])
        snapshot = batches.snapshot(1)
    elements = KeyedOneInputOperatorTestHarness(
        TotalsByElement(), lambda value: value[0], Types.STRING(), input_type=PAIR, output_type=PAIR
    )
    elements.initialize_state(snapshot)
    elements.open()
    elements.process_elements([("a", 10), ("b", 10)])
    assert elements.extract_output() == [("a", 14), ("b", 12)]
    elements.close()


class Looks(KeyedBatchProcessFunction):
    """Keeps what it was given."""

    def process_batch(self, batch, ctx):
        self.seen = batch
        self.time = ctx.timestamp()


def test_keys_come_once_and_rows_in_their_order() -> None:
    looks = Looks()
    with harness(looks) as made:
        made.process_elements([("b", 1), ("a", 2), ("b", 3), ("c", 4), ("a", 5)], [7, None, 9, 8, None])
    assert list(looks.seen.keys) == ["b", "a", "c"]
    assert looks.seen.key_index.to_pylist() == [0, 1, 0, 2, 1]
    assert looks.seen.rows_by_key() == [[0, 2], [1, 4], [3]]
    assert looks.seen.data.column("f1").to_pylist() == [1, 2, 3, 4, 5]
    assert looks.seen.timestamps.to_pylist() == [7, None, 9, 8, None]
    assert looks.time == 9
    assert looks.seen.num_rows == 5
    assert list(looks.seen.to_pandas().columns) == ["f0", "f1"]


@pytest.mark.parametrize(
    ("key_type", "keys", "distinct"),
    [
        (Types.STRING(), ["a", None, "a", ""], ["a", None, ""]),
        (Types.LONG(), [1, None, 1], [1, None]),
        (Types.DOUBLE(), [0.5, -0.5, 0.5], [0.5, -0.5]),
        (Types.BOOLEAN(), [True, False, True], [True, False]),
        (None, ["a", 1, 1.0, "a", True], ["a", 1, 1.0, True]),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [(1, "a"), (1, "b"), (1, "a")], [(1, "a"), (1, "b")]),
    ],
)
def test_keys_are_of_their_type(key_type: TypeInformation | None, keys: list[Any], distinct: list[Any]) -> None:
    looks = Looks()
    left = list(keys)
    made = KeyedOneInputOperatorTestHarness(looks, lambda value: left.pop(0), key_type, input_type=Types.LONG())
    made.open()
    made.process_elements(list(range(len(keys))))
    assert list(map(repr, looks.seen.keys)) == list(map(repr, distinct))
    assert looks.seen.data.schema.names == ["value"]
    made.close()


def test_zero_is_one_key_or_two_as_it_is_for_single_elements() -> None:
    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            self.count.update((self.count.value() or 0) + 1)
            yield self.count.value()

    zeros = [0.0, -0.0, float("nan"), -float("nan"), 0.0]
    looks, counts = Looks(), Count()
    for function in (looks, counts):
        left = list(zeros)
        made = KeyedOneInputOperatorTestHarness(
            function, lambda value, left=left: left.pop(0), Types.DOUBLE(), input_type=Types.LONG(), output_type=Types.LONG()
        )
        made.open()
        made.process_elements(list(range(len(zeros))))
        found = made.extract_output()
        made.close()
    assert len(looks.seen.keys) == found.count(1)


class Returns(KeyedBatchProcessFunction):
    """Returns what it was made with."""

    def __init__(self, results: Any) -> None:
        self.results = results

    def process_batch(self, batch, ctx):
        return self.results(batch) if callable(self.results) else self.results


LATE = OutputTag("late", Types.LONG())


@pytest.mark.parametrize(
    "results",
    [
        pa.record_batch({"f0": ["a"], "f1": [1]}),
        pa.table({"f1": pa.array([1], pa.int8()), "f0": ["a"], "more": [None]}),
        pd.DataFrame({"f0": ["a"], "f1": [1]}),
        [("a", 1)],
        iter([("a", 1)]),
        [Row("a", 1), (LATE, 7)],
    ],
)
def test_results_are_columns_or_elements(results: Any) -> None:
    with harness(Returns(results), side_outputs=[LATE]) as made:
        made.process_elements([("k", 0)])
        assert made.extract_output() == [("a", 1)]
        assert made.get_side_output(LATE) == ([7] if isinstance(results, list) and len(results) == 2 else [])


def test_nothing_may_come_of_a_batch() -> None:
    with harness(Returns(None)) as made:
        made.process_elements([("k", 0)])
        assert made.extract_output() == []


def test_columns_become_rows_where_results_have_no_type() -> None:
    with harness(Returns(pa.table({"x": [1, 2], "y": ["a", None]})), output_type=None) as made:
        made.process_elements([("k", 0)])
        assert made.extract_output() == [Row(x=1, y="a"), Row(x=2, y=None)]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (pa.table({"f0": ["a"]}), "has no column 'f1'"),
        (pa.table({"f0": ["a"], "f1": ["b"]}), "'f1' of a result of process_batch is string, not int64"),
        (pa.table({"f0": ["a"], "f1": [1.5]}), "'f1' of a result of process_batch is double, not int64"),
    ],
)
def test_columns_that_do_not_fit_the_output_type_are_refused(results: Any, message: str) -> None:
    with harness(Returns(results)) as made, pytest.raises(RecordError, match=message):
        made.process_elements([("k", 0)])


def test_elements_without_a_type_have_no_columns() -> None:
    made = KeyedOneInputOperatorTestHarness(Totals(), lambda value: value[0], Types.STRING())
    with pytest.raises(JobGraphError, match="the elements have no type"):
        made.open()
    made.close()


class Mutating(KeyedBatchProcessFunction):
    """Changes lists in place, without update."""

    def __init__(self, ttl: bool) -> None:
        self.ttl = ttl

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("list", Types.LIST(Types.LONG()))
        if self.ttl:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.numbers = runtime_context.get_state(descriptor)

    def process_batch(self, batch, ctx):
        held = batch.get(self.numbers)
        for position, rows in enumerate(batch.rows_by_key()):
            added = [batch.data.column("f1")[row].as_py() for row in rows]
            if held[position] is None:
                held[position] = added
            else:
                held[position] += added
        if any(value is not None for value in batch.get(self.numbers)) and not self.ttl:
            assert batch.get(self.numbers)[0] is held[0] or batch.get(self.numbers)[0] is None
        batch.update(self.numbers, held)
        return [(key, len(value)) for key, value in zip(batch.keys, held, strict=True)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ttl", [False, True])
def test_mutable_values_and_values_that_expire(backend: str, ttl: bool) -> None:
    with harness(Mutating(ttl), state_backend=backend) as made:
        made.process_elements([("a", 1), ("b", 2), ("a", 3)])
        made.end_epoch()
        made.set_processing_time(500)
        made.process_elements([("a", 4)])
        made.end_epoch()
        made.set_processing_time(1_200)
        made.process_elements([("a", 5), ("b", 6)])
        assert made.extract_output()[-2:] == ([("a", 4), ("b", 1)] if ttl else [("a", 4), ("b", 2)])


class ByKey(KeyedBatchProcessFunction):
    """Uses state of other kinds, and timers, key by key."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))

    def process_batch(self, batch, ctx):
        for position, rows in enumerate(batch.rows_by_key()):
            batch.set_current_key(position)
            assert ctx.get_current_key() == batch.keys[position]
            for row in rows:
                self.seen.put(batch.data.column("f1")[row].as_py(), True)
            ctx.timer_service().register_event_time_timer(100)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), len(list(self.seen.keys()))


def test_a_key_can_be_made_current_for_all_other_state_and_for_timers() -> None:
    with harness(ByKey()) as made:
        made.process_elements([("a", 1), ("b", 1), ("a", 2), ("a", 1)])
        made.process_watermark(100)
        assert sorted(made.extract_output()) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("position", [-1, 1])
def test_there_is_no_such_key(position: int) -> None:
    def use(batch: Any) -> None:
        batch.set_current_key(position)

    with harness(Returns(use)) as made, pytest.raises(IndexError):
        made.process_elements([("k", 0)])


class Wrong(Totals):
    """Updates with what doesn't fit."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def process_batch(self, batch, ctx):
        batch.update(self.total, self.values)


@pytest.mark.parametrize(("values", "message"), [([1, 2], "2 values for 1 keys"), (["a"], "can't take this value")])
def test_updates_are_checked(values: list[Any], message: str) -> None:
    with harness(Wrong(values)) as made, pytest.raises(StateError, match=message):
        made.process_elements([("k", 0)])


def test_none_removes() -> None:
    with harness(Wrong([None])) as made:
        made.process_elements([("k", 0)])
        made.end_epoch()
        assert made.num_keyed_state_entries() == 0


def test_rows_and_large_batches_go_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pystate.runtime.slot.output_buffer.BYTES_PER_BATCH", 40_000)

    def doubled(batch: Any) -> Any:
        amounts = pc.multiply(batch.data.column("amount"), 2.0)
        return pa.table({"customer": batch.data.column("customer"), "amount": amounts})

    with harness(Returns(doubled), input_type=ORDER, output_type=ORDER) as made:
        made.process_elements([Row(customer=f"c{n}", amount=float(n)) for n in range(100)])
        assert made.extract_output() == [Row(customer=f"c{n}", amount=2.0 * n) for n in range(100)]


def test_runs_of_equal_keys() -> None:
    assert one_key_each(pa.array(["a", "a", None, None, "b"])) == [(0, 2), (2, 2), (4, 1)]
    assert one_key_each(pa.array([], pa.string())) == []


class OneState(KeyedBatchProcessFunction):
    """Calls `use` with a batch, its context and two states, of which the first is of the kind that is asked for."""

    def __init__(self, kind: str, use: Any) -> None:
        self.kind, self.use = kind, use

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("one", Types.LIST(Types.LONG()) if self.kind == "mutable" else Types.LONG())
        if self.kind == "ttl":
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        if self.kind == "default":
            descriptor = ValueStateDescriptor("one", Types.LONG(), default_value=0)
        self.one = runtime_context.get_state(descriptor)
        self.other = runtime_context.get_list_state(ListStateDescriptor("other", Types.STRING()))

    def process_batch(self, batch, ctx):
        return self.use(batch, ctx, self.one, self.other)


KINDS = ["plain", "mutable", "ttl", "default"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_state_leave_the_current_key(kind: str, backend: str) -> None:
    value = [1] if kind == "mutable" else 1

    def use(batch, ctx, one, other):
        for position, key in enumerate(batch.keys):
            batch.set_current_key(position)
            batch.get(one)
            assert ctx.get_current_key() == key
            batch.update(one, [value] * len(batch.keys))
            other.add(key)
            yield key, len(list(other.get()))

    with harness(OneState(kind, use), state_backend=backend) as made:
        made.process_elements([("a", 1), ("b", 2), ("c", 3)])
        assert made.extract_output() == [("a", 1), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_where_one_value_is_refused_none_is_set(kind: str, backend: str) -> None:
    value = [7] if kind == "mutable" else 7

    def use(batch, ctx, one, other):
        batch.update(one, [value, value])
        with pytest.raises(StateError, match="can't take this value"):
            batch.update(one, [None, "x"])
        assert batch.get(one) == [value, value]

    with harness(OneState(kind, use), state_backend=backend) as made:
        made.process_elements([("a", 1), ("b", 2)])


def test_only_value_states_have_columns() -> None:
    def use(batch, ctx, one, other):
        with pytest.raises(StateError, match="take a ValueState, not"):
            batch.get(other)
        with pytest.raises(StateError, match="take a ValueState, not"):
            batch.update(other, [["x"]])

    with harness(OneState("plain", use)) as made:
        made.process_elements([("a", 1)])


def test_what_is_no_result_is_said_so() -> None:
    with harness(Returns(5)) as made, pytest.raises(RecordError, match="returned 5, which is neither columns nor elements"):
        made.process_elements([("k", 0)])


WORD = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])


class Rows(KeyedBatchProcessFunction):
    def process_batch(self, batch, ctx):
        return batch.data


def test_columns_that_would_hide_the_kinds_of_rows_are_refused():
    made = harness(Rows(), input_type=WORD, output_type=WORD)
    made.process_elements([Row(word="a", n=1)])
    with pytest.raises(RecordError, match="don't show the kinds of rows"):
        made.process_elements([Row(word="a", n=1), Row.of_kind(RowKind.DELETE, word="a", n=1)])
        made.end_epoch()
    assert made.extract_output() == [Row(word="a", n=1)]
