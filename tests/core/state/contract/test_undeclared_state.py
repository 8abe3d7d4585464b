"""Restored state before, without and with a declaration: kept as it was written, then converted as the new type asks."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from pystate.common import Row, TypeInformation, Types
from pystate.common.errors import CorruptSnapshotError, RestoreError
from pystate.common.key_groups import KeyGroupRange
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
from pystate.core.state.files.canonical import (
    CanonicalHeader,
    CanonicalReader,
    CanonicalWriter,
    Entry,
    StateMetaInfoSnapshot,
)
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.kinds.list_parts import pack_part, part_sub_key
from pystate.core.state.values.serializers import serializer_for
from tests.core.state.conftest import MAX_PARALLELISM, BackendHarness, stored, written
from tests.core.state.contract.test_derived_state_contract import Average, sum_of

LONGS = Types.LIST(Types.LONG())
KEYS = ["a", 1, 1.0, ("a", 1), *range(2, 30)]
DECLARATIONS: dict[str, tuple[StateDescriptor, Callable[[Any, int], None]]] = {
    "value": (ValueStateDescriptor("value", Types.LONG()), lambda state, n: state.update(n)),
    "values": (ValueStateDescriptor("values", LONGS), lambda state, n: state.update([n])),
    "list": (ListStateDescriptor("list", Types.STRING()), lambda state, n: state.add_all([str(n)] * (n % 3 + 1))),
    "map": (MapStateDescriptor("map", None, LONGS), lambda state, n: state.put_all({n: [n], str(n): None})),
    "sum": (ReducingStateDescriptor("sum", sum_of, Types.LONG()), lambda state, n: state.add(n)),
    "average": (AggregatingStateDescriptor("average", Average(), LONGS), lambda state, n: state.add(n)),
}


def write_all(harness: BackendHarness, number: int) -> None:
    for descriptor, write in DECLARATIONS.values():
        for position, key in enumerate(KEYS):
            write(harness.use(key, descriptor), number + position)
    harness.flush()


def content(files: list[bytes]) -> dict[str, tuple[StateMetaInfoSnapshot, list[tuple[int, Entry]]]]:
    """Return state name -> what is said about it, and its entries by key group, sorted."""
    found: dict[str, tuple[StateMetaInfoSnapshot, list[tuple[int, Entry]]]] = {}
    for data in files:
        reader = CanonicalReader(io.BytesIO(data))
        for info in reader.header.states:
            entries = found.setdefault(info.name, (info, []))[1]
            entries += ((group, e) for group in reader.key_groups() for e in reader.entries(info.name, group))
    return {name: (info, sorted(entries)) for name, (info, entries) in found.items()}


def shown(harness: BackendHarness, descriptor: StateDescriptor) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def keep(key: Any, state: Any) -> None:
        if isinstance(descriptor, MapStateDescriptor):
            found[repr(key)] = sorted(map(repr, state.items()))
        else:
            found[repr(key)] = state.value() if isinstance(descriptor, ValueStateDescriptor) else state.get()

    for backend in harness.backends:
        backend.apply_to_all_keys(descriptor, keep)
    return found


@pytest.mark.parametrize("target", state_backend_names())
@pytest.mark.parametrize("parallelism", [1, 3])
def test_undeclared_states_keep_their_bytes_whatever_else_happens(
    harness: BackendHarness, target: str, parallelism: int
) -> None:
    write_all(harness, 1)
    expected = {name: shown(harness, descriptor) for name, (descriptor, _) in DECLARATIONS.items()}
    files = harness.save()
    restored = harness.restored(files, parallelism, target)
    assert sorted(restored.backends[0].state_names()) == sorted(DECLARATIONS)
    assert content(restored.save()) == content(files)
    early = restored.snapshot()
    for key in KEYS:
        restored.use(key, ValueStateDescriptor("new")).update(1)
        restored.use(key, DECLARATIONS["list"][0]).add("more")
    restored.flush()
    late = content(restored.save())
    assert content([written(snapshot) for snapshot in early]) == content(files)
    assert {name: late[name] for name in DECLARATIONS if name != "list"} == {
        name: entries for name, entries in content(files).items() if name != "list"
    }
    again = restored.restored(restored.save(), 2, harness.backend_name)
    for name, (descriptor, _) in DECLARATIONS.items():
        if name == "list":
            assert shown(again, descriptor) == {key: [*elements, "more"] for key, elements in expected[name].items()}
        else:
            assert shown(again, descriptor) == expected[name]


@pytest.mark.parametrize("name", list(DECLARATIONS))
def test_a_state_declared_late_has_its_values_and_takes_part_in_snapshots(harness: BackendHarness, name: str) -> None:
    write_all(harness, 1)
    descriptor, write = DECLARATIONS[name]
    expected = shown(harness, descriptor)
    restored = harness.restored(harness.save())
    (before,) = restored.snapshot()
    assert shown(restored, descriptor) == expected
    write(restored.use("late", descriptor), 1000)
    restored.flush()
    (after,) = restored.snapshot()
    for key in KEYS:
        restored.use(key, descriptor).clear()
    restored.flush()
    assert shown(restored.restored([written(before)]), descriptor) == expected
    assert len(shown(restored.restored([written(after)]), descriptor)) == len(expected) + 1
    assert len(shown(restored, descriptor)) == 1


OLD_ROW = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
NEW_ROW = Types.ROW_NAMED(["b", "c", "a"], [Types.STRING(), Types.LONG(), Types.LONG()])
OLD, NEW = [Row(a=1, b="x"), Row(a=2, b="y")], [Row(b="x", c=None, a=1), Row(b="y", c=None, a=2)]
MIGRATIONS: list[tuple[StateDescriptor, StateDescriptor, Callable[[Any, list[Any]], None], Callable[[list[Any]], Any]]] = [
    (
        ValueStateDescriptor("s", OLD_ROW),
        ValueStateDescriptor("s", NEW_ROW),
        lambda state, rows: state.update(rows[0]),
        lambda rows: rows[0],
    ),
    (
        ListStateDescriptor("s", OLD_ROW),
        ListStateDescriptor("s", NEW_ROW),
        lambda state, rows: state.add_all(rows),
        lambda rows: rows,
    ),
    (
        MapStateDescriptor("s", Types.STRING(), OLD_ROW),
        MapStateDescriptor("s", Types.STRING(), NEW_ROW),
        lambda state, rows: state.put_all({"x": rows[0], "y": rows[1], "none": None}),
        lambda rows: sorted(map(repr, [("x", rows[0]), ("y", rows[1]), ("none", None)])),
    ),
    (
        ReducingStateDescriptor("s", max, Types.INT()),
        ReducingStateDescriptor("s", max, Types.DOUBLE()),
        lambda state, rows: state.add(rows[1]["a"]),
        lambda rows: float(rows[1]["a"]),
    ),
]


@pytest.mark.parametrize(("old", "new", "write", "expected"), MIGRATIONS)
@pytest.mark.parametrize("target", state_backend_names())
def test_values_of_an_older_type_are_converted_when_the_state_is_declared(
    harness: BackendHarness,
    target: str,
    old: StateDescriptor,
    new: StateDescriptor,
    write: Callable[[Any, list[Any]], None],
    expected: Callable[[list[Any]], Any],
) -> None:
    for key in KEYS:
        write(harness.use(key, old), OLD)
        harness.use(key, ValueStateDescriptor("other")).update(1)
    harness.flush()
    restored = harness.restored(harness.save(), 3, target)
    early = restored.snapshot()
    assert shown(restored, new) == {repr(key): expected(NEW) for key in KEYS}
    assert content([written(snapshot) for snapshot in early]) == content(harness.save())
    files = restored.save()
    assert content(files)["s"][0] == StateSchema.of(new).meta_info("s")
    write(restored.use("new", new), NEW)
    restored.flush()
    again = restored.restored(restored.save(), 2, harness.backend_name)
    assert shown(again, new) == {repr(key): expected(NEW) for key in [*KEYS, "new"]}
    assert len(shown(again, ValueStateDescriptor("other"))) == len(KEYS)


REFUSED: list[tuple[StateDescriptor, StateDescriptor, str]] = [
    (ListStateDescriptor("s", Types.LONG()), ListStateDescriptor("s", Types.STRING()), "LIST of LONG.*LIST of STRING"),
    (ListStateDescriptor("s", Types.LONG()), ValueStateDescriptor("s", Types.LONG()), "LIST of LONG.*VALUE of LONG"),
    (ReducingStateDescriptor("s", max, Types.LONG()), ValueStateDescriptor("s", Types.LONG()), "REDUCING.*VALUE"),
    (
        MapStateDescriptor("s", Types.INT(), Types.LONG()),
        MapStateDescriptor("s", Types.LONG(), Types.LONG()),
        "MAP of INT to LONG.*MAP of LONG to LONG.*key never changes",
    ),
    (
        MapStateDescriptor("s", Types.INT(), Types.LONG()),
        MapStateDescriptor("s", Types.INT(), Types.INT()),
        "MAP of INT to LONG.*MAP of INT to INT",
    ),
]


@pytest.mark.parametrize(("old", "new", "match"), REFUSED)
def test_a_declaration_that_does_not_fit_is_refused_and_the_state_stays(
    harness: BackendHarness, old: StateDescriptor, new: StateDescriptor, match: str
) -> None:
    state = harness.use("k", old)
    if isinstance(old, MapStateDescriptor):
        state.put(1, 1)
    else:
        state.add(1)
    harness.flush()
    files = harness.save()
    restored = harness.restored(files)
    with pytest.raises(RestoreError, match=rf"State 's' was written as {match}"):
        restored.use("k", new)
    assert content(restored.save()) == content(files)
    assert len(shown(restored, old)) == 1


def test_a_value_that_cannot_be_converted_leaves_the_state_as_it_was(harness: BackendHarness) -> None:
    for key, value in (("a", 1), ("b", 2), ("c", "three")):
        harness.use(key, ValueStateDescriptor("s")).update(value)
    harness.flush()
    files = harness.save()
    restored = harness.restored(files)
    with pytest.raises(RestoreError, match="'s'.*three"):
        restored.use("a", ValueStateDescriptor("s", Types.LONG()))
    restored.flush()
    assert content(restored.save()) == content(files)
    assert shown(restored, ValueStateDescriptor("s")) == {"'a'": 1, "'b'": 2, "'c'": "three"}


@pytest.mark.parametrize("user_key", ["a", 1])
def test_untyped_map_keys_may_be_declared_if_each_one_fits(harness: BackendHarness, user_key: Any) -> None:
    harness.use("k", MapStateDescriptor("m", None, Types.LONG())).put_all({"x": 1, user_key: 2})
    harness.flush()
    restored = harness.restored(harness.save())
    typed = MapStateDescriptor("m", Types.STRING(), Types.LONG())
    if user_key == "a":
        assert dict(restored.use("k", typed).items()) == {"x": 1, "a": 2}
    else:
        with pytest.raises(RestoreError, match=r"LONG.*STRING"):
            restored.use("k", typed)


def file_with(info: StateMetaInfoSnapshot, entries: list[tuple[str, bytes, bytes]]) -> tuple[BackendHarness, bytes]:
    """Return a harness of the hashmap backend and a file with these entries, by key."""
    harness = BackendHarness("hashmap")
    codec = harness.codec
    header = CanonicalHeader(None, KEY_ENCODING, MAX_PARALLELISM, KeyGroupRange(0, MAX_PARALLELISM - 1), (info,))
    sink = io.BytesIO()
    writer = CanonicalWriter(sink, header)
    for key, sub_key, value in entries:
        writer.write(info.name, codec.key_group(key, MAX_PARALLELISM), [(codec.encode(key), sub_key, value)])
    writer.finish()
    return harness, sink.getvalue()


def info_of(descriptor: StateDescriptor) -> StateMetaInfoSnapshot:
    return StateSchema.of(descriptor).meta_info(descriptor.name)


PART = pack_part([serializer_for(Types.LONG()).serialize(1)])
DAMAGED: list[tuple[StateDescriptor, list[tuple[str, bytes, bytes]], str]] = [
    (ValueStateDescriptor("s", Types.LONG()), [("k", b"\x00", b"\x01")], "namespace"),
    (MapStateDescriptor("s", None, Types.LONG()), [("k", b"", b"\x01")], "namespace"),
    (MapStateDescriptor("s", None, Types.LONG()), [("k", b"\x03abc", b"\x01")], "namespace"),
    (ListStateDescriptor("s", Types.LONG()), [("k", b"\x00\x00", PART)], "number of a part"),
    (ListStateDescriptor("s", Types.LONG()), [("k", part_sub_key(0), b"\x90")], "no elements"),
    (ListStateDescriptor("s", Types.LONG()), [("k", part_sub_key(0), b"\x93")], "damaged"),
    (ListStateDescriptor("s", Types.LONG()), [("k", part_sub_key(0), b"\x01")], "no elements"),
    (MapStateDescriptor("s", None, Types.LONG()), [("k", b"\x00", b"\x01")], "key"),
    (MapStateDescriptor("s", None, Types.LONG()), [("k", b"\x00\x01a", b"\xc1")], "damaged"),
]


@pytest.mark.parametrize(("descriptor", "entries", "match"), DAMAGED)
def test_damaged_entries_are_noticed_at_the_latest_when_they_are_read(
    backend_name: str, descriptor: StateDescriptor, entries: list[tuple[str, bytes, bytes]], match: str
) -> None:
    _, file = file_with(info_of(descriptor), entries)
    harness = BackendHarness(backend_name)
    with pytest.raises(CorruptSnapshotError, match=match):
        harness.backend.restore([io.BytesIO(file)])
        shown(harness, descriptor)


def test_parts_of_a_list_out_of_order_or_twice_are_noticed() -> None:
    descriptor = ListStateDescriptor("s", Types.LONG())
    for numbers in ([1, 0], [1, 1]):
        harness, file = file_with(info_of(descriptor), [("k", part_sub_key(n), PART) for n in numbers])
        harness.backend.restore([io.BytesIO(file)])
        with pytest.raises(CorruptSnapshotError, match="aren't in order"):
            harness.use("k", descriptor)


def test_entries_of_one_key_that_are_apart_or_twice_are_noticed() -> None:
    codec = BackendHarness("hashmap").codec
    other = next(
        key for key in map(str, range(99)) if codec.key_group(key, MAX_PARALLELISM) == codec.key_group("k", MAX_PARALLELISM)
    )
    user_key = b"\x00" + codec.encode("a")
    cases: list[tuple[StateDescriptor, list[tuple[str, bytes, bytes]], str]] = [
        (ListStateDescriptor("s", Types.LONG()), [(k, part_sub_key(0), PART) for k in ("k", other, "k")], "a key twice"),
        (MapStateDescriptor("s", None, Types.LONG()), [(k, user_key, b"\x01") for k in ("k", other, "k")], "a key twice"),
        (MapStateDescriptor("s", None, Types.LONG()), [("k", user_key, b"\x01")] * 2, "a map key twice"),
        (ValueStateDescriptor("s", Types.LONG()), [("k", b"", b"\x01")] * 2, "a key twice"),
    ]
    for descriptor, entries, match in cases:
        harness, file = file_with(info_of(descriptor), entries)
        harness.backend.restore([io.BytesIO(file)])
        with pytest.raises(RestoreError, match=match):
            harness.use("k", descriptor)


def unfit(**changes: Any) -> StateMetaInfoSnapshot:
    info = info_of(MapStateDescriptor("s", Types.STRING(), Types.LONG()))
    return StateMetaInfoSnapshot(**{**info.to_plain(), **changes})


@pytest.mark.parametrize(
    ("info", "error", "match"),
    [
        (unfit(kind="HEAP"), RestoreError, "kind HEAP"),
        (unfit(user_key=None), CorruptSnapshotError, "kind MAP"),
        (unfit(kind="LIST"), CorruptSnapshotError, "kind LIST"),
        (unfit(user_key={"type": 3}), CorruptSnapshotError, "map keys"),
        (unfit(serializer={"version": 99, "format": "msgpack", "type": None}), RestoreError, "version 99"),
        (unfit(serializer={}), CorruptSnapshotError, "serializer"),
    ],
)
def test_a_description_that_cannot_be_read_is_refused(
    backend_name: str, info: StateMetaInfoSnapshot, error: type[Exception], match: str
) -> None:
    _, file = file_with(info, [])
    harness = BackendHarness(backend_name)
    with pytest.raises(error, match=match):
        harness.backend.restore([io.BytesIO(file)])
        harness.use("k", MapStateDescriptor("s", Types.STRING(), Types.LONG()))


def test_files_of_one_snapshot_that_disagree_about_a_state_are_refused_when_it_is_declared(harness: BackendHarness) -> None:
    """Each is read under its own types; a declaration must fit all of them."""
    files = []
    typed: tuple[tuple[str, TypeInformation, Any], ...] = (("k", Types.LONG(), 1), ("other", Types.STRING(), "a"))
    for key, type_info, user_key in typed:
        descriptor = MapStateDescriptor("s", type_info, Types.LONG())
        _, file = file_with(info_of(descriptor), [(key, b"\x00" + KeyCodec(type_info).encode(user_key), b"\x01")])
        files.append(file)
    harness.backend.restore(map(io.BytesIO, files))
    with pytest.raises(RestoreError):
        harness.use("k", MapStateDescriptor("s", Types.STRING(), Types.LONG()))


def test_a_file_is_read_without_a_backend(harness: BackendHarness) -> None:
    for start in range(3):
        for descriptor, write in DECLARATIONS.values():
            write(harness.use("k", descriptor), start)
        harness.flush()
    (file,) = harness.save()
    reader = CanonicalReader(io.BytesIO(file))
    (group,) = reader.key_groups()
    found = {info.name: list(stored(reader, info, harness.codec, group)) for info in reader.header.states}
    assert sorted(found.pop("map"), key=repr) == sorted(
        [("k", (key, value)) for n in range(3) for key, value in ((n, [n]), (str(n), None))], key=repr
    )
    assert found == {
        "value": [("k", 2)],
        "values": [("k", [2])],
        "list": [("k", ["0", "1", "1", "2", "2", "2"])],
        "sum": [("k", 3)],
        "average": [("k", [3, 3])],
    }
