"""Aggregations of a field by columns: the results and the state of the same aggregation element by element."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pystate.common import Row, RowKind, TypeInformation, Types
from pystate.common.errors import PystateError
from pystate.core.api.aggregation import AccumulateType, FieldAggregation
from pystate.core.api.functions import ProcessFunction
from pystate.core.api.operator_kind import OperatorKind
from pystate.core.records.codec import KEY_FIELD, KEY_GROUP_FIELD, KIND_FIELD, TIMESTAMP_FIELD, RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.runtime.plan.chain import Chain, ChainNode, OperatorSpec
from pystate.runtime.plan.task import JobEnvironment, TaskInput, TaskSpec
from pystate.runtime.plan.task_output import KindsPlace, OutputKind, OutputSpec
from pystate.runtime.slot.chain.operator_chain import OperatorChain

MAX_PARALLELISM = 16
KEY = Types.STRING()
SUM, MIN, MAX = AccumulateType.SUM, AccumulateType.MIN, AccumulateType.MAX
MIN_BY, MAX_BY = AccumulateType.MIN_BY, AccumulateType.MAX_BY
KINDS = [SUM, MIN, MAX, MIN_BY, MAX_BY]
MINI_BATCH = {"execution.mini-batch.enabled": "true"}


class OneByOne(FieldAggregation):
    """The same aggregation, which no column takes over."""


class Side:
    """A task that aggregates."""

    def __init__(
        self,
        function: Any,
        type_info: TypeInformation,
        folder: Path,
        backend: str,
        *,
        mapped: bool = False,
        configuration: dict[str, str] | None = None,
        key: KeyColumn | None = None,
    ) -> None:
        self.key = key or KeyColumn(KEY_FIELD, KEY)
        out = OutputSpec(0, OutputKind.FRAME, "out", type_info, kinds=KindsPlace.WHERE_USED)
        chain = Chain(outputs=[out])
        if mapped:
            chain = Chain(children=[ChainNode(OperatorSpec("map", "map", OperatorKind.MAP, lambda e: e), outputs=[out])])
        inputs = [TaskInput(type_info, self.key)]
        head = OperatorSpec("head", "head", OperatorKind.REDUCE, function)
        task = TaskSpec("head", "head", "c" * 32, 1, MAX_PARALLELISM, inputs, head, chain)
        environment = JobEnvironment("b" * 32, "job", 0, configuration or {}, backend, 1 << 20, str(folder))
        self.codec = RecordCodec(type_info, "test", kinds=True)
        self.results: list[Any] = []
        self.chain = OperatorChain(task, 0, environment, lambda _, rows: self.results.extend(self.codec.decode(rows)))
        self.chain.open()

    @property
    def has_columns(self) -> bool:
        return self.chain.operators[-1].columns is not None

    def take(self, keys: list[Any], elements: list[Any]) -> None:
        codec = KeyCodec(self.key.key_type)
        prepared = list(map(self.codec.prepare or (lambda element: element), elements))
        columns = dict(zip(self.codec.schema.names, self.codec.encode(prepared), strict=True))
        if (kinds := self.codec.kinds_of(prepared)) is not None:
            columns[KIND_FIELD] = kinds
        if self.key.column not in columns:
            columns[self.key.column] = pa.array(keys)
        groups = [codec.key_group(codec.internal(key), MAX_PARALLELISM) for key in keys]
        columns[KEY_GROUP_FIELD] = pa.array(groups, pa.int32())
        self.chain.on_batch(pa.RecordBatch.from_pydict(columns))

    def end(self, *, well: bool = True) -> list[str]:
        """End the epoch; return what came of it."""
        self.chain.flush_output()
        if well:
            self.chain.finish_epoch()
        else:
            self.chain.roll_back_epoch()
        results, self.results = self.results, []
        return list(map(repr, results))

    def state(self) -> list[str]:
        backend = self.chain.backend
        assert backend is not None
        found = []
        for key in backend.get_keys("_op_state"):
            backend.set_current_key(key, backend.key_codec.key_group(key, MAX_PARALLELISM))
            handle = backend._handles["_op_state"]  # type: ignore[attr-defined]
            found.append(f"{key}: {handle.state.value()!r}")
        backend.rollback_epoch()
        return sorted(found)


def pairs(number: TypeInformation) -> TypeInformation:
    return Types.TUPLE([Types.STRING(), number])


def rows(number: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(["name", "number", "more"], [Types.STRING(), number, Types.LIST(Types.LONG())])


def pair(chance: random.Random, number: Any) -> Any:
    return f"name-{chance.randrange(1_000)}", number


def row(chance: random.Random, number: Any) -> Any:
    return Row(name=f"name-{chance.randrange(1_000)}", number=number, more=[chance.randrange(5)])


def alone(_chance: random.Random, number: Any) -> Any:
    return number


def integers(chance: random.Random) -> int:
    return chance.randrange(-1_000, 1_000)


def doubles(chance: random.Random) -> float:
    return chance.choice([chance.uniform(-1e9, 1e9), chance.random() * 1e-9, 0.1, 1e300, -1e300])


SHAPES: list[tuple[Callable[..., Any], TypeInformation, Any, Callable[[random.Random], Any]]] = [
    (pair, pairs(Types.LONG()), 1, integers),
    (pair, pairs(Types.INT()), -1, integers),
    (pair, pairs(Types.DOUBLE()), 1, doubles),
    (row, rows(Types.LONG()), "number", integers),
    (row, rows(Types.DOUBLE()), 1, doubles),
    (alone, Types.LONG(), 0, integers),
    (alone, Types.DOUBLE(), 0, doubles),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("element", "type_info", "field", "number"), SHAPES)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_columns_give_the_results_of_single_elements(
    tmp_path: Path,
    backend: str,
    element: Callable[..., Any],
    type_info: TypeInformation,
    field: Any,
    number: Callable[[random.Random], Any],
    kind: AccumulateType,
) -> None:
    chance = random.Random(f"{backend}{type_info}{kind}")
    columns = Side(FieldAggregation(kind, field), type_info, tmp_path, backend, mapped=kind is MAX)
    elements = Side(OneByOne(kind, field), type_info, tmp_path, backend)
    assert columns.has_columns
    assert not elements.has_columns
    for epoch in range(8):
        for _ in range(chance.randrange(3)):
            count = chance.choice([1, 5, 60])
            keys = [f"k{chance.randrange(chance.choice([1, 7, 40]))}" for _ in range(count)]
            taken = [element(chance, number(chance)) for _ in range(count)]
            columns.take(keys, taken)
            elements.take(keys, taken)
        well = epoch % 4 != 2
        assert columns.end(well=well) == elements.end(well=well)
        assert columns.state() == elements.state()
    columns.chain.close()
    elements.chain.close()


ODD: list[tuple[TypeInformation, list[Any]]] = [
    (Types.DOUBLE(), [math.nan, 1.0, 2.0, math.nan]),
    (Types.DOUBLE(), [1.0, math.nan, 0.5]),
    (Types.DOUBLE(), [0.0, -0.0, 0.0]),
    (Types.DOUBLE(), [-0.0, 0.0, -0.0]),
    (Types.DOUBLE(), [math.inf, -math.inf, 1.0]),
    (Types.LONG(), [2**62, 2**62 - 1, -5]),
    (Types.LONG(), [-(2**63), 2**63 - 1, 0]),
    (Types.INT(), [2**31 - 1, -1, 0, -(2**31)]),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("number", "values"), ODD)
def test_odd_numbers_go_as_they_go_one_by_one(
    tmp_path: Path, number: TypeInformation, values: list[Any], kind: AccumulateType
) -> None:
    found: list[Any] = []
    for made in (FieldAggregation(kind, 1), OneByOne(kind, 1)):
        side = Side(made, pairs(number), tmp_path, "hashmap")
        try:
            for split in (len(values), 1):
                for start in range(0, len(values), split):
                    part = values[start : start + split]
                    side.take(["k"] * len(part), [("a", value) for value in part])
            found.append((side.end(), side.state()))
        except PystateError as error:
            found.append((str(error), []))
        side.chain.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [SUM, MAX_BY])
def test_rows_have_the_kinds_that_they_have_one_by_one(tmp_path: Path, kind: AccumulateType) -> None:
    word = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
    batches = [
        [(RowKind.INSERT, "a", 1), (RowKind.INSERT, "b", 2)],
        [(RowKind.DELETE, "a", 5), (RowKind.UPDATE_AFTER, "c", 6)],
        [(RowKind.INSERT, "a", 3), (RowKind.INSERT, "b", 9), (RowKind.INSERT, "c", 1)],
        [(RowKind.INSERT, "b", 8), (RowKind.INSERT, "c", 7)],
    ]
    found = []
    for made in (FieldAggregation(kind, 1), OneByOne(kind, 1)):
        side = Side(made, word, tmp_path, "hashmap")
        for ends in (False, True):  # several batches of an epoch, and an epoch each
            for batch in batches:
                side.take([name for _, name, _ in batch], [Row.of_kind(of, name, n) for of, name, n in batch])
                if ends:
                    side.chain.flush_output()
                    side.chain.finish_epoch()
        side.chain.flush_output()
        found.append([(row.get_row_kind(), row.word, row.n) for row in side.results])
        side.chain.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("number", [Types.LONG(), Types.INT(), Types.SHORT()])
def test_a_sum_that_is_too_large_fails_as_it_does_one_by_one(tmp_path: Path, number: TypeInformation) -> None:
    largest = {"LONG": 2**63 - 1, "INT": 2**31 - 1, "SHORT": 2**15 - 1}[number.name]
    said = []
    for made in (FieldAggregation(SUM, 1), OneByOne(SUM, 1)):
        side = Side(made, pairs(number), tmp_path, "hashmap")
        with pytest.raises(PystateError) as raised:  # noqa: PT012 - either of them may find it
            side.take(["k", "k"], [("a", largest), ("a", 1)])
            side.end()
        said.append(str(raised.value))
        side.chain.close()
    assert said[0] == said[1]


def test_a_null_in_the_field_fails_as_it_does_one_by_one(tmp_path: Path) -> None:
    said: list[tuple[str, str | None]] = []
    for made in (FieldAggregation(SUM, 1), OneByOne(SUM, 1)):
        side = Side(made, pairs(Types.LONG()), tmp_path, "hashmap")
        with pytest.raises(PystateError) as raised:
            side.take(["k", "k"], [("a", 1), ("a", None)])
        said.append((str(raised.value), side.chain.failed_record.place()))
        side.chain.close()
    assert said[0] == said[1]
    assert said[0][1] is not None


def test_nulls_in_other_fields_stay(tmp_path: Path) -> None:
    side = Side(FieldAggregation(SUM, 1), pairs(Types.LONG()), tmp_path, "hashmap")
    side.take(["k", "k", "l"], [(None, 1), ("a", 2), (None, 3)])
    assert side.end() == ["(None, 1)", "(None, 3)", "(None, 3)"]
    side.chain.close()


@pytest.mark.parametrize(
    ("function", "type_info"),
    [
        (FieldAggregation(MIN_BY, 0), pairs(Types.LONG())),
        (FieldAggregation(SUM, 0), pairs(Types.LONG())),
        (FieldAggregation(SUM, 1), pairs(Types.FLOAT())),
        (FieldAggregation(SUM, 1), pairs(Types.BIG_DEC())),
        (FieldAggregation(SUM, 0), Types.LIST(Types.LONG())),
        (lambda a, b: a, pairs(Types.LONG())),
        (operator.add, pairs(Types.LONG())),
        (min, Types.STRING()),
        (operator.mul, Types.LONG()),
    ],
)
def test_only_what_columns_can_do_goes_by_columns(tmp_path: Path, function: Any, type_info: TypeInformation) -> None:
    side = Side(function, type_info, tmp_path, "hashmap")
    assert not side.has_columns
    side.chain.close()


KNOWN: list[tuple[Any, Any]] = [
    (operator.add, lambda a, b: a + b),
    (min, lambda a, b: min(a, b)),
    (max, lambda a, b: max(a, b)),
]


@pytest.mark.parametrize(("known", "same"), KNOWN)
@pytest.mark.parametrize(("type_info", "number"), [(Types.LONG(), integers), (Types.DOUBLE(), doubles)])
def test_reduce_with_a_function_of_python_that_is_known_goes_by_columns(
    tmp_path: Path, type_info: TypeInformation, number: Callable[[random.Random], Any], known: Any, same: Any
) -> None:
    chance = random.Random(f"{type_info}{known}")
    columns, elements = Side(known, type_info, tmp_path, "hashmap"), Side(same, type_info, tmp_path, "hashmap")
    assert columns.has_columns
    assert not elements.has_columns
    for _ in range(5):
        keys = [f"k{chance.randrange(5)}" for _ in range(30)]
        taken = [number(chance) for _ in keys]
        columns.take(keys, taken)
        elements.take(keys, taken)
        assert columns.end() == elements.end()
        assert columns.state() == elements.state()
    columns.chain.close()
    elements.chain.close()


def last_of_each(keys: list[str], results: list[str]) -> list[str]:
    """Return the last result of each key, in the order of their first ones."""
    return list(dict(zip(keys, results, strict=True)).values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", [FieldAggregation, OneByOne])
@pytest.mark.parametrize(("element", "type_info", "field", "number"), SHAPES)
def test_with_mini_batches_the_last_result_of_each_key_is_given_when_the_epoch_ends(
    tmp_path: Path,
    element: Callable[..., Any],
    type_info: TypeInformation,
    field: Any,
    number: Callable[[random.Random], Any],
    made: Callable[..., Any],
    kind: AccumulateType,
) -> None:
    chance = random.Random(f"{type_info}{kind}")
    every = Side(OneByOne(kind, field), type_info, tmp_path, "hashmap")
    last = Side(made(kind, field), type_info, tmp_path, "hashmap", configuration=MINI_BATCH)
    assert last.has_columns == (made is FieldAggregation)
    for epoch in range(6):
        of_epoch: list[str] = []
        for _ in range(chance.randrange(3)):
            keys = [f"k{chance.randrange(9)}" for _ in range(chance.choice([1, 30]))]
            taken = [element(chance, number(chance)) for _ in keys]
            every.take(keys, taken)
            last.take(keys, taken)
            of_epoch += keys
        assert not last.results
        well = epoch % 4 != 2
        assert last.end(well=well) == last_of_each(of_epoch, every.end(well=well))
        assert last.state() == every.state()
    every.chain.close()
    last.chain.close()


def test_results_of_a_mini_batch_that_is_rolled_back_are_forgotten(tmp_path: Path) -> None:
    side = Side(lambda a, b: a + b, Types.LONG(), tmp_path, "hashmap", configuration=MINI_BATCH)
    side.take(["k", "l"], [1, 2])
    side.chain.roll_back_epoch()
    side.take(["l", "l"], [3, 4])
    assert side.end() == ["7"]
    assert side.end() == []
    side.chain.close()


class Times(ProcessFunction):
    """Gives the time of each element beside it."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, ctx.timestamp()


