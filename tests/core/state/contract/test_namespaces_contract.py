"""Every kind of state under namespaces, on every backend: (key, namespace) is the address."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateDeclarationError, StateError
from pystate.core.api.functions import AggregateFunction
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pystate.core.state.base.loader import state_backend_names
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.files.canonical import CanonicalHeader, CanonicalReader, CanonicalWriter
from pystate.core.state.keys.keys import KEY_ENCODING
from pystate.core.state.keys.namespaces import TIME_WINDOWS, VOID, KeyNamespaceSerializer, NamespaceSerializer
from pystate.core.state.kinds.internal_state import InternalKvState, InternalMergingState
from tests.core.state.conftest import BackendHarness, ManualClock, written
from tests.core.state.contract.ttl_states import config_of, with_ttl


class Numbers(AggregateFunction):
    """Keeps all numbers, in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return list(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return acc_a + acc_b


LONGS = Types.LIST(Types.LONG())
KINDS: dict[str, StateDescriptor] = {
    "value": ValueStateDescriptor("s", Types.LONG()),
    "mutable value": ValueStateDescriptor("s", LONGS),
    "list": ListStateDescriptor("s", Types.LONG()),
    "mutable list": ListStateDescriptor("s", LONGS),
    "map": MapStateDescriptor("s", Types.STRING(), Types.LONG()),
    "mutable map": MapStateDescriptor("s", Types.STRING(), LONGS),
    "reducing": ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG()),
    "aggregating": AggregatingStateDescriptor("s", Numbers(), LONGS),
}
TEXTS = KeyNamespaceSerializer(Types.STRING())
WINDOWS = [(0, 10), (5, 15), (-10, 0), (1 << 40, 1 << 41)]
NAMESPACES: list[tuple[NamespaceSerializer, list[Any]]] = [(TIME_WINDOWS, WINDOWS), (TEXTS, ["", "a", "ab", "b" * 200])]
KEYS = ["k", 7, ("t", None), "other"]
kinds = pytest.mark.parametrize("kind", KINDS)
types = pytest.mark.parametrize(("namespaces", "spaces"), NAMESPACES, ids=["windows", "texts"])


def handle_of(
    harness: BackendHarness, key: Any, namespace: Any, kind: str, namespaces: NamespaceSerializer
) -> InternalKvState:
    handle = harness.at(key).get_or_create_keyed_state(KINDS[kind], namespaces)
    handle.set_current_namespace(namespace)
    return handle


def write(state: Any, kind: str, number: int) -> None:
    if kind == "value":
        state.update(number)
    elif kind == "mutable value":
        state.update([number])
    elif kind.endswith("list"):
        state.add([number] if kind.startswith("mutable") else number)
    elif kind.endswith("map"):
        state.put(f"m{number % 2}", [number] if kind.startswith("mutable") else number)
    else:
        state.add(number)


def read(state: Any, kind: str) -> Any:
    if kind.endswith("value"):
        return state.value()
    return dict(state.items()) if kind.endswith("map") else state.get()


def of_number(kind: str, number: int) -> Any:
    """What there is where only that number was written."""
    wrapped = [number] if kind.startswith("mutable") else number
    if kind.endswith("map"):
        return {f"m{number % 2}": wrapped}
    return [wrapped] if kind.endswith("list") or kind == "aggregating" else wrapped


def nothing(kind: str) -> Any:
    return {} if kind.endswith("map") else [] if kind.endswith("list") else None


def fill(harness: BackendHarness, kind: str, namespaces: NamespaceSerializer, spaces: list[Any]) -> dict[Any, int]:
    """Write another number at each address."""
    expected = {}
    for number, (key, space) in enumerate(product(KEYS, spaces)):
        write(handle_of(harness, key, space, kind, namespaces).state, kind, number)
        expected[repr(key), space] = number
    return expected


