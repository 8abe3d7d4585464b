"""What every backend promises about map state."""

from __future__ import annotations

import decimal
from typing import Any

import pytest

from pystate.common import Row, TypeInformation, Types
from pystate.common.errors import StateError
from pystate.core.api.state import MapState, MapStateDescriptor
from pystate.core.state.base.loader import state_backend_names
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, written

LONGS = Types.LIST(Types.LONG())
COUNTS = MapStateDescriptor("counts", Types.STRING(), Types.LONG())
LISTS = MapStateDescriptor("lists", None, LONGS)
UNTYPED = MapStateDescriptor("untyped")
# the types of key and value, and entries
ENTRIES: list[tuple[TypeInformation | None, TypeInformation | None, list[tuple[Any, Any]]]] = [
    (Types.STRING(), Types.LONG(), [("", 1), ("a", 2), ("ü", None)]),
    (Types.LONG(), Types.STRING(), [(1, ""), (-1, "a"), (2**62, None)]),
    (Types.DOUBLE(), Types.BOOLEAN(), [(0.5, True), (1.0, False), (-1.0, None)]),
    (Types.BIG_DEC(), Types.DOUBLE(), [(decimal.Decimal(1), 0.5), (decimal.Decimal("1.5"), None)]),
    (Types.TUPLE([Types.INT(), Types.STRING()]), LONGS, [((1, "a"), []), ((2, "a"), [1]), ((2, ""), None)]),
    (LONGS, Types.ROW_NAMED(["a"], [Types.INT()]), [([], Row(a=1)), ([1], Row(a=2)), ([1, 2], None)]),
    (Types.STRING(), Types.PICKLED_BYTE_ARRAY(), [("a", {1}), ("b", None)]),
    (None, None, [(1, 0), (1.0, "a"), (True, [1]), ("1", (1,)), (b"1", {"a": 1}), ((1,), None), ([1], 1.0), (Row(1), b"")]),
]


def entries_of(state: MapState[Any, Any]) -> list[str]:
    return sorted(f"{key!r}: {value!r}" for key, value in state.items())


@pytest.mark.parametrize(("key_type", "value_type", "entries"), ENTRIES)
@pytest.mark.parametrize("target", state_backend_names())
def test_entries_are_read_written_and_removed_across_epochs_restores_and_backends(
    harness: BackendHarness,
    target: str,
    key_type: TypeInformation | None,
    value_type: TypeInformation | None,
    entries: list[tuple[Any, Any]],
) -> None:
    descriptor = MapStateDescriptor("m", key_type, value_type)
    expected = sorted(f"{key!r}: {value!r}" for key, value in entries)
    for key, value in entries:
        assert harness.use("k", descriptor).get(key) is None
        assert not harness.use("k", descriptor).contains(key)
        harness.use("k", descriptor).put(key, value)
    harness.use("other", descriptor).put(*entries[0])
    for _ in range(2):
        assert entries_of(harness.use("k", descriptor)) == expected
        harness.flush()
    restored = harness.restored(harness.save(), 3, target)
    assert entries_of(restored.use("k", descriptor)) == expected
    for key, value in entries:
        assert restored.use("k", descriptor).contains(key)
        assert restored.use("k", descriptor).get(key) == value
    restored.use("k", descriptor).remove(entries[0][0])
    restored.flush()
    again = restored.restored(restored.save(), 2, harness.backend_name)
    assert len(list(again.use("k", descriptor).keys())) == len(list(again.use("k", descriptor).values())) == len(entries) - 1
    assert not again.use("k", descriptor).contains(entries[0][0])
    assert entries_of(again.use("other", descriptor)) == [f"{entries[0][0]!r}: {entries[0][1]!r}"]
    assert again.entry_count() == len(entries)


@pytest.mark.parametrize(("old", "new"), [(1, 1), (2, 3), (3, 2), (1, MAX_PARALLELISM)])
def test_maps_move_to_another_parallelism_complete(backend_name: str, old: int, new: int) -> None:
    harness = BackendHarness(backend_name, Types.STRING(), old)
    expected = {f"key-{n}": {f"entry-{m}": m for m in range(n % 5 + 1)} for n in range(60)}
    for key, entries in expected.items():
        harness.use(key, COUNTS).put_all(entries)
    harness.flush()
    restored = harness.restored(harness.save(), new)
    assert {key: dict(restored.use(key, COUNTS).items()) for key in expected} == expected
    assert restored.entry_count() == harness.entry_count() == sum(map(len, expected.values()))


def test_maps_are_used_like_dicts(harness: BackendHarness) -> None:
    state = harness.use("k", COUNTS)
    state["a"] = 1
    state.put_all({"b": 2, "c": None})
    state.put_all({"pair": 3}.items())
    harness.flush()
    state = harness.use("k", COUNTS)
    assert state["a"] == 1
    assert state["pair"] == 3
    assert state["missing"] is None
    assert "c" in state
    assert state["c"] is None
    del state["a"]
    del state["missing"]
    assert sorted(state) == ["b", "c", "pair"]
    assert "a" not in state