def test_results_of_a_mini_batch_have_the_times_of_the_elements_that_brought_them_about(tmp_path: Path) -> None:
    timed = Types.TUPLE([Types.LONG(), Types.LONG()])
    times = ChainNode(OperatorSpec("times", "times", OperatorKind.PLAIN_PROCESS, Times(), output_type=timed))
    chain = Chain(children=[replace(times, outputs=[OutputSpec(0, OutputKind.FRAME, "out", timed)])])
    head = OperatorSpec("head", "head", OperatorKind.REDUCE, FieldAggregation(SUM, 0))
    read = TaskInput(Types.LONG(), KeyColumn(KEY_FIELD, KEY), timestamped=True)
    task = TaskSpec("head", "head", "c" * 32, 1, MAX_PARALLELISM, [read], head, chain)
    environment = JobEnvironment("b" * 32, "job", 0, MINI_BATCH, "hashmap", 1 << 20, str(tmp_path))
    results: list[Any] = []
    made = OperatorChain(task, 0, environment, lambda _, rows: results.extend(RecordCodec(timed, "test").decode(rows)))
    made.open()
    keys, codec = ["k", "l", "k"], KeyCodec(KEY)
    groups = [codec.key_group(key, MAX_PARALLELISM) for key in keys]
    arrays = [pa.array([1, 2, 3]), pa.array(keys), pa.array(groups, pa.int32()), pa.array([30, 20, 10])]
    made.on_batch(pa.RecordBatch.from_arrays(arrays, names=["value", KEY_FIELD, KEY_GROUP_FIELD, TIMESTAMP_FIELD]))
    made.flush_output()
    assert results == [(4, 10), (2, 20)]
    made.close()