def contents(harness: BackendHarness, kind: str, namespaces: NamespaceSerializer, spaces: list[Any]) -> dict[Any, Any]:
    return {
        (repr(key), space): read(handle_of(harness, key, space, kind, namespaces).state, kind)
        for key, space in product(KEYS, spaces)
    }


@kinds
@types
def test_each_namespace_of_a_key_has_a_value_of_its_own(
    harness: BackendHarness, kind: str, namespaces: NamespaceSerializer, spaces: list[Any]
) -> None:
    expected = {address: of_number(kind, n) for address, n in fill(harness, kind, namespaces, spaces).items()}
    assert contents(harness, kind, namespaces, spaces) == expected
    harness.flush()
    assert contents(harness, kind, namespaces, spaces) == expected
    handle_of(harness, "k", spaces[1], kind, namespaces).state.clear()
    write(handle_of(harness, 7, spaces[0], kind, namespaces).state, kind, 99)
    harness.rollback()
    assert contents(harness, kind, namespaces, spaces) == expected
    handle_of(harness, "k", spaces[1], kind, namespaces).state.clear()
    harness.flush()
    expected["'k'", spaces[1]] = nothing(kind)
    assert contents(harness, kind, namespaces, spaces) == expected


@kinds
@types
def test_keys_and_namespaces_are_iterated_over(
    harness: BackendHarness, kind: str, namespaces: NamespaceSerializer, spaces: list[Any]
) -> None:
    expected = set(fill(harness, kind, namespaces, spaces))
    (backend,) = harness.backends
    for _ in range(2):  # in the overlay, and flushed
        found = [(repr(key), space) for key, space in backend.get_keys_and_namespaces("s")]
        assert (len(found), set(found)) == (len(expected), expected)
        assert sorted(map(repr, backend.get_keys("s", spaces[2]))) == sorted(map(repr, KEYS))
        harness.flush()
    handle_of(harness, "k", spaces[2], kind, namespaces).state.clear()
    handle_of(harness, "new", spaces[0], kind, namespaces)
    assert "k" not in list(backend.get_keys("s", spaces[2]))
    assert "k" in list(backend.get_keys("s", spaces[0]))
    assert "new" not in list(backend.get_keys("s", spaces[0]))
    assert list(backend.get_keys("s", _absent(spaces))) == []


def _absent(spaces: list[Any]) -> Any:
    return "absent" if isinstance(spaces[0], str) else (77, 78)


def test_an_iteration_over_keys_leaves_key_and_namespace_as_they_are(harness: BackendHarness) -> None:
    fill(harness, "value", TEXTS, ["a", "b"])
    harness.flush()
    handle = handle_of(harness, "k", "a", "value", TEXTS)
    for key, namespace in harness.backend.get_keys_and_namespaces("s"):
        assert (harness.backend.current_key, handle.state.value()) == ("k", 0)
        assert key in KEYS
        assert namespace in "ab"
    assert handle.state.value() == 0


@kinds
@types
def test_namespaces_move_with_the_key_group_of_their_key(
    backend_name: str, kind: str, namespaces: NamespaceSerializer, spaces: list[Any]
) -> None:
    harness = BackendHarness(backend_name, parallelism=2)
    expected = {address: of_number(kind, n) for address, n in fill(harness, kind, namespaces, spaces).items()}
    harness.flush()
    for parallelism, restored_by in enumerate(state_backend_names(), start=2):
        restored = harness.restored(harness.save(), parallelism, restored_by)
        assert contents(restored, kind, namespaces, spaces) == expected
        again = harness.restored(restored.save(), 1, backend_name)  # declared, and nothing changed
        assert contents(again, kind, namespaces, spaces) == expected


