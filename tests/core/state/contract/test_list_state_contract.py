"""What every backend promises about list state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pystate.common import Row, TypeInformation, Types
from pystate.common.errors import StateError
from pystate.core.api.state import ListState, ListStateDescriptor
from pystate.core.state.base.loader import state_backend_names
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, written

LONGS = Types.LIST(Types.LONG())
NUMBERS = ListStateDescriptor("numbers", Types.LONG())
LISTS = ListStateDescriptor("lists", LONGS)
# a type and three elements
ELEMENTS: list[tuple[TypeInformation | None, list[Any]]] = [
    (Types.LONG(), [1, -1, 2**62]),
    (Types.STRING(), ["", "a", "ü"]),
    (Types.DOUBLE(), [0.5, -0.0, 1e300]),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), (2, ""), (1, "a")]),
    (LONGS, [[], [1], [1, 2]]),
    (Types.ROW_NAMED(["a"], [Types.INT()]), [Row(a=1), Row(a=2), Row(a=3)]),
    (Types.PICKLED_BYTE_ARRAY(), [{1}, frozenset(), 1j]),
    (None, [0, "a", {"b": [1, (2,)]}]),
]


@pytest.mark.parametrize(("type_info", "elements"), ELEMENTS)
@pytest.mark.parametrize("target", state_backend_names())
def test_elements_come_back_in_order_across_epochs_restores_and_backends(
    harness: BackendHarness, target: str, type_info: TypeInformation | None, elements: list[Any]
) -> None:
    descriptor = ListStateDescriptor("l", type_info)
    first, second, third = elements
    assert harness.use("k", descriptor).get() == []
    harness.use("k", descriptor).add(first)
    harness.use("other", descriptor).add_all([third, third])
    harness.flush()
    harness.use("k", descriptor).add_all([second])
    assert harness.use("k", descriptor).get() == [first, second]
    harness.flush()
    harness.use("k", descriptor).add(third)
    harness.flush()
    restored = harness.restored(harness.save(), 3, target)
    assert restored.use("k", descriptor).get() == elements
    restored.use("k", descriptor).add(first)
    restored.flush()
    again = restored.restored(restored.save(), 2, harness.backend_name)
    assert again.use("k", descriptor).get() == [*elements, first]
    assert again.use("other", descriptor).get() == [third, third]
    again.use("k", descriptor).update([second])
    again.use("other", descriptor).update([])
    again.flush()
    assert again.use("k", descriptor).get() == [second]
    assert again.use("other", descriptor).get() == []
    assert again.entry_count() == 1


@pytest.mark.parametrize(("old", "new"), [(1, 1), (2, 3), (3, 2), (1, MAX_PARALLELISM)])
def test_lists_move_to_another_parallelism_complete(backend_name: str, old: int, new: int) -> None:
    harness = BackendHarness(backend_name, Types.STRING(), old)
    for epoch in range(3):
        for number in range(50):
            harness.use(f"key-{number}", NUMBERS).add_all(list(range(number % 4 + epoch)))
        harness.flush()
    expected = {f"key-{n}": [x for epoch in range(3) for x in range(n % 4 + epoch)] for n in range(50)}
    restored = harness.restored(harness.save(), new)
    assert {key: restored.use(key, NUMBERS).get() for key in expected} == expected


def test_none_is_no_element(harness: BackendHarness) -> None:
    for descriptor in (NUMBERS, ListStateDescriptor("untyped")):
        state = harness.use("k", descriptor)
        with pytest.raises(StateError, match=f"None can't be an element of list state '{descriptor.name}'"):
            state.add(None)
        for write in (state.add_all, state.update):
            with pytest.raises(StateError, match="None can't be an element"):
                write([1, None])
        assert state.get() == []
        state.get().append(None)
        with pytest.raises(StateError, match=rf"'{descriptor.name}' for key 'k'.*None can't be an element"):
            harness.flush()
        harness.rollback()


def test_a_wrong_element_is_refused_at_once_or_at_the_flush(harness: BackendHarness) -> None:
    state = harness.use("k", NUMBERS)
    for write in (lambda: state.add("1"), lambda: state.add_all([1, "1"]), lambda: state.update([True])):
        with pytest.raises(StateError, match=r"'numbers'.*LONG"):
            write()
    with pytest.raises(StateError, match="takes a list"):
        state.update("12")  # type: ignore[arg-type]
    assert state.get() == []
    state.get().append("in place")
    with pytest.raises(StateError, match=r"'numbers'.*LONG"):
        harness.flush()
    harness.rollback()
    harness.use("k", LISTS).add(["x"])
    with pytest.raises(StateError, match=r"'lists' for key 'k'.*LONG"):
        harness.flush()
    harness.rollback()
    harness.flush()
    assert harness.entry_count() == 0


def test_numbers_are_kept_as_the_type_has_them(harness: BackendHarness) -> None:
    descriptor = ListStateDescriptor("d", Types.DOUBLE())
    harness.use("k", descriptor).add_all([1, 2])
    assert [type(x) for x in harness.use("k", descriptor).get()] == [float, float]
    harness.use("k", descriptor).get().append(3)
    harness.flush()
    assert [type(x) for x in harness.use("k", descriptor).get()] == [float] * 3


def test_a_handed_out_list_that_is_changed_in_place_counts(harness: BackendHarness) -> None:
    harness.use("k", NUMBERS).update([1, 2, 3])
    harness.use("l", LISTS).update([[1], [2]])
    harness.flush()
    numbers, lists = harness.use("k", NUMBERS).get(), harness.use("l", LISTS).get()
    numbers.remove(2)
    lists[0].append(9)
    assert harness.use("k", NUMBERS).get() == [1, 3]
    harness.flush()
    numbers.append(99)
    lists[1].append(99)
    restored = harness.restored(harness.save())
    for one in (harness, restored):
        assert one.use("k", NUMBERS).get() == [1, 3]
        assert one.use("l", LISTS).get() == [[1, 9], [2]]


@pytest.mark.parametrize("descriptor", [NUMBERS, LISTS])
def test_every_way_to_change_a_handed_out_list_counts(harness: BackendHarness, descriptor: ListStateDescriptor) -> None:
    def element(number: int) -> Any:
        return [number] if descriptor is LISTS else number

    changes: list[Callable[[list[Any]], object]] = [
        lambda elements: elements.append(element(4)),
        lambda elements: elements.insert(0, element(4)),
        lambda elements: elements.__setitem__(1, element(4)),
        lambda elements: elements.reverse(),
        lambda elements: elements.pop(),
        lambda elements: elements.pop(0),
        lambda elements: elements.clear(),
        lambda elements: elements.extend([element(4), element(5)]),
        lambda elements: elements.__imul__(2),
    ]
    expected = []
    for number, change in enumerate(changes):
        harness.use(number, descriptor).update([element(1), element(2), element(3)])
        expected.append([element(1), element(2), element(3)])
        change(expected[-1])
    harness.flush()
    for number, change in enumerate(changes):
        state = harness.use(number, descriptor)
        change(state.get())
        state.add(element(9))
        expected[number].append(element(9))
    harness.flush()
    for one in (harness, harness.restored(harness.save())):
        assert [one.use(number, descriptor).get() for number in range(len(changes))] == expected


def test_what_is_given_is_copied_but_not_its_elements(harness: BackendHarness) -> None:
    mine = [[1], [2]]
    for key in "ab":
        harness.use(key, LISTS).update(mine)
        harness.use(key, LISTS).add([3])
    assert mine == [[1], [2]]
    mine.append([4])
    mine[0].append(5)
    harness.flush()
    assert [harness.use(key, LISTS).get() for key in "ab"] == [[[1, 5], [2], [3]]] * 2


def test_adding_while_iterating_ends(harness: BackendHarness) -> None:
    harness.use("k", NUMBERS).update([1, 2])
    harness.flush()
    state: ListState[int] = harness.use("k", NUMBERS)
    for element in state:
        state.add(element * 10)
    assert state.get() == [1, 2, 10, 20]


def test_a_rollback_undoes_additions_replacements_and_in_place_changes(harness: BackendHarness) -> None:
    for key in "abcd":
        harness.use(key, LISTS).update([[1]])
    harness.flush()
    harness.use("a", LISTS).add([2])
    harness.use("b", LISTS).clear()
    harness.use("c", LISTS).update([[3]])
    harness.use("d", LISTS).get()[0].append(4)
    harness.use("new", LISTS).add([5])
    harness.rollback()
    assert [harness.use(key, LISTS).get() for key in "abcd"] == [[[1]]] * 4
    assert harness.use("new", LISTS).get() == []


def test_clear_then_add_keeps_only_what_was_added(harness: BackendHarness) -> None:
    harness.use("k", NUMBERS).update([1, 2])
    harness.flush()
    state = harness.use("k", NUMBERS)
    state.add(3)
    state.clear()
    assert state.get() == []
    state.clear()
    state.add(4)
    harness.flush()
    assert harness.use("k", NUMBERS).get() == [4]
    harness.use("k", NUMBERS).clear()
    harness.flush()
    assert harness.entry_count() == 0


def test_open_snapshots_hold_their_own_lists_while_epochs_go_on(harness: BackendHarness) -> None:
    open_snapshots = []
    for epoch in range(12):  # always three open, so that layers pile up
        harness.use("appended", NUMBERS).add(epoch)
        harness.use("changed", LISTS).update([[epoch], [epoch]])
        if epoch % 3 == 2:
            harness.use("cleared", NUMBERS).clear()
        else:
            harness.use("cleared", NUMBERS).add(epoch)
        harness.flush()
        open_snapshots.append((epoch, harness.backend.snapshot()))
        if len(open_snapshots) > 3:
            old, snapshot = open_snapshots.pop(0)
            restored = harness.restored([written(snapshot)])
            assert restored.use("appended", NUMBERS).get() == list(range(old + 1))
            assert restored.use("changed", LISTS).get() == [[old], [old]]
            assert restored.use("cleared", NUMBERS).get() == [[old], [old - 1, old], []][old % 3]
    for _, snapshot in open_snapshots:
        snapshot.release()
    harness.flush()
    assert harness.use("appended", NUMBERS).get() == list(range(12))


def test_a_list_state_is_out_of_reach_without_a_key(harness: BackendHarness) -> None:
    state = harness.backend.get_partitioned_state(NUMBERS)
    assert isinstance(state, ListState)
    for access in (state.get, state.clear, lambda: state.add(1), lambda: state.add_all([1]), lambda: state.update([1])):
        with pytest.raises(StateError, match="no current key"):
            access()
    harness.backend.set_current_key("k", MAX_PARALLELISM)
    with pytest.raises(StateError, match="Key group 16"):
        state.add(1)
