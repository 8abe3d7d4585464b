"""What every backend promises about reducing and aggregating state, defaults, descriptors, and visits to all keys."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.core.api.functions import AggregateFunction, ReduceFunction
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pystate.core.state.base.loader import state_backend_names
from tests.core.state.conftest import BackendHarness, written

LONGS = Types.LIST(Types.LONG())


class Longest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2, key=len)


class Average(AggregateFunction):
    """Accumulates [sum, count], in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Forgetful(Average):
    def add(self, value: int, accumulator: list[int]) -> Any:
        super().add(value, accumulator)


SUM = ReducingStateDescriptor("sum", operator.add, Types.LONG())
LONGEST = ReducingStateDescriptor("longest", Longest(), Types.STRING())
JOINED = ReducingStateDescriptor("joined", operator.iadd, LONGS)
AVERAGE = AggregatingStateDescriptor("average", Average(), LONGS)
UNTYPED_AVERAGE = AggregatingStateDescriptor("untyped average", Average())


@pytest.mark.parametrize("target", state_backend_names())
def test_elements_are_reduced_and_aggregated_across_epochs_restores_and_backends(
    harness: BackendHarness, target: str
) -> None:
    def add(one: BackendHarness, number: int) -> None:
        one.use("k", SUM).add(number)
        one.use("k", LONGEST).add("x" * number)
        one.use("k", JOINED).add([number])
        one.use("k", AVERAGE).add(number)
        one.use("k", UNTYPED_AVERAGE).add(number)

    def results(one: BackendHarness, key: str = "k") -> list[Any]:
        return [one.use(key, d).get() for d in (SUM, LONGEST, JOINED, AVERAGE, UNTYPED_AVERAGE)]

    assert results(harness) == [None] * 5
    add(harness, 1)
    assert results(harness) == [1, "x", [1], 1.0, 1.0]
    harness.flush()
    add(harness, 5)
    add(harness, 3)
    harness.flush()
    expected = [9, "xxxxx", [1, 5, 3], 3.0, 3.0]
    restored = harness.restored(harness.save(), 3, target)
    assert results(restored) == expected
    add(restored, 3)
    restored.rollback()
    assert results(restored) == expected
    assert results(restored, "other") == [None] * 5
    for descriptor in (SUM, LONGEST, JOINED, AVERAGE, UNTYPED_AVERAGE):
        restored.use("k", descriptor).clear()
    assert results(restored) == [None] * 5
    restored.flush()
    assert restored.entry_count() == 0


def test_an_aggregate_that_counts_and_is_cleared_at_every_thousandth(harness: BackendHarness) -> None:
    descriptor = AggregatingStateDescriptor("count", Average())
    emitted = []
    for number in range(5_500):
        state = harness.use(number % 2, descriptor)
        state.add(number)
        total, count = harness.backend._overlays["count"].value()  # type: ignore[attr-defined]
        if count == 1_000:
            emitted.append((number % 2, total))
            state.clear()
        if number % 700 == 699:
            harness.flush()
    assert emitted == [(p, sum(range(2_000 * r + p, 2_000 * (r + 1), 2))) for r in range(2) for p in (0, 1)]
    assert harness.use(0, descriptor).get() == sum(range(4_000, 5_500, 2)) / 750


def test_an_accumulator_changed_in_place_does_not_leak_into_a_snapshot(harness: BackendHarness) -> None:
    harness.use("k", AVERAGE).add(4)
    harness.flush()
    (snapshot,) = harness.snapshot()
    for _ in range(3):
        harness.use("k", AVERAGE).add(10)
        harness.flush()
    assert harness.restored([written(snapshot)]).use("k", AVERAGE).get() == 4.0