FIELD_KEYS: list[tuple[TypeInformation, Callable[[random.Random], Any]]] = [
    (Types.STRING(), lambda chance: f"k{chance.randrange(40)}"),
    (Types.LONG(), lambda chance: chance.randrange(-20, 20)),
    (Types.DOUBLE(), lambda chance: chance.choice([0.0, -0.0, 1.5, 2.5])),  # the first of 0.0 and -0.0 stays in the result
    (Types.BOOLEAN(), lambda chance: chance.random() < 0.5),
]


@pytest.mark.parametrize("configuration", [{}, MINI_BATCH], ids=["rolling", "mini-batch"])
@pytest.mark.parametrize("kind", [SUM, MIN, MAX])
@pytest.mark.parametrize(("key_type", "key"), FIELD_KEYS, ids=lambda value: getattr(value, "name", ""))
@pytest.mark.parametrize("named", [True, False], ids=["row", "tuple"])
@pytest.mark.parametrize("more", [True, False], ids=["three fields", "two fields"])
def test_a_key_that_is_a_field_of_the_elements_stays_in_the_results(
    tmp_path: Path,
    configuration: dict[str, str],
    kind: AccumulateType,
    key_type: TypeInformation,
    key: Callable[[random.Random], Any],
    named: bool,
    more: bool,
) -> None:
    types = [key_type, Types.LONG(), *([Types.STRING()] if more else [])]
    names = ["key", "number", "note"][: len(types)]
    type_info = Types.ROW_NAMED(names, types) if named else Types.TUPLE(types)
    column = KeyColumn("key" if named else "f0", key_type)
    chance = random.Random(f"{kind}{key_type}{named}{more}")
    columns = Side(FieldAggregation(kind, 1), type_info, tmp_path, "hashmap", key=column, configuration=configuration)
    elements = Side(OneByOne(kind, 1), type_info, tmp_path, "hashmap", key=column, configuration=configuration)
    for epoch in range(5):
        for _ in range(3):
            keys = [key(chance) for _ in range(chance.choice([1, 50]))]
            taken = [(one, integers(chance), chance.choice(["a", None])) for one in keys]
            made = [Row(**dict(zip(names, fields, strict=False))) if named else fields[: len(types)] for fields in taken]
            columns.take(keys, made)
            elements.take(keys, made)
        well = epoch % 3 != 1
        assert columns.end(well=well) == elements.end(well=well)
    columns.chain.close()
    elements.chain.close()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("configuration", [{}, MINI_BATCH], ids=["rolling", "mini-batch"])