@kinds
@types
def test_all_backends_write_the_same_file(kind: str, namespaces: NamespaceSerializer, spaces: list[Any]) -> None:
    files = []
    for name in state_backend_names():
        harness = BackendHarness(name)
        fill(harness, kind, namespaces, spaces)
        harness.flush()
        reader = CanonicalReader(io.BytesIO(harness.save()[0]))
        (info,) = reader.header.states
        assert info.namespace == namespaces.snapshot()
        entries = [list(reader.entries(info, group)) for group in range(16)]
        for group in entries:
            places = [(key, sub_key) for key, sub_key, _ in group]
            by_key = [[sub_key for key, sub_key in places if key == one] for one in dict.fromkeys(key for key, _ in places)]
            assert [sub_key for of_key in by_key for sub_key in of_key] == [sub_key for _, sub_key in places], "apart"
            assert by_key == [sorted(of_key) for of_key in by_key]
        number = 8 if kind.endswith("list") else 0  # the number of a part of a list says only its order
        files.append(
            [sorted((key, sub_key[: len(sub_key) - number], value) for key, sub_key, value in group) for group in entries]
        )
    assert files[0] == files[1]


@kinds
@types
def test_what_nobody_declares_goes_on_byte_by_byte(
    backend_name: str, kind: str, namespaces: NamespaceSerializer, spaces: list[Any]
) -> None:
    harness = BackendHarness(backend_name)
    expected = {address: of_number(kind, n) for address, n in fill(harness, kind, namespaces, spaces).items()}
    harness.flush()
    untouched = harness.restored(harness.save())
    write(handle_of_another(untouched), "value", 1)
    untouched.flush()
    again = untouched.restored(untouched.save(), parallelism=3)
    assert contents(again, kind, namespaces, spaces) == expected


def handle_of_another(harness: BackendHarness) -> Any:
    return harness.use("k", ValueStateDescriptor("another", Types.LONG()))


@pytest.mark.parametrize(
    ("old", "new"),
    [(VOID, TIME_WINDOWS), (TIME_WINDOWS, VOID), (TIME_WINDOWS, TEXTS), (TEXTS, KeyNamespaceSerializer(None))],
    ids=str,
)
def test_the_type_of_a_namespace_never_changes(
    backend_name: str, old: NamespaceSerializer, new: NamespaceSerializer
) -> None:
    spaces: dict[str, Any] = {"void": None, "time window": (1, 2), "STRING": "a"}
    harness = BackendHarness(backend_name)
    write(handle_of(harness, "k", spaces[old.name], "value", old).state, "value", 1)
    harness.flush()
    restored = harness.restored(harness.save())
    with pytest.raises(RestoreError, match=r"The type of a namespace never changes") as raised:
        restored.at("k").get_or_create_keyed_state(KINDS["value"], new)
    assert raised.value.hint is not None
    assert "declare the type it was written with, or give the new state another name" in raised.value.hint
    kept = handle_of(restored, "k", spaces[old.name], "value", old)
    assert read(kept.state, "value") == 1


def test_a_name_stands_for_one_type_of_namespace(harness: BackendHarness) -> None:
    backend = harness.at("k")
    handle = backend.get_or_create_keyed_state(KINDS["list"], TEXTS)
    assert backend.get_or_create_keyed_state(KINDS["list"], KeyNamespaceSerializer(Types.STRING())) is handle
    with pytest.raises(StateDeclarationError, match="in namespaces of two types, STRING and void"):
        backend.get_partitioned_state(KINDS["list"])
    with pytest.raises(StateDeclarationError, match="is declared twice"):
        backend.get_or_create_keyed_state(KINDS["value"], TEXTS)


def test_a_namespace_must_be_set_and_of_the_type(harness: BackendHarness) -> None:
    handle = harness.at("k").get_or_create_keyed_state(KINDS["value"], TIME_WINDOWS)
    with pytest.raises(StateError, match="without a namespace"):
        handle.state.value()
    with pytest.raises(StateError, match="'w' is no namespace of type time window"):
        handle.set_current_namespace("w")
    void = harness.at("k").get_or_create_keyed_state(ValueStateDescriptor("void"))
    void.set_current_namespace(None)
    with pytest.raises(StateError, match="of type void"):
        void.set_current_namespace((1, 2))


