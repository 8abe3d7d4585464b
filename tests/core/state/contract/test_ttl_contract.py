"""States with a time to live: what is seen, what lives on, and what is removed, by a clock that tests set."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from tests.core.state.conftest import BackendHarness, ManualClock
from tests.core.state.contract.test_derived_state_contract import Average, sum_of
from tests.core.state.contract.ttl_states import config_of, with_ttl

LONGS = Types.LIST(Types.LONG())
NUMBER = ValueStateDescriptor("number", Types.LONG())
LIST = ValueStateDescriptor("list", LONGS)
ELEMENTS = ListStateDescriptor("elements", Types.LONG())
LISTS = ListStateDescriptor("lists", LONGS)
MAP = MapStateDescriptor("map", Types.STRING(), LONGS)
SUM = ReducingStateDescriptor("sum", sum_of, Types.LONG())
AVERAGE = AggregatingStateDescriptor("average", Average(), LONGS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


@pytest.fixture(params=[False, True], ids=["one epoch", "epochs"])
def timed(backend_name: str, clock: ManualClock, request: pytest.FixtureRequest) -> Timed:
    """Return a harness with a clock; its accesses stand in one epoch, or in one each."""
    return Timed(backend_name, clock, request.param)


class Timed:
    def __init__(self, backend_name: str, clock: ManualClock, flushes: bool) -> None:
        self.harness = BackendHarness(backend_name, clock=clock)
        self.flushes = flushes

    def use(self, descriptor: StateDescriptor, key: Any = "k") -> Any:
        if self.flushes:
            self.harness.flush()
        return self.harness.use(key, descriptor)

    def entries(self) -> int:
        """Return the number of entries that are there, expired ones among them."""
        self.harness.flush()
        return self.harness.entry_count()


@pytest.mark.parametrize("plain", [NUMBER, LIST], ids=["LONG", "LIST"])
def test_a_value_lives_until_its_time_is_over(timed: Timed, clock: ManualClock, plain: ValueStateDescriptor) -> None:
    state = with_ttl(plain)
    value: Any = 3 if plain is NUMBER else [3]
    timed.use(state).update(value)
    clock.now = 1_009
    assert timed.use(state).value() == value
    assert timed.entries() == 1
    clock.now = 1_010
    assert timed.use(state).value() is None
    assert timed.entries() == 0
    timed.use(state).update(value)
    timed.use(state).clear()
    assert timed.use(state).value() is None


def test_a_write_lets_a_value_live_on_and_a_read_does_not(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(NUMBER)
    timed.use(state).update(1)
    clock.now = 1_009
    timed.use(state).update(2)
    clock.now = 1_018
    assert timed.use(state).value() == 2
    clock.now = 1_019
    assert timed.use(state).value() is None


def test_a_read_lets_a_value_live_on_if_told_to(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(LIST, on_read=True)
    timed.use(state).update([1])
    for now in range(1_009, 1_100, 9):
        clock.now = now
        assert timed.use(state).value() == [1]
    clock.now += 10
    assert timed.use(state).value() is None


def test_an_expired_value_may_be_shown_once(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(NUMBER, show_expired=True)
    timed.use(state).update(1)
    clock.now = 5_000
    assert timed.entries() == 1
    assert timed.use(state).value() == 1
    assert timed.use(state).value() is None
    assert timed.entries() == 0


def test_changing_a_value_in_place_counts_and_is_no_access(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(LIST)
    timed.use(state).update([1])
    clock.now = 1_009
    timed.use(state).value().append(2)
    assert timed.use(state).value() == [1, 2]
    clock.now = 1_010
    assert timed.use(state).value() is None


def test_a_default_is_ignored(timed: Timed) -> None:
    state = with_ttl(ValueStateDescriptor("s", Types.LONG(), default_value=7))
    assert timed.use(state).value() is None


def test_elements_of_a_list_expire_one_by_one(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(ELEMENTS)
    for now in (1_000, 1_004, 1_008):
        clock.now = now
        timed.use(state).add(now)
    clock.now = 1_009
    assert timed.use(state).get() == [1_000, 1_004, 1_008]
    clock.now = 1_010
    assert timed.use(state).get() == [1_004, 1_008]
    clock.now = 1_014
    timed.use(state).add_all([1, 2])
    assert timed.use(state).get() == [1_008, 1, 2]
    clock.now = 1_018
    assert list(timed.use(state)) == [1, 2]
    timed.use(state).update([3])
    clock.now = 1_027
    assert timed.use(state).get() == [3]
    clock.now = 1_028
    assert timed.use(state).get() == []
    assert timed.entries() == 0


def test_a_read_lets_all_living_elements_live_on_if_told_to(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(LISTS, on_read=True)
    timed.use(state).add([1])
    clock.now = 1_005
    timed.use(state).add([2])
    clock.now = 1_010
    assert timed.use(state).get() == [[2]]
    clock.now = 1_019
    assert timed.use(state).get() == [[2]]
    clock.now = 1_029
    assert timed.use(state).get() == []


def test_expired_elements_may_be_shown_until_all_of_them_have_expired(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(ELEMENTS, show_expired=True)
    timed.use(state).add(1)
    clock.now = 1_005
    timed.use(state).add(2)
    clock.now = 1_010
    assert timed.use(state).get() == [1, 2]
    assert timed.use(state).get() == [1, 2]
    clock.now = 1_015
    assert timed.use(state).get() == [1, 2]
    assert timed.use(state).get() == []
    assert timed.entries() == 0


def test_what_is_put_into_a_list_in_place_was_added_when_the_list_was_handed_out(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(LISTS)
    timed.use(state).add_all([[1], [2]])
    clock.now = 1_005
    elements = timed.use(state).get()
    elements.insert(0, [0])
    elements[1].append(11)
    elements.reverse()
    assert timed.use(state).get() == [[2], [1, 11], [0]]
    clock.now = 1_010
    assert timed.use(state).get() == [[0]]
    timed.use(state).get().clear()
    assert timed.use(state).get() == []
    timed.use(state).add([5])
    assert timed.use(state).get() == [[5]]


def test_a_list_that_was_replaced_or_cleared_is_cut_off(timed: Timed) -> None:
    state = with_ttl(ELEMENTS)
    timed.use(state).add(1)
    old = timed.use(state).get()
    timed.use(state).update([2])
    old.append(3)
    assert timed.use(state).get() == [2]
    old = timed.use(state).get()
    timed.use(state).clear()
    old.append(3)
    assert timed.use(state).get() == []


@pytest.mark.parametrize("plain", [ELEMENTS, ListStateDescriptor("untyped")], ids=["LONG", "untyped"])
def test_what_is_put_into_a_list_in_place_is_checked(timed: Timed, plain: ListStateDescriptor) -> None:
    state = with_ttl(plain)
    for wrong in (None, {1}):
        timed.harness.use("k", state).get().append(wrong)
        with pytest.raises(StateError, match="can't be kept|can't take this value"):
            timed.harness.flush()
        timed.harness.rollback()
    with pytest.raises(StateError, match="None can't be an element"):
        timed.use(state).add(None)
    with pytest.raises(StateError, match="None can't be an element"):
        timed.use(state).add_all([1, None])


def test_entries_of_a_map_expire_one_by_one(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(MAP)
    timed.use(state)["a"] = [1]
    clock.now = 1_005
    timed.use(state).put_all({"b": [2], "c": None})
    clock.now = 1_009
    assert dict(timed.use(state).items()) == {"a": [1], "b": [2], "c": None}
    clock.now = 1_010
    assert "a" not in timed.use(state)
    assert timed.use(state)["a"] is None
    assert "c" in timed.use(state)
    assert timed.use(state)["c"] is None
    assert set(timed.use(state).keys()) == {"b", "c"}
    assert sorted(map(repr, timed.use(state).values())) == ["None", "[2]"]
    assert not timed.use(state).is_empty()
    del timed.use(state)["c"]
    assert dict(timed.use(state).items()) == {"b": [2]}
    clock.now = 1_015
    assert timed.use(state).is_empty()
    assert list(timed.use(state)) == []
    assert timed.entries() == 0


@pytest.mark.parametrize("read", [lambda s: s["a"], lambda s: s.contains("a"), lambda s: list(s)], ids=["get", "in", "iter"])
def test_a_read_lets_an_entry_live_on_if_told_to(timed: Timed, clock: ManualClock, read: Any) -> None:
    state = with_ttl(MAP, on_read=True)
    timed.use(state).put_all({"a": [1], "b": [2]})
    for now in range(1_009, 1_100, 9):
        clock.now = now
        assert read(timed.use(state))
    assert timed.use(state)["a"] == [1]
    clock.now += 10
    assert timed.use(state).is_empty()


def test_an_expired_entry_may_be_shown_once(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(MAP, show_expired=True)
    timed.use(state).put_all({"a": [1], "b": [2], "c": [3]})
    clock.now = 2_000
    assert not timed.use(state).is_empty()
    assert timed.use(state)["a"] == [1]
    assert timed.use(state)["a"] is None
    assert "b" in timed.use(state)
    assert "b" not in timed.use(state)
    assert dict(timed.use(state).items()) == {"c": [3]}
    assert timed.use(state).is_empty()


def test_an_iteration_never_touches_what_was_written_meanwhile(timed: Timed, clock: ManualClock) -> None:
    for on_read in (False, True):
        state = with_ttl(MapStateDescriptor(f"m{on_read}", None, Types.LONG()), on_read=on_read)
        timed.use(state).put_all({key: key for key in range(6)})
        clock.now += 5
        timed.use(state).put(5, 55)
        clock.now += 5
        entries = timed.use(state)
        seen = entries.items()
        entries.put_all({0: 100, 1: 101})
        entries.remove(5)
        assert list(seen) == [(5, 55)]
        assert dict(timed.use(state).items()) == {0: 100, 1: 101}


def test_an_iteration_belongs_to_the_key_it_began_with(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(MAP, on_read=True)
    timed.use(state, "one").put_all({"a": [1], "b": [2]})
    clock.now += 5
    entries = timed.use(state, "one").items()
    timed.harness.use("two", state)["z"] = [9]
    assert dict(entries) == {"a": [1], "b": [2]}
    clock.now += 5
    assert dict(timed.use(state, "two").items()) == {"z": [9]}
    assert dict(timed.use(state, "one").items()) == {"a": [1], "b": [2]}


def test_adding_to_an_expired_sum_starts_anew(timed: Timed, clock: ManualClock) -> None:
    total, average = with_ttl(SUM), with_ttl(AVERAGE)
    for state in (total, average):
        timed.use(state).add(4)
    clock.now = 1_009
    for state in (total, average):
        timed.use(state).add(2)
    clock.now = 1_018
    assert (timed.use(total).get(), timed.use(average).get()) == (6, 3.0)
    clock.now = 1_019
    for state in (total, average):
        timed.use(state).add(1)
    assert (timed.use(total).get(), timed.use(average).get()) == (1, 1.0)
    clock.now = 1_029
    assert (timed.use(total).get(), timed.use(average).get()) == (None, None)


def test_an_expired_sum_that_may_be_shown_is_added_to_as_in_flink(timed: Timed, clock: ManualClock) -> None:
    state = with_ttl(SUM, show_expired=True)
    timed.use(state).add(4)
    clock.now = 2_000
    timed.use(state).add(1)
    assert timed.use(state).get() == 5


def test_values_are_checked_as_without_a_time_to_live(timed: Timed) -> None:
    with pytest.raises(StateError, match="State 'number' can't take this value"):
        timed.use(with_ttl(NUMBER)).update("one")
    with pytest.raises(StateError, match="State 'map' can't take this value"):
        timed.use(with_ttl(MAP)).put("a", 3)
    with pytest.raises(StateError, match="State 'map' can't take this map key"):
        timed.use(with_ttl(MAP)).put(3, [3])
    with pytest.raises(StateError, match="State 'sum' can't take this value"):
        timed.use(with_ttl(SUM)).add("a")
    timed.harness.use("k", with_ttl(LIST)).update(["a"])
    with pytest.raises(StateError, match="state 'list' for key 'k' can't be kept"):
        timed.harness.flush()
    timed.harness.rollback()


def test_apply_to_all_keys_passes_over_what_has_expired(timed: Timed, clock: ManualClock) -> None:
    states: list[Any] = [with_ttl(plain) for plain in (NUMBER, ELEMENTS, MAP, SUM, AVERAGE)]

    def write(key: str) -> None:
        timed.use(states[0], key).update(1)
        timed.use(states[1], key).add(1)
        timed.use(states[2], key).put("a", [1])
        timed.use(states[3], key).add(1)
        timed.use(states[4], key).add(1)

    write("old")
    clock.now = 1_005
    write("new")
    clock.now = 1_010
    if timed.flushes:
        timed.harness.flush()
    for state in states:
        visited: list[str] = []
        timed.harness.backend.apply_to_all_keys(state, lambda key, _, seen=visited: seen.append(key))  # type: ignore[misc]
        assert visited == ["new"]


def test_a_rollback_takes_times_back(backend_name: str, clock: ManualClock) -> None:
    harness = BackendHarness(backend_name, clock=clock)
    states: list[Any] = [with_ttl(NUMBER, on_read=True), with_ttl(ELEMENTS, on_read=True), with_ttl(MAP, on_read=True)]
    harness.use("k", states[0]).update(1)
    harness.use("k", states[1]).add(1)
    harness.use("k", states[2]).put("a", [1])
    harness.flush()

    def read() -> list[Any]:
        return [harness.use("k", states[0]).value(), harness.use("k", states[1]).get(), harness.use("k", states[2])["a"]]

    clock.now = 1_009
    assert read() == [1, [1], [1]]
    harness.rollback()
    clock.now = 1_010
    assert read() == [None, [], None]
    harness.rollback()
    clock.now = 1_005
    assert read() == [1, [1], [1]]
    harness.flush()
    clock.now = 1_014
    assert read() == [1, [1], [1]]


def test_a_state_is_declared_with_one_time_to_live(timed: Timed) -> None:
    timed.use(with_ttl(NUMBER))
    timed.use(with_ttl(NUMBER))
    for other in (NUMBER, with_ttl(NUMBER, config_of(11))):
        with pytest.raises(StateError, match="declared twice"):
            timed.use(other)