def test_batches_that_columns_can_not_take_come_between_others(
    tmp_path: Path, backend: str, configuration: dict[str, str]
) -> None:
    """What goes one by one finds what columns have, and the other way round; results keep the order of their keys."""
    chance = random.Random(7)
    type_info = pairs(Types.DOUBLE())
    columns = Side(FieldAggregation(SUM, 1), type_info, tmp_path, backend, configuration=configuration)
    elements = Side(OneByOne(SUM, 1), type_info, tmp_path, backend, configuration=configuration)
    for epoch in range(12):
        for _ in range(4):
            keys = [f"k{chance.randrange(20)}" for _ in range(10)]
            odd = chance.choice([0.5, 0.5, math.inf, -0.0])
            taken = [pair(chance, chance.choice([odd, doubles(chance)])) for _ in keys]
            columns.take(keys, taken)
            elements.take(keys, taken)
        well = epoch % 5 != 3
        assert columns.end(well=well) == elements.end(well=well)
        assert columns.state() == elements.state()
    columns.chain.close()
    elements.chain.close()


@pytest.mark.parametrize("configuration", [{}, MINI_BATCH], ids=["rolling", "mini-batch"])
def test_an_epoch_that_is_moved_to_disk_goes_on_with_its_results(tmp_path: Path, configuration: dict[str, str]) -> None:
    small = {"pystate.state.epoch-memory": "20 kb", **configuration}
    chance = random.Random(11)
    for type_info, element in ((rows(Types.LONG()), row), (pairs(Types.LONG()), pair)):
        columns = Side(FieldAggregation(SUM, 1), type_info, tmp_path, "rocksdb", configuration=small)
        elements = Side(OneByOne(SUM, 1), type_info, tmp_path, "hashmap", configuration=configuration)
        for epoch in range(3):
            for _ in range(6):
                keys = [f"k{chance.randrange(3_000)}" for _ in range(800)]
                taken = [element(chance, integers(chance)) for _ in keys]
                columns.take(keys, taken)
                elements.take(keys, taken)
            assert columns.chain.backend.has_spilled  # type: ignore[union-attr]
            well = epoch != 1
            assert columns.end(well=well) == elements.end(well=well)
        assert columns.state() == elements.state()
        columns.chain.close()
        elements.chain.close()