def test_a_namespace_stays_and_the_key_changes(harness: BackendHarness) -> None:
    handle = handle_of(harness, "k", "a", "reducing", TEXTS)
    other = harness.at("k").get_or_create_keyed_state(ListStateDescriptor("other", Types.LONG()), TEXTS)
    other.set_current_namespace("b")
    handle.state.add(1)
    other.state.add(10)
    harness.at("j")
    handle.state.add(2)
    other.state.add(20)
    assert [handle_of(harness, key, "a", "reducing", TEXTS).state.get() for key in "kj"] == [1, 2]
    assert list(harness.backend.get_keys("other", "a")) == []
    assert sorted(harness.backend.get_keys("other", "b")) == ["j", "k"]


def test_keys_of_a_state_without_namespaces(harness: BackendHarness) -> None:
    for key in KEYS:
        harness.use(key, KINDS["value"]).update(1)
    harness.flush()
    harness.use("k", KINDS["value"]).clear()
    assert sorted(map(repr, harness.backend.get_keys("s"))) == sorted(repr(key) for key in KEYS if key != "k")
    assert {namespace for _, namespace in harness.backend.get_keys_and_namespaces("s")} == {None}
    with pytest.raises(StateError, match="No state 'nope' was declared"):
        harness.backend.get_keys("nope")


def test_errors_name_key_and_namespace(harness: BackendHarness) -> None:
    handle = handle_of(harness, "k", (1, 2), "mutable value", TIME_WINDOWS)
    handle.state.update(["no number"])
    with pytest.raises(StateError, match=r"for key 'k' in namespace \(1, 2\) can't be kept"):
        harness.flush()


@pytest.mark.parametrize("kind", ["list", "mutable list", "reducing", "aggregating"])
@pytest.mark.parametrize("flushed", [True, False])
def test_namespaces_are_merged(harness: BackendHarness, kind: str, flushed: bool) -> None:
    def write_all() -> None:
        for number, window in enumerate(WINDOWS[:3]):
            write(handle_of(harness, "k", window, kind, TIME_WINDOWS).state, kind, number + 1)
        write(handle_of(harness, "other", WINDOWS[1], kind, TIME_WINDOWS).state, kind, 50)

    write_all()
    if flushed:
        harness.flush()
    handle = handle_of(harness, "k", WINDOWS[3], kind, TIME_WINDOWS)
    assert isinstance(handle, InternalMergingState)
    handle.merge_namespaces(WINDOWS[1], [WINDOWS[2], WINDOWS[1], WINDOWS[0], WINDOWS[0], (7, 8)])
    write(handle.state, kind, 9)  # the current namespace is what it was
    merged = {"list": [2, 3, 1], "mutable list": [[2], [3], [1]], "reducing": 6, "aggregating": [2, 3, 1]}[kind]

    def check() -> None:
        found = {window: read(handle_of(harness, "k", window, kind, TIME_WINDOWS).state, kind) for window in WINDOWS}
        nine = of_number(kind, 9)
        assert found == {WINDOWS[0]: nothing(kind), WINDOWS[1]: merged, WINDOWS[2]: nothing(kind), WINDOWS[3]: nine}
        assert read(handle_of(harness, "other", WINDOWS[1], kind, TIME_WINDOWS).state, kind) == of_number(kind, 50)

    check()
    harness.flush()
    check()
    assert sorted(harness.backend.get_keys_and_namespaces("s")) == sorted(
        [("k", WINDOWS[1]), ("k", WINDOWS[3]), ("other", WINDOWS[1])]
    )