def test_none_can_be_neither_added_nor_returned(harness: BackendHarness) -> None:
    for descriptor in (SUM, AVERAGE):
        with pytest.raises(StateError, match=f"None can't be added to state '{descriptor.name}'"):
            harness.use("k", descriptor).add(None)
    with pytest.raises(StateError, match=r"'forgetful' returned None from add"):
        harness.use("k", AggregatingStateDescriptor("forgetful", Forgetful())).add(1)
    nothing = ReducingStateDescriptor("nothing", lambda a, b: None, Types.LONG())
    harness.use("k", nothing).add(1)
    with pytest.raises(StateError, match="'nothing' returned None"):
        harness.use("k", nothing).add(2)
    assert harness.use("k", nothing).get() == 1


def test_what_is_added_must_have_the_type_also_later(harness: BackendHarness) -> None:
    for _ in range(2):
        with pytest.raises(StateError, match=r"'sum'.*LONG"):
            harness.use("k", SUM).add(True)
        harness.use("k", SUM).add(1)


def test_descriptors_need_functions() -> None:
    with pytest.raises(StateError, match=r"reduce function of state 'r'.*ReduceFunction"):
        ReducingStateDescriptor("r", 3, Types.LONG())
    with pytest.raises(StateError, match=r"aggregate function of state 'a'.*AggregateFunction"):
        AggregatingStateDescriptor("a", operator.add)


def sum_of(a: int, b: int) -> int:
    return a + b