def test_none_is_a_value_that_is_there(harness: BackendHarness) -> None:
    for descriptor in (COUNTS, LISTS, UNTYPED):
        harness.use("k", descriptor).put("a", None)
    for _ in range(3):
        for descriptor in (COUNTS, LISTS, UNTYPED):
            state = harness.use("k", descriptor)
            assert (state.get("a"), state.contains("a"), state.is_empty()) == (None, True, False)
            assert list(state.items()) == [("a", None)]
        harness.flush()
        harness = harness.restored(harness.save())


def test_is_empty_follows_every_write(harness: BackendHarness) -> None:
    assert harness.use("k", COUNTS).is_empty()
    harness.use("k", COUNTS).put("a", 1)
    assert not harness.use("k", COUNTS).is_empty()
    harness.use("k", COUNTS).put("a", 2)
    harness.use("k", COUNTS).remove("a")
    assert harness.use("k", COUNTS).is_empty()
    harness.use("k", COUNTS).remove("a")
    harness.use("k", COUNTS).put("b", 1)
    harness.flush()
    state = harness.use("k", COUNTS)
    assert not state.is_empty()
    state.remove("b")
    assert state.is_empty()
    state.put("b", 2)
    state.clear()
    assert state.is_empty()
    harness.flush()
    assert harness.use("k", COUNTS).is_empty()
    assert harness.entry_count() == 0


def test_map_keys_are_typed_and_wrong_ones_refused(harness: BackendHarness) -> None:
    state = harness.use("k", UNTYPED)
    for number, key in enumerate([1, 1.0, True, "1", b"1", (1,), [1]]):
        state.put(key, number)
    assert [state.get(key) for key in [1, 1.0, True, "1", b"1", (1,), [1]]] == list(range(7))
    state = harness.use("k", COUNTS)
    for access in (lambda: state.put(1, 1), lambda: state.get(1), lambda: state.remove(1), lambda: state.contains(1)):
        with pytest.raises(StateError, match=r"'counts' can't take this map key.*STRING"):
            access()
    with pytest.raises(StateError, match=r"'untyped' can't take this map key.*set"):
        harness.use("k", UNTYPED).put({1}, 1)
    with pytest.raises(StateError, match="can't be the type of a key"):
        harness.use("k", MapStateDescriptor("bad", Types.MAP(Types.STRING(), Types.LONG()), Types.LONG()))


def test_a_wrong_value_is_refused_at_once_or_at_the_flush(harness: BackendHarness) -> None:
    state = harness.use("k", COUNTS)
    for write in (lambda: state.put("a", "1"), lambda: state.put_all({"b": 1, "a": 2**63})):
        with pytest.raises(StateError, match=r"'counts'.*LONG"):
            write()
    assert state.is_empty()
    harness.use("k", LISTS).put("a", ["x"])
    with pytest.raises(StateError, match=r"'lists' for key 'k', map key 'a', can't be kept.*LONG"):
        harness.flush()
    harness.rollback()
    assert harness.use("k", LISTS).is_empty()


def test_a_value_changed_in_place_counts_and_an_iterated_one_does_not(harness: BackendHarness) -> None:
    harness.use("k", LISTS).put_all({"a": [1], "b": [1], "c": [1]})
    harness.flush()
    state = harness.use("k", LISTS)
    handed = state.get("a")
    handed.append(2)
    for key, value in state.items():
        if key == "b":
            value.append(3)
    assert (state.get("a"), state.get("b")) == ([1, 2], [1])
    harness.flush()
    handed.append(99)
    for one in (harness, harness.restored(harness.save())):
        assert dict(one.use("k", LISTS).items()) == {"a": [1, 2], "b": [1], "c": [1]}


def test_a_rollback_undoes_puts_removals_and_in_place_changes(harness: BackendHarness) -> None:
    for key in "abcd":
        harness.use(key, LISTS).put_all({"x": [1], "y": [1]})
    harness.flush()
    harness.use("a", LISTS).put("x", [2])
    harness.use("b", LISTS).remove("y")
    harness.use("c", LISTS).get("x").append(2)
    harness.use("d", LISTS).clear()
    harness.use("new", LISTS).put("x", [1])
    harness.rollback()
    assert all(dict(harness.use(key, LISTS).items()) == {"x": [1], "y": [1]} for key in "abcd")
    assert harness.use("new", LISTS).is_empty()