@pytest.mark.parametrize("kind", ["list", "mutable list", "reducing", "aggregating"])
def test_a_merger_is_rolled_back(harness: BackendHarness, kind: str) -> None:
    expected = {address: of_number(kind, n) for address, n in fill(harness, kind, TIME_WINDOWS, WINDOWS).items()}
    harness.flush()
    handle = handle_of(harness, "k", WINDOWS[3], kind, TIME_WINDOWS)
    assert isinstance(handle, InternalMergingState)
    handle.merge_namespaces(WINDOWS[1], [WINDOWS[2], WINDOWS[0]])
    harness.rollback()
    assert contents(harness, kind, TIME_WINDOWS, WINDOWS) == expected


@pytest.mark.parametrize("kind", ["value", "map"])
def test_values_and_maps_are_not_merged(harness: BackendHarness, kind: str) -> None:
    assert not isinstance(handle_of(harness, "k", (1, 2), kind, TIME_WINDOWS), InternalMergingState)


def test_what_user_code_put_into_a_list_is_checked_when_it_moves(harness: BackendHarness) -> None:
    handle = handle_of(harness, "k", "a", "list", TEXTS)
    assert isinstance(handle, InternalMergingState)
    handle.state.add(1)
    handle.state.get().append(None)
    with pytest.raises(StateError, match="None can't be an element"):
        handle.merge_namespaces("b", ["a"])


def test_an_aggregate_function_without_merge_is_named(harness: BackendHarness) -> None:
    class NoMerge:
        create_accumulator, add, get_result = Numbers().create_accumulator, Numbers().add, Numbers().get_result

    handle = harness.at("k").get_or_create_keyed_state(AggregatingStateDescriptor("s", NoMerge(), LONGS), TEXTS)
    assert isinstance(handle, InternalMergingState)
    handle.set_current_namespace("a")
    handle.state.add(1)
    with pytest.raises(StateError, match=r"has no merge\(\)"):
        handle.merge_namespaces("b", ["a"])


def test_a_reduce_function_that_returns_none_is_named(harness: BackendHarness) -> None:
    descriptor = ReducingStateDescriptor("s", lambda _a, _b: None, Types.LONG())
    handle = harness.at("k").get_or_create_keyed_state(descriptor, TEXTS)
    assert isinstance(handle, InternalMergingState)
    for name in "ab":
        handle.set_current_namespace(name)
        handle.state.add(1)
    with pytest.raises(StateError, match="returned None"):
        handle.merge_namespaces("b", ["a"])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mutable value"])
def test_values_expire_one_by_one(backend_name: str, kind: str) -> None:
    clock = ManualClock()
    harness = BackendHarness(backend_name, clock=clock)
    descriptor = with_ttl(KINDS[kind], config_of(100, cleanup=(1_000, True)))

    def state(window: tuple[int, int]) -> Any:
        handle = harness.at("k").get_or_create_keyed_state(descriptor, TIME_WINDOWS)
        handle.set_current_namespace(window)
        return handle.state

    for number, window in enumerate(WINDOWS):
        clock.now += 50
        write(state(window), kind, number)
        harness.flush()
    shown = [read(state(window), kind) for window in WINDOWS]
    assert shown == [nothing(kind), nothing(kind), of_number(kind, 2), of_number(kind, 3)]
    assert [namespace for _, namespace in harness.backend.get_keys_and_namespaces("s")] != []
    assert {namespace for _, namespace in harness.backend.get_keys_and_namespaces("s")} == set(WINDOWS[2:])
    harness.rollback()
    harness.flush()
    assert harness.entry_count() <= 4
    files = harness.save()
    restored = harness.restored(files)
    again = restored.at("k").get_or_create_keyed_state(descriptor, TIME_WINDOWS)
    again.set_current_namespace(WINDOWS[3])
    assert read(again.state, kind) == of_number(kind, 3)