SAME: list[tuple[StateDescriptor, StateDescriptor]] = [
    (ListStateDescriptor("s", Types.LONG()), ListStateDescriptor("s", Types.LONG())),
    (MapStateDescriptor("s", Types.LONG(), None), MapStateDescriptor("s", Types.LONG())),
    (ReducingStateDescriptor("s", sum_of), ReducingStateDescriptor("s", sum_of)),
    (ReducingStateDescriptor("s", Longest()), ReducingStateDescriptor("s", Longest())),
    (AggregatingStateDescriptor("s", Average()), AggregatingStateDescriptor("s", Average())),
    tuple(ReducingStateDescriptor("s", lambda a, b: a + b) for _ in range(2)),  # type: ignore[list-item]
    (ValueStateDescriptor("s", default_value=[1]), ValueStateDescriptor("s", default_value=[1])),
]
DIFFERENT: list[tuple[StateDescriptor, StateDescriptor]] = [
    (ListStateDescriptor("s", Types.LONG()), ListStateDescriptor("s", Types.INT())),
    (ListStateDescriptor("s", Types.LONG()), ValueStateDescriptor("s", Types.LONG())),
    (MapStateDescriptor("s", Types.LONG(), None), MapStateDescriptor("s", Types.INT(), None)),
    (MapStateDescriptor("s", None, Types.LONG()), MapStateDescriptor("s", None, Types.INT())),
    (ReducingStateDescriptor("s", max), ReducingStateDescriptor("s", min)),
    (AggregatingStateDescriptor("s", Average()), AggregatingStateDescriptor("s", Forgetful())),
    (ValueStateDescriptor("s", default_value=1), ValueStateDescriptor("s", default_value=True)),
    (ValueStateDescriptor("s"), ValueStateDescriptor("s", default_value=0)),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_equal_descriptors_give_the_same_state(harness: BackendHarness, first: Any, second: Any) -> None:
    assert (first, hash(first)) == (second, hash(second))
    assert harness.use("k", first) is harness.use("other", second)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different_descriptors_of_one_name_are_refused(harness: BackendHarness, first: Any, second: Any) -> None:
    harness.use("k", first)
    with pytest.raises(StateError, match="'s' is declared twice"):
        harness.use("k", second)


def test_functions_of_different_code_are_one_state_and_its_first_with_a_notice(harness: BackendHarness, caplog: Any) -> None:
    first = ReducingStateDescriptor("s", lambda a, b: a + b)
    second = ReducingStateDescriptor("s", lambda a, b: b + a)
    harness.use("k", first).add("x")
    for _ in range(2):
        harness.use("k", second).add("y")
    assert harness.use("k", second).get() == "xyy"
    assert len([line for line in caplog.messages if "'s' is declared in two places" in line]) == 1


def test_the_error_says_what_differs(harness: BackendHarness) -> None:
    harness.use("k", ValueStateDescriptor("s", default_value=1))
    with pytest.raises(StateError, match="with another default value"):
        harness.use("k", ValueStateDescriptor("s", default_value=2))


def test_a_default_value_is_copied_and_never_stored(harness: BackendHarness) -> None:
    numbers = ValueStateDescriptor("n", Types.DOUBLE(), default_value=7)
    lists = ValueStateDescriptor("l", LONGS, default_value=[1])
    assert harness.use("k", numbers).value() == 7.0
    assert type(harness.use("k", numbers).value()) is float
    harness.use("k", lists).value().append(2)
    assert harness.use("k", lists).value() == [1]
    harness.flush()
    assert harness.entry_count() == 0
    harness.use("k", numbers).update(harness.use("k", numbers).value() + 1)
    harness.use("k", lists).update([*harness.use("k", lists).value(), 3])
    harness.flush()
    harness.use("k", lists).value().append(4)
    harness.flush()
    assert (harness.use("k", numbers).value(), harness.use("k", lists).value()) == (8.0, [1, 3, 4])
    harness.use("k", numbers).clear()
    harness.use("k", lists).update(None)
    assert (harness.use("k", numbers).value(), harness.use("k", lists).value()) == (7.0, [1])
    with pytest.raises(StateError, match="LONG"):
        harness.use("k", ValueStateDescriptor("wrong", Types.LONG(), default_value="a"))


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_function_visits_each_key_that_has_a_value_once(backend_name: str, parallelism: int) -> None:
    harness = BackendHarness(backend_name, None, parallelism)
    descriptors: list[tuple[StateDescriptor, Any]] = [
        (ValueStateDescriptor("v", Types.LONG()), lambda state: state.update(1)),
        (ValueStateDescriptor("vl", LONGS), lambda state: state.update([1])),
        (ListStateDescriptor("l", Types.LONG()), lambda state: state.add(1)),
        (MapStateDescriptor("m", None, LONGS), lambda state: state.put_all({"a": [1], "b": None})),
        (SUM, lambda state: state.add(1)),
        (AVERAGE, lambda state: state.add(1)),
    ]
    keys: list[Any] = ["a", 1, 1.0, True, ("a", 1), [1], b"a", *range(2, 40)]
    for descriptor, write in descriptors:
        for key in keys[:-3]:
            write(harness.use(key, descriptor))
        harness.use("emptied", descriptor)
        write(harness.use("emptied", descriptor))
    harness.flush()
    for descriptor, write in descriptors:
        for key in keys[-3:]:
            write(harness.use(key, descriptor))
        harness.use("emptied", descriptor).clear()
        harness.use("never", descriptor).clear()
        if isinstance(descriptor, MapStateDescriptor):
            for user_key in "ab":
                harness.use(1.0, descriptor).remove(user_key)
            harness.use(1.0, descriptor).put("c", None)
        visited: list[Any] = []

        def visit(key: Any, state: Any, visited: list[Any] = visited, write: Any = write) -> None:
            visited.append(key)
            if len(visited) % 3 == 0:
                state.clear()
            elif len(visited) % 3 == 1:
                write(state)

        for backend in harness.backends:
            backend.set_current_key("before", 1)
            backend.apply_to_all_keys(descriptor, visit)
            assert backend.key_context.active_key == "before"
        assert sorted(map(repr, visited)) == sorted(map(repr, keys))
        left: list[Any] = []
        for backend in harness.backends:
            backend.apply_to_all_keys(descriptor, lambda key, _, left=left: left.append(key))  # type: ignore[misc]
        assert sorted(map(repr, left)) == sorted(repr(key) for number, key in enumerate(visited, 1) if number % 3)


def test_a_visit_that_fails_gives_the_key_back(harness: BackendHarness) -> None:
    harness.use("a", SUM).add(1)
    harness.at("mine")
    with pytest.raises(ZeroDivisionError):
        harness.backend.apply_to_all_keys(SUM, lambda key, state: 1 // 0)
    assert harness.backend.current_key == "mine"