def test_iteration_shows_the_map_as_it_was_when_it_began(harness: BackendHarness) -> None:
    harness.use("k", COUNTS).put_all({f"old-{n}": n for n in range(10)})
    harness.flush()
    state = harness.use("k", COUNTS)
    state.put("new", 100)
    state.put("old-0", 50)
    state.remove("old-1")
    expected = {**{f"old-{n}": n for n in range(2, 10)}, "new": 100, "old-0": 50}
    items, keys, values = state.items(), state.keys(), state.values()
    seen = {}
    for number, (key, value) in enumerate(items):
        seen[key] = value
        state.remove(key)
        state.put(f"added-{number}", number)
        if number == 3:
            state.clear()
    assert seen == expected
    assert sorted(keys) == sorted(expected)
    assert sorted(values) == sorted(expected.values())
    assert sorted(state) == sorted(f"added-{n}" for n in range(4, 10))


@pytest.mark.parametrize("end", ["flush", "rollback"])
def test_an_iteration_that_outlives_its_epoch_says_so(harness: BackendHarness, end: str) -> None:
    harness.use("k", COUNTS).put_all({"a": 1, "b": 2, "c": 3})
    harness.flush()
    state = harness.use("k", COUNTS)
    state.put("d", 4)
    begun, fresh, done = state.items(), state.keys(), state.values()
    next(begun)
    assert len(list(done)) == 4
    getattr(harness, end)()
    harness.use("k", COUNTS).put("e", 5)
    for iteration in (begun, fresh):
        with pytest.raises(StateError, match="'counts' went on after its epoch had ended"):
            next(iteration)
    assert list(done) == []


def test_clear_then_put_keeps_only_what_was_put(harness: BackendHarness) -> None:
    harness.use("k", LISTS).put_all({"a": [1], "b": [2], "c": [3]})
    harness.use("k2", LISTS).put("a", [1])
    harness.flush()
    state = harness.use("k", LISTS)
    state.clear()
    assert (state.get("a"), state.contains("b"), list(state)) == (None, False, [])
    state.put("b", [2])
    state.put("d", [4])
    state.remove("d")
    harness.flush()
    for one in (harness, harness.restored(harness.save())):
        assert dict(one.use("k", LISTS).items()) == {"b": [2]}
        assert dict(one.use("k2", LISTS).items()) == {"a": [1]}


def test_open_snapshots_hold_their_own_maps_while_epochs_go_on(harness: BackendHarness) -> None:
    open_snapshots = []
    for epoch in range(12):  # always three open, so that layers pile up
        harness.use("grows", COUNTS).put(str(epoch), epoch)
        harness.use("window", LISTS).put(epoch, [epoch])
        harness.use("window", LISTS).remove(epoch - 2)
        if epoch % 3 == 2:
            harness.use("cleared", COUNTS).clear()
        else:
            harness.use("cleared", COUNTS).put(str(epoch), epoch)
        harness.flush()
        open_snapshots.append((epoch, harness.backend.snapshot()))
        if len(open_snapshots) > 3:
            old, snapshot = open_snapshots.pop(0)
            restored = harness.restored([written(snapshot)])
            assert dict(restored.use("grows", COUNTS).items()) == {str(n): n for n in range(old + 1)}
            assert dict(restored.use("window", LISTS).items()) == {n: [n] for n in range(max(0, old - 1), old + 1)}
            cleared = [{str(old): old}, {str(old - 1): old - 1, str(old): old}, {}][old % 3]
            assert dict(restored.use("cleared", COUNTS).items()) == cleared
    for _, snapshot in open_snapshots:
        snapshot.release()
    harness.flush()
    assert dict(harness.use("grows", COUNTS).items()) == {str(n): n for n in range(12)}


def test_a_map_state_is_out_of_reach_without_a_key(harness: BackendHarness) -> None:
    state = harness.backend.get_partitioned_state(COUNTS)
    assert isinstance(state, MapState)
    for access in (state.items, state.clear, state.is_empty, lambda: state.put("a", 1), lambda: state.get("a")):
        with pytest.raises(StateError, match="no current key"):
            access()
    harness.backend.set_current_key("k", MAX_PARALLELISM)
    with pytest.raises(StateError, match="Key group 16"):
        state.put("a", 1)


@pytest.mark.parametrize("read", ["items", "values"])
@pytest.mark.parametrize("history", ["the epoch wrote it", "an earlier one did", "the epoch has read it"])
def test_what_an_iteration_hands_out_is_a_copy_wherever_it_comes_from(
    harness: BackendHarness, read: str, history: str
) -> None:
    descriptor = MapStateDescriptor("m", Types.STRING(), Types.LIST(Types.LONG()))
    state = harness.use("k", descriptor)
    state.put_all({"a": [1], "b": [1]})
    if history != "the epoch wrote it":
        harness.flush()
        state = harness.use("k", descriptor)
    if history == "the epoch has read it":
        state.get("a").append(2)
    expected = {"a": [1, 2] if history == "the epoch has read it" else [1], "b": [1]}

    for found in list(getattr(state, read)()):
        (found[1] if read == "items" else found).append(7)

    assert dict(state.items()) == expected
    harness.flush()
    assert dict(harness.use("k", descriptor).items()) == expected