def test_a_merged_list_keeps_the_times_of_its_elements(backend_name: str) -> None:
    clock = ManualClock()
    harness = BackendHarness(backend_name, clock=clock)
    descriptor = with_ttl(KINDS["list"], config_of(100))
    handle = harness.at("k").get_or_create_keyed_state(descriptor, TEXTS)
    assert isinstance(handle, InternalMergingState)
    for name in "abc":
        handle.set_current_namespace(name)
        handle.state.add(ord(name))
        clock.now += 40
    harness.flush()
    harness.at("k")
    handle.merge_namespaces("c", ["a", "b"])
    handle.set_current_namespace("c")
    assert handle.state.get() == [ord(name) for name in "cb"]  # a expired at 1,100, and it is 1,120
    harness.flush()
    clock.now += 30
    harness.at("k")
    assert handle.state.get() == [ord("c")]


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_expired_values_are_not_merged(backend_name: str, kind: str) -> None:
    clock = ManualClock()
    harness = BackendHarness(backend_name, clock=clock)
    handle = harness.at("k").get_or_create_keyed_state(with_ttl(KINDS[kind], config_of(100)), TEXTS)
    assert isinstance(handle, InternalMergingState)
    for number, name in enumerate("abc"):
        handle.set_current_namespace(name)
        handle.state.add(number)
        clock.now += 40
    handle.merge_namespaces("c", ["a", "b"])
    handle.set_current_namespace("c")
    clock.now += 90  # what was merged was accessed at 1,120
    assert handle.state.get() == (3 if kind == "reducing" else [2, 1])


def file_with(namespaces: NamespaceSerializer, kind: str, entries: list[tuple[Any, bytes, bytes]]) -> bytes:
    harness = BackendHarness("hashmap")
    info = StateSchema.of(KINDS[kind], namespaces).meta_info("s")
    sink = io.BytesIO()
    header = CanonicalHeader(None, KEY_ENCODING, 16, harness.backend.key_group_range, (info,))
    writer = CanonicalWriter(sink, header)
    codec = harness.codec
    for key, sub_key, value in entries:
        writer.write("s", codec.key_group(key, 16), [(codec.encode(key), sub_key, value)])
    writer.finish()
    return sink.getvalue()


@pytest.mark.parametrize(
    ("kind", "sub_key"),
    [
        ("value", b""),
        ("value", b"\x02\x01ax"),
        ("list", b"\x02\x01a1234567"),
        ("map", b"\x09\x01a"),
        ("reducing", b"\x80\x00"),
    ],
)
def test_a_damaged_sub_key_is_noticed(backend_name: str, kind: str, sub_key: bytes) -> None:
    data = file_with(TEXTS, kind, [("k", sub_key, b"\x01")])
    with pytest.raises(CorruptSnapshotError):
        BackendHarness(backend_name).restored([data])


def test_a_part_of_a_snapshot_keeps_its_namespaces_when_its_type_changes(backend_name: str) -> None:
    harness = BackendHarness(backend_name)
    old = MapStateDescriptor("s", Types.STRING(), Types.INT())
    new = MapStateDescriptor("s", Types.STRING(), Types.LIST(Types.INT()))
    wide = MapStateDescriptor("s", Types.STRING(), Types.LONG())
    handle = harness.at("k").get_or_create_keyed_state(old, TIME_WINDOWS)
    for number, window in enumerate(WINDOWS):
        handle.set_current_namespace(window)
        handle.state.put_all({"a": number, "b": None})
    harness.flush()
    files = [written(snapshot) for snapshot in harness.snapshot()]
    refusing = harness.restored(files)
    with pytest.raises(RestoreError):
        refusing.at("k").get_or_create_keyed_state(new, TIME_WINDOWS)
    restored = harness.restored(files)
    migrated = restored.at("k").get_or_create_keyed_state(wide, TIME_WINDOWS)
    for number, window in enumerate(WINDOWS):
        migrated.set_current_namespace(window)
        assert dict(migrated.state.items()) == {"a": number, "b": None}
        migrated.state.put("a", 1 << 40)
