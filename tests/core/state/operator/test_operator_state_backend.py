"""Operator state in epochs: a flush makes changes last, a rollback undoes them, a snapshot sees what is flushed."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from pystate.common import Row, TypeInformation, Types
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError
from pystate.core.api.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from pystate.core.state.operator.broadcast_state import ReadOnlyBroadcastView
from pystate.core.state.operator.format import OperatorStateReader
from pystate.core.state.operator.operator_state_backend import OperatorStateBackend, OperatorStateSnapshot
from tests.hypothesis_profiles import of_model

LONGS = ListStateDescriptor("longs", Types.LONG())
LISTS = ListStateDescriptor("lists", Types.LIST(Types.LONG()))
UNTYPED = ListStateDescriptor("untyped")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.LONG()))


def saved(snapshot: OperatorStateSnapshot | None) -> bytes:
    assert snapshot is not None
    sink = io.BytesIO()
    snapshot.write(sink)
    return sink.getvalue()


def restored(*files: bytes) -> OperatorStateBackend:
    """A backend with all that is in the files."""
    backend = OperatorStateBackend("uid test")
    for data in files:
        infos = OperatorStateReader(io.BytesIO(data)).states.values()
        backend.restore(io.BytesIO(data), {info.name: (0, info.entries) for info in infos})
    return backend


@pytest.fixture
def backend() -> OperatorStateBackend:
    return OperatorStateBackend("uid test")


def test_a_list_keeps_what_finished_epochs_did(backend: OperatorStateBackend) -> None:
    state = backend.get_list_state(LONGS)
    assert state.get() == []
    state.add(1)
    state.add_all([2, 3])
    assert list(state) == [1, 2, 3]
    backend.finish_epoch()
    state.add(4)
    backend.roll_back_epoch()
    assert state.get() == [1, 2, 3]
    state.update([9])
    state.add(10)
    backend.finish_epoch()
    assert state.get() == [9, 10]
    state.clear()
    assert state.get() == []
    backend.roll_back_epoch()
    assert state.get() == [9, 10]


@pytest.mark.parametrize("descriptor", [LISTS, UNTYPED])
def test_elements_changed_in_place_count_until_they_are_rolled_back_and_never_afterwards(
    backend: OperatorStateBackend, descriptor: ListStateDescriptor
) -> None:
    state = backend.get_list_state(descriptor)
    mine = [1]
    state.add(mine)
    mine.append(2)
    backend.finish_epoch()
    mine.append(3)
    assert state.get() == [[1, 2]]
    state.get()[0].append(4)
    backend.roll_back_epoch()
    assert state.get() == [[1, 2]]
    handed_out = state.get()
    handed_out[0].append(5)
    handed_out.append([6])
    backend.finish_epoch()
    handed_out.append([7])
    handed_out[0].append(8)
    assert state.get() == [[1, 2, 5], [6]]


def test_the_list_given_to_update_is_not_the_states(backend: OperatorStateBackend) -> None:
    state, mine = backend.get_list_state(LONGS), [1]
    state.update(mine)
    state.add(2)
    mine.append(3)
    assert (state.get(), mine) == ([1, 2], [1, 3])


@pytest.mark.parametrize(("descriptor", "wrong"), [(LONGS, "x"), (LONGS, None), (LISTS, 1), (LONGS, 2**63)])
def test_an_element_of_another_type_is_refused_where_it_is_given(
    backend: OperatorStateBackend, descriptor: ListStateDescriptor, wrong: Any
) -> None:
    state = backend.get_list_state(descriptor)
    for give in (state.add, lambda value: state.add_all([value]), lambda value: state.update([value])):
        with pytest.raises(StateError, match=descriptor.name):
            give(wrong)
    assert state.get() == []


def test_what_is_wrong_inside_is_refused_at_the_end_of_the_epoch_and_nothing_is_flushed(
    backend: OperatorStateBackend,
) -> None:
    longs, lists, rules = (
        backend.get_list_state(LONGS),
        backend.get_list_state(LISTS),
        backend.get_broadcast_state(RULES),
    )
    longs.add(1)
    rules.put("a", [1])
    lists.add(["wrong"])
    with pytest.raises(StateError, match="'lists'") as refused:
        backend.finish_epoch()
    assert refused.value.where == "uid test"
    backend.roll_back_epoch()
    assert (longs.get(), lists.get(), list(rules.items())) == ([], [], [])
    longs.get().append("wrong")
    with pytest.raises(StateError, match="'longs'"):
        backend.finish_epoch()


def test_broadcast_state_is_a_map_with_the_keys_of_key_by(backend: OperatorStateBackend) -> None:
    state = backend.get_broadcast_state(MapStateDescriptor("any"))
    state.put_all({1: "int", "1": "str"})
    state[1.0] = None
    state[True] = "bool"
    assert state.get(1) == "int"
    assert state[1.0] is None
    assert 1.0 in state
    assert 2 not in state
    assert state.get(2) is None
    assert {(type(key), key) for key in state} == {(int, 1), (str, "1"), (float, 1.0), (bool, True)}
    backend.finish_epoch()
    del state[1]
    state.remove("never there")
    assert sorted(map(str, state.values())) == ["None", "bool", "str"]
    state.clear()
    assert state.is_empty()
    state["new"] = 1
    assert list(state.items()) == [("new", 1)]
    backend.roll_back_epoch()
    assert len(list(state.keys())) == 4


@pytest.mark.parametrize("key_type", [None, Types.STRING(), Types.LONG()], ids=str)
def test_none_is_a_key_of_broadcast_state(backend: OperatorStateBackend, key_type: TypeInformation | None) -> None:
    descriptor = MapStateDescriptor("any", key_type, Types.INT())
    state = backend.get_broadcast_state(descriptor)
    state.put_all([(None, 1)])
    backend.finish_epoch()
    assert (state.get(None), None in state, list(state.items())) == (1, True, [(None, 1)])
    state.remove(None)
    backend.finish_epoch()
    assert state.is_empty()


def test_a_value_of_broadcast_state_changed_in_place_counts(backend: OperatorStateBackend) -> None:
    state = backend.get_broadcast_state(RULES)
    mine = [1]
    state.put("a", mine)
    mine.append(2)
    backend.finish_epoch()
    mine.append(3)
    value = state.get("a")
    assert value == [1, 2]
    assert value is not None
    value.append(4)
    assert state.get("a") == [1, 2, 4]
    backend.roll_back_epoch()
    assert state.get("a") == [1, 2]
    for _, value in state.items():
        assert value is not None
        value.append(5)
    backend.finish_epoch()
    assert state.get("a") == [1, 2, 5]


def test_the_read_only_view_shows_the_state_and_refuses_every_write(backend: OperatorStateBackend) -> None:
    state = backend.broadcast_state(RULES)
    view: Any = ReadOnlyBroadcastView("rules", state)
    assert view.is_empty()
    state.put("a", [1])
    state.put("n", None)
    assert view.get("a") == [1]
    backend.finish_epoch()
    assert (view["a"], view["n"], view["x"]) == ([1], None, None)
    assert view.get("a") is view.get("a"), "read once per epoch"
    assert dict(view.items()) == {"a": [1], "n": None}
    assert ("n" in view, "x" in view, sorted(view), list(view.values())) == (True, False, ["a", "n"], [[1], None])
    writes = [
        lambda: view.put("a", []),
        lambda: view.put_all({}),
        lambda: view.remove("a"),
        view.clear,
        lambda: view.__setitem__("a", []),
        lambda: view.__delitem__("a"),
    ]
    for write in writes:
        with pytest.raises(StateError, match="only process_broadcast_element may write"):
            write()
    view.get("a").append(2)
    backend.finish_epoch()
    assert view.get("a") == [1], "what a reader changed against the rules doesn't last"


def test_broadcast_state_refuses_writes_while_it_is_read_only(backend: OperatorStateBackend) -> None:
    state = backend.get_broadcast_state(RULES)
    backend.read_only = True
    for write in (lambda: state.put("a", []), lambda: state.remove("a"), state.clear, lambda: state.put_all({"a": []})):
        with pytest.raises(StateError, match="read-only here"):
            write()
    backend.read_only = False
    state.put("a", [])


def test_a_snapshot_is_what_was_flushed_whatever_comes_later(backend: OperatorStateBackend) -> None:
    longs, rules = backend.get_list_state(LONGS), backend.get_broadcast_state(RULES)
    longs.add_all([1, 2])
    rules.put_all({"a": [1], "b": [2]})
    backend.finish_epoch()
    longs.add(3)
    rules.put("c", [3])
    before = backend.snapshot()
    longs.add(4)
    value = rules.get("a")
    assert value is not None
    value.append(9)
    rules.remove("b")
    backend.finish_epoch()
    middle = backend.snapshot()
    longs.update([7])
    rules.clear()
    backend.finish_epoch()
    first, second = restored(saved(before)), restored(saved(middle))
    assert first.get_list_state(LONGS).get() == [1, 2]
    assert dict(first.get_broadcast_state(RULES).items()) == {"a": [1], "b": [2]}
    assert second.get_list_state(LONGS).get() == [1, 2, 3, 4]
    assert dict(second.get_broadcast_state(RULES).items()) == {"a": [1, 9], "c": [3]}


def test_no_state_is_no_snapshot_and_an_empty_one_is_one(backend: OperatorStateBackend) -> None:
    assert backend.snapshot() is None
    backend.get_union_list_state(LONGS)
    assert restored(saved(backend.snapshot())).get_registered_state_names() == {"longs"}


def test_state_nobody_asks_for_stays_in_the_next_snapshot(backend: OperatorStateBackend) -> None:
    backend.get_list_state(LISTS).add([1, 2])
    backend.get_broadcast_state(RULES).put("a", None)
    backend.finish_epoch()
    idle = restored(saved(backend.snapshot()))
    assert idle.get_registered_state_names() == {"lists"}
    assert idle.get_registered_broadcast_state_names() == {"rules"}
    again = restored(saved(idle.snapshot()))
    assert again.get_list_state(LISTS).get() == [[1, 2]]
    assert dict(again.get_broadcast_state(RULES).items()) == {"a": None}
    assert again.get_registered_state_names() == {"lists"}


def test_restored_state_is_a_base_to_roll_back_to(backend: OperatorStateBackend) -> None:
    backend.get_list_state(UNTYPED).add({"a": [1]})
    backend.finish_epoch()
    other = restored(saved(backend.snapshot()))
    state = other.get_list_state(UNTYPED)
    state.get()[0]["a"].append(2)
    state.add(3)
    other.roll_back_epoch()
    assert state.get() == [{"a": [1]}]


def test_elements_of_several_files_come_one_file_after_another() -> None:
    files = []
    for first in (0, 10):
        backend = OperatorStateBackend()
        backend.get_union_list_state(LONGS).add_all([first, first + 1])
        backend.finish_epoch()
        files.append(saved(backend.snapshot()))
    assert restored(*files).get_union_list_state(LONGS).get() == [0, 1, 10, 11]


def test_files_that_tell_different_types_are_damage() -> None:
    files = []
    for descriptor in (LONGS, ListStateDescriptor("longs", Types.STRING())):
        backend = OperatorStateBackend()
        backend.get_list_state(descriptor)
        files.append(saved(backend.snapshot()))
    with pytest.raises(CorruptSnapshotError, match="different types"):
        restored(*files)


def test_a_name_is_one_state(backend: OperatorStateBackend) -> None:
    assert backend.get_list_state(LONGS) is backend.get_list_state(ListStateDescriptor("longs", Types.LONG()))
    for again in (
        lambda: backend.get_union_list_state(LONGS),
        lambda: backend.get_list_state(ListStateDescriptor("longs", Types.INT())),
        lambda: backend.get_broadcast_state(MapStateDescriptor("longs")),
    ):
        with pytest.raises(StateError, match="declared twice"):
            again()
    backend.get_broadcast_state(RULES)
    with pytest.raises(StateError, match="declared twice"):
        backend.get_broadcast_state(MapStateDescriptor("rules", Types.LONG(), RULES.type_info))
    with pytest.raises(StateError, match="MapStateDescriptor"):
        backend.get_broadcast_state(ValueStateDescriptor("v"))  # type: ignore[arg-type]
    with pytest.raises(StateError, match="ListStateDescriptor"):
        backend.get_list_state(ValueStateDescriptor("v"))  # type: ignore[arg-type]


def file_of(descriptor: Any, *values: Any) -> bytes:
    backend = OperatorStateBackend()
    if isinstance(descriptor, MapStateDescriptor):
        backend.get_broadcast_state(descriptor).put_all(dict(values))
    else:
        backend.get_list_state(descriptor).add_all(list(values))
    backend.finish_epoch()
    return saved(backend.snapshot())


def test_restored_state_of_another_mode_or_type_is_refused() -> None:
    file = file_of(LONGS, 1)
    with pytest.raises(RestoreError, match="SPLIT_DISTRIBUTE; the job declares UNION"):
        restored(file).get_union_list_state(LONGS)
    with pytest.raises(RestoreError, match="another type"):
        restored(file).get_list_state(ListStateDescriptor("longs", Types.STRING()))
    with pytest.raises(RestoreError, match="key type never changes"):
        restored(file_of(RULES, ("a", []))).get_broadcast_state(MapStateDescriptor("rules", Types.LONG(), RULES.type_info))


def test_restored_values_migrate_to_a_wider_type() -> None:
    old = Types.ROW_NAMED(["a"], [Types.INT()])
    new = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()], defaults={"b": "x"})
    rows = restored(file_of(ListStateDescriptor("rows", old), Row(a=1)))
    assert rows.get_list_state(ListStateDescriptor("rows", new)).get() == [Row(a=1, b="x")]
    numbers = restored(file_of(ListStateDescriptor("n", Types.INT()), 1, 2))
    assert numbers.get_list_state(ListStateDescriptor("n", Types.BIG_INT())).get() == [1, 2]
    mapping = restored(file_of(MapStateDescriptor("m", Types.STRING(), Types.INT()), ("a", 1), ("b", None)))
    widened = mapping.get_broadcast_state(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    assert dict(widened.items()) == {"a": 1, "b": None}


class OperatorStateModel(RuleBasedStateMachine):
    """A list state and a broadcast state against a list and a dict, with snapshots that are looked at much later."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.start(OperatorStateBackend())
        self.flushed: tuple[list[Any], dict[str, Any]] = ([], {})
        self.now = copy_of(self.flushed)

    def start(self, backend: OperatorStateBackend) -> None:
        self.backend = backend
        self.list: Any = backend.get_list_state(LISTS)
        self.map: Any = backend.get_broadcast_state(RULES)

    @rule(value=st.lists(st.integers(0, 9), max_size=2), ask=st.booleans())
    def add(self, value: list[int], ask: bool) -> None:
        if ask:
            self.list.get()
        self.list.add(list(value))
        self.now[0].append(value)

    @rule(values=st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=3))
    def update(self, values: list[list[int]]) -> None:
        self.list.update([list(value) for value in values])
        self.now[0][:] = values

    @rule(number=st.integers(0, 9))
    def change_elements_in_place(self, number: int) -> None:
        for element, modelled in zip(self.list.get(), self.now[0], strict=True):
            element.append(number)
            modelled.append(number)

    @rule(key=st.sampled_from("abc"), value=st.none() | st.lists(st.integers(0, 9), max_size=2))
    def put(self, key: str, value: list[int] | None) -> None:
        self.map.put(key, None if value is None else list(value))
        self.now[1][key] = value

    @rule(key=st.sampled_from("abc"))
    def remove(self, key: str) -> None:
        self.map.remove(key)
        self.now[1].pop(key, None)

    @rule(key=st.sampled_from("abc"), number=st.integers(0, 9))
    def change_value_in_place(self, key: str, number: int) -> None:
        value = self.map.get(key)
        if value is not None:
            value.append(number)
            self.now[1][key].append(number)

    @rule()
    def clear(self) -> None:
        self.map.clear()
        self.list.clear()
        self.now = ([], {})

    @rule()
    def finish(self) -> None:
        self.backend.finish_epoch()
        self.flushed = copy_of(self.now)

    @rule()
    def roll_back(self) -> None:
        self.backend.roll_back_epoch()
        self.now = copy_of(self.flushed)

    @rule(target=handles)
    def snapshot(self) -> Any:
        return self.backend.snapshot(), copy_of(self.flushed)

    @rule(handle=consumes(handles))
    def restore(self, handle: Any) -> None:
        snapshot, self.flushed = handle
        self.now = copy_of(self.flushed)
        self.start(restored(saved(snapshot)))

    @rule()
    def look(self) -> None:
        assert self.list.get() == self.now[0]

    @invariant()
    def map_is_as_modelled(self) -> None:
        assert {key: self.map.show(key) for key in self.map} == self.now[1]


def copy_of(content: tuple[list[Any], dict[str, Any]]) -> tuple[list[Any], dict[str, Any]]:
    elements, mapping = content
    return [list(one) for one in elements], {key: None if one is None else list(one) for key, one in mapping.items()}


TestOperatorStateModel = OperatorStateModel.TestCase
TestOperatorStateModel.settings = of_model(30, 60, slow=False)
