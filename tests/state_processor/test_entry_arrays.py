"""Entries made Arrow columns all at once are what they are made row by row."""

from __future__ import annotations

import datetime as dt
import io
import math
import string
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystate.common import Instant, Row, TypeInformation, Types
from pystate.common.errors import PystateError, SnapshotError
from pystate.common.key_groups import KeyGroupRange
from pystate.common.row import RowKind
from pystate.common.time import Time
from pystate.core.api.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from pystate.core.api.timer_service import TimeDomain
from pystate.core.snapshot.reading.snapshot_reader import KeyFilter, rows_by_key, rows_of
from pystate.core.snapshot.reading.state_rows import PartDecoders
from pystate.core.state.base.state_schema import StateSchema
from pystate.core.state.base.timer_schema import TimerSchema, time_to_bytes
from pystate.core.state.columns import Cells
from pystate.core.state.files.canonical import (
    CanonicalHeader,
    CanonicalReader,
    CanonicalWriter,
    Entry,
    StateMetaInfoSnapshot,
)
from pystate.core.state.keys.key_columns import key_array
from pystate.core.state.keys.keys import KEY_ENCODING, KeyCodec
from pystate.core.state.keys.namespaces import TIME_WINDOWS, VOID, KeyNamespaceSerializer, NamespaceSerializer
from pystate.core.state.kinds.list_parts import pack_part, part_sub_key
from pystate.core.state.not_in_columns import NotInColumnsError
from pystate.core.state.ttl.ttl_serializer import time_mark
from pystate.core.state.values.serializers import serializer_for
from pystate.core.state.values.value_columns import value_array
from pystate.state_processor import entry_arrays
from pystate.state_processor.entry_arrays import batches_of_entries
from pystate.state_processor.frame_columns import batches_of, is_gathered, keyed_columns, schema_of
from tests.core.state.base.test_serializers import UNTYPED
from tests.fixtures.all_kinds import Mean

GROUPS = 8
TTL = StateTtlConfig.new_builder(Time.hours(1)).build()
INTEGERS = {Types.BYTE(): 7, Types.SHORT(): 15, Types.INT(): 31, Types.LONG(): 63}
TEXT = st.one_of(st.text(string.ascii_letters, max_size=40), st.text(max_size=3), st.just("x" * 300))
SCALARS: dict[TypeInformation, st.SearchStrategy[Any]] = {
    Types.STRING(): TEXT,
    Types.CHAR(): st.characters(),
    Types.BOOLEAN(): st.booleans(),
    **{kind: st.integers(-(1 << bits), (1 << bits) - 1) for kind, bits in INTEGERS.items()},
    Types.FLOAT(): st.floats(width=32),
    Types.DOUBLE(): st.floats(),
    Types.BIG_INT(): st.one_of(st.integers(-9, 9), st.integers()),
    Types.BIG_DEC(): st.decimals(allow_nan=False, allow_infinity=False),
    Types.SQL_DATE(): st.dates(),
    Types.SQL_TIME(): st.times(),
    Types.SQL_TIMESTAMP(): st.datetimes(),
    Types.INSTANT(): st.builds(Instant, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 999_999_999)),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.binary(max_size=300),
}
KINDS = [RowKind.INSERT] * 9 + [RowKind.DELETE]


def _row(names: list[str], values: list[Any], kind: RowKind) -> Row:
    row = Row.of_fields(tuple(names), values)
    row.set_row_kind(kind)
    return row


def _composites(inner: st.SearchStrategy[Any], *, keys: bool) -> st.SearchStrategy[Any]:
    """Return strategies of (type, strategy of its values)."""
    some = st.lists(inner, min_size=1, max_size=3)
    nullable = (lambda part: part) if keys else (lambda part: st.one_of(st.none(), part))
    tuples = some.map(
        lambda parts: (Types.TUPLE([one for one, _ in parts]), st.tuples(*(nullable(part) for _, part in parts)))
    )
    lists = inner.map(lambda part: (Types.LIST(part[0]), st.lists(nullable(part[1]), max_size=4)))
    if keys:
        return tuples | lists
    rows = some.map(
        lambda parts: (
            Types.ROW_NAMED([f"f{i}" for i in range(len(parts))], [one for one, _ in parts]),
            st.builds(
                _row,
                st.just([f"f{i}" for i in range(len(parts))]),
                st.tuples(*(nullable(part) for _, part in parts)).map(list),
                st.sampled_from(KINDS),
            ),
        )
    )
    maps = st.tuples(st.sampled_from(list(SCALARS)), inner).map(
        lambda pair: (
            Types.MAP(pair[0], pair[1][0]),
            st.dictionaries(SCALARS[pair[0]], nullable(pair[1][1]), max_size=4),
        )
    )
    return tuples | rows | maps | lists


_SCALAR_PAIRS = st.sampled_from(list(SCALARS.items()))
VALUE_TYPES = st.recursive(_SCALAR_PAIRS, lambda inner: _composites(inner, keys=False), max_leaves=3)
KEY_TYPES = st.one_of(_SCALAR_PAIRS, _SCALAR_PAIRS, _composites(_SCALAR_PAIRS, keys=True))
UNTYPED_KEYS = st.one_of(
    st.text(), st.integers(), st.binary(), st.floats(allow_nan=False), st.tuples(st.integers(), st.text())
)


def some_type(types: st.SearchStrategy[Any], untyped: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(types, types, types, st.just((None, untyped)))


def by_rows(reader: CanonicalReader, decoders: PartDecoders, wanted: KeyFilter | None, *, per_entry: bool) -> pa.Table:
    columns = keyed_columns(decoders.common, per_entry=per_entry)
    rows: Iterator[Any] = rows_of(reader, "state", decoders, range(GROUPS), wanted)
    gathered = rows_by_key(rows) if is_gathered(decoders.common, per_entry=per_entry) else rows
    return pa.Table.from_batches(batches_of(columns, gathered, "here"), schema_of(columns))


def by_columns(reader: CanonicalReader, decoders: PartDecoders, wanted: KeyFilter | None, *, per_entry: bool) -> pa.Table:
    schema = schema_of(keyed_columns(decoders.common, per_entry=per_entry))
    batches = batches_of_entries(reader, "state", decoders, range(GROUPS), wanted, per_entry=per_entry, where="here")
    return pa.Table.from_batches(batches, schema)


def exact(value: Any) -> Any:
    """Return a value so that NaN is NaN, and 0.0 isn't -0.0."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, dict):
        return {name: exact(one) for name, one in value.items()}
    return [exact(one) for one in value] if isinstance(value, (list, tuple)) else value


REFUSED = "refused"


def outcome(read: Any, *arguments: Any, several_faults: bool = False, **options: Any) -> Any:
    """Return what is read, or which error there is; with several faults, which of them is met first isn't told."""
    try:
        table: pa.Table = read(*arguments, **options)
    except PystateError as error:
        return REFUSED if several_faults else (type(error), error.message.partition(":")[0])
    table.validate(full=True)
    return table.schema, [{name: exact(value) for name, value in row.items()} for row in table.to_pylist()]


def assert_same(
    header: CanonicalHeader,
    entries: Iterable[tuple[int, str, Entry]],
    wanted: KeyFilter | None = None,
    *,
    several_faults: bool = False,
    **options: Any,
) -> Any:
    """Columns and rows read the same of a file; return it."""
    file = io.BytesIO()
    writer = CanonicalWriter(file, header, block_bytes=200)
    for group, part, entry in entries:
        writer.write(part, group, [entry])
    writer.finish()
    reader = CanonicalReader(file)
    decoders = PartDecoders(reader.parts("state"), header.key_type, **options)
    for per_entry in (True, False):
        asked = {"per_entry": per_entry, "several_faults": several_faults}
        expected = outcome(by_rows, reader, decoders, wanted, **asked)
        assert outcome(by_columns, reader, decoders, wanted, **asked) == expected
    return expected


def header_of(key_type: TypeInformation | None, *states: StateMetaInfoSnapshot) -> CanonicalHeader:
    return CanonicalHeader(key_type, KEY_ENCODING, GROUPS, KeyGroupRange(0, GROUPS - 1), states)


def placed(key_type: TypeInformation | None, keys: Iterable[Any]) -> list[tuple[int, bytes]]:
    """Return group and bytes of distinct keys, in a file's order."""
    codec = KeyCodec(key_type)
    internal = [codec.internal(key) for key in keys]
    return sorted({(codec.key_group(key, GROUPS), codec.encode(key)) for key in internal})


NAMESPACES: list[tuple[NamespaceSerializer, st.SearchStrategy[Any]]] = [
    (VOID, st.none()),
    (TIME_WINDOWS, st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))),
    (KeyNamespaceSerializer(Types.LONG()), st.integers(0, 300)),
    (KeyNamespaceSerializer(None), st.one_of(st.text(max_size=200), st.integers())),
]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few entries, so that a test's data make several."""
    monkeypatch.setattr(entry_arrays, "_ENTRIES", 5)
    monkeypatch.setattr(entry_arrays, "_BLOCKS", 3)


def described(data: Any, kind: str, value_type: TypeInformation | None, user_key: TypeInformation | None) -> StateDescriptor:
    descriptors = {
        "VALUE": lambda: ValueStateDescriptor("state", value_type),
        "REDUCING": lambda: ReducingStateDescriptor("state", min, value_type),
        "AGGREGATING": lambda: AggregatingStateDescriptor("state", Mean(), value_type),
        "LIST": lambda: ListStateDescriptor("state", value_type),
        "MAP": lambda: MapStateDescriptor("state", user_key, value_type),
    }
    descriptor: StateDescriptor = descriptors[kind]()
    if data.draw(st.booleans(), "has a time to live"):
        descriptor.enable_time_to_live(TTL)
    return descriptor


@settings(max_examples=100)
@given(data=st.data())
def test_columns_are_as_rows_are_for_all_types_kinds_times_and_namespaces(data: st.DataObject) -> None:
    key_type, keys = data.draw(some_type(KEY_TYPES, UNTYPED_KEYS), "keys")
    value_type, values = data.draw(some_type(VALUE_TYPES, UNTYPED), "values")
    user_key_type, user_keys = data.draw(some_type(KEY_TYPES, UNTYPED_KEYS), "map keys")
    kind = data.draw(st.sampled_from(["VALUE", "REDUCING", "AGGREGATING", "LIST", "MAP"]), "kind")
    descriptor = described(data, kind, value_type, user_key_type)
    namespaces, some = data.draw(st.sampled_from(NAMESPACES), "namespaces")
    info = StateSchema.of(descriptor, namespaces).meta_info("state")
    serializer = serializer_for(value_type)
    times = st.integers(0, 1 << 62) if info.ttl else st.none()
    user_codec = KeyCodec(user_key_type)

    def stored(value: Any) -> bytes:
        mark = data.draw(times, "time")
        raw = b"\xc0" if value is None else serializer.serialize(serializer.check(value))
        return raw if mark is None else time_mark(mark) + raw

    entries: list[tuple[int, str, Entry]] = []
    for group, key in placed(key_type, data.draw(st.lists(st.one_of(keys, keys, st.none()), max_size=8), "keys")):
        internal = {namespaces.internal(one) for one in data.draw(st.lists(some, min_size=1, max_size=2), "namespaces")}
        for begin in sorted(map(namespaces.encode, internal)):
            if kind == "LIST":
                for number in range(data.draw(st.integers(1, 3), "parts")):
                    part = [stored(value) for value in data.draw(st.lists(values, min_size=1, max_size=5), "elements")]
                    entries.append((group, "state", (key, part_sub_key(number, begin), pack_part(part))))
            elif kind == "MAP":
                found = data.draw(st.lists(st.one_of(user_keys, st.none()), min_size=1, max_size=4), "map keys")
                for written in sorted({user_codec.encode(user_codec.internal(one)) for one in found}):
                    value = data.draw(st.one_of(values, st.none()), "map value")
                    entries.append((group, "state", (key, begin + written, stored(value))))
            else:
                sub_key = b"" if namespaces is VOID else begin
                entries.append((group, "state", (key, sub_key, stored(data.draw(values, "value")))))
    wanted = None
    if data.draw(st.booleans(), "some keys only"):
        by_group: dict[int, set[bytes]] = {}
        for group, _, (key, _, _) in entries[::3]:
            by_group.setdefault(group, set()).add(key)
        wanted = KeyFilter({group: frozenset(found) for group, found in by_group.items()})
    # a map whose key is null, and a row that is a deletion, are refused both: each reader by what it comes to first
    assert_same(header_of(key_type, info), entries, wanted, several_faults=True)


@given(data=st.data())
def test_timers_are_as_rows_are(data: st.DataObject) -> None:
    namespaces, some = data.draw(st.sampled_from(NAMESPACES))
    info = TimerSchema("user-timers", TimeDomain.EVENT_TIME, namespaces).meta_info("state")
    entries = []
    for group, key in placed(Types.STRING(), data.draw(st.lists(st.text(), max_size=6))):
        for time in data.draw(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=3)):
            begin = namespaces.encode(namespaces.internal(data.draw(some)))
            entries.append((group, "state", (key, begin + time_to_bytes(time), b"")))
    assert_same(header_of(Types.STRING(), info), entries)


def test_parts_of_a_state_under_several_schemas_are_as_rows_are() -> None:
    timed = ValueStateDescriptor("state", Types.LONG())
    timed.enable_time_to_live(TTL)
    new = StateSchema.of(timed).meta_info("state")
    old = StateSchema.of(ValueStateDescriptor("state", Types.INT())).meta_info("state")
    states = (old, StateMetaInfoSnapshot(new.name, new.kind, new.serializer, ttl=True, part=1))
    entries = []
    for number, (group, key) in enumerate(placed(Types.STRING(), map(str, range(30)))):
        part = states[number % 2]
        value = serializer_for(Types.LONG()).serialize(number)
        entries.append((group, part.key, (key, b"", time_mark(number) + value if part.part else value)))
    _, rows = assert_same(header_of(Types.STRING(), *states), entries)
    assert sorted(row["value"] for row in rows) == list(range(30))
    assert {row["ttl_timestamp"] for row in rows} == {None, *range(1, 30, 2)}


def test_values_read_as_another_type_are_as_rows_are() -> None:
    info = StateSchema.of(ValueStateDescriptor("state", Types.INT())).meta_info("state")
    keys = placed(None, ["a", "b"])
    entries = [(group, "state", (key, b"", serializer_for(Types.INT()).serialize(7))) for group, key in keys]
    schema, rows = assert_same(header_of(None, info), entries, type_info=Types.LONG(), read_key_type=Types.STRING())
    assert schema.field("value").type == pa.int64()
    assert schema.field("key").type == pa.string()
    assert [row["value"] for row in rows] == [7, 7]


def test_a_list_longer_than_a_batch_goes_on_counting_and_is_one_where_it_is_gathered() -> None:
    info = StateSchema.of(ListStateDescriptor("state", Types.LONG())).meta_info("state")
    data = [serializer_for(Types.LONG()).serialize(number) for number in range(2_000)]
    (group, key), *others = placed(Types.LONG(), range(4))
    entries = [(group, "state", (key, part_sub_key(n), pack_part(data[20 * n : 20 * n + 20]))) for n in range(100)]
    entries += [(of, "state", (other, part_sub_key(0), pack_part(data[:3]))) for of, other in others]
    _, rows = assert_same(header_of(Types.LONG(), info), entries)
    assert [len(row["value"]) for row in rows] == [2_000, 3, 3, 3]


DAMAGED = [
    (Types.LONG(), b""),
    (Types.LONG(), b"\x01\x02"),
    (Types.LONG(), b"\xcf" + b"\xff" * 8),
    (Types.LONG(), b"\xc3"),
    (Types.LONG(), b"\xc0"),
    (Types.LONG(), b"\xd3\x00"),
    (Types.BYTE(), b"\xcc\x80"),
    (Types.DOUBLE(), b"\x07"),
    (Types.FLOAT(), b"\xcb\x7f\xef" + b"\xff" * 6),
    (Types.STRING(), b"\xa5abc"),
    (Types.STRING(), b"\xa1\xff"),
    (Types.STRING(), b"\xdb\xff\xff\xff\xff"),
    (Types.CHAR(), b"\xa2ab"),
    (Types.SQL_DATE(), b"\x00"),
    (Types.SQL_TIMESTAMP(), b"\xcf\x7f" + b"\xff" * 7),
    (Types.INSTANT(), b"\x92\x01\xce\xff\xff\xff\xff"),
    (Types.LIST(Types.LONG()), b"\x92\x01"),
    (Types.LIST(Types.LONG()), b"\xdd\xff\xff\xff\xff\x01"),
    (Types.TUPLE([Types.LONG()]), b"\x92\x01\x02"),
    (Types.TUPLE([Types.LONG()]), b"\x91\xa1x"),
    (Types.MAP(Types.LONG(), Types.LONG()), b"\x91\x01"),
    (Types.MAP(Types.LONG(), Types.LONG()), b"\x94\x01\x01\x01\x02"),
    (Types.ROW([Types.LONG()]), b"\x92\x03\x01"),
]


@pytest.mark.parametrize(("value_type", "damaged"), DAMAGED, ids=str)
def test_bytes_that_are_no_value_are_never_made_one(value_type: TypeInformation, damaged: bytes) -> None:
    info = StateSchema.of(ValueStateDescriptor("state", value_type)).meta_info("state")
    keys = placed(Types.LONG(), range(3))
    others = {Types.LONG(): b"\x05", Types.STRING(): b"\xa1y"}.get(value_type, damaged)
    values = [others, damaged, others]
    assert_same(
        header_of(Types.LONG(), info),
        [(group, "state", (key, b"", value)) for (group, key), value in zip(keys, values, strict=True)],
    )
    assert_same(header_of(Types.LONG(), info), [(keys[0][0], "state", (keys[0][1], b"", damaged))])


DAMAGED_KEYS = [
    (Types.STRING(), b""),
    (Types.STRING(), b"\x07x"),
    (Types.STRING(), b"\x01\xff"),
    (Types.LONG(), b"\x07\x01"),
    (Types.BYTE(), b"\x04\xff\x00\x00\x00"),
    (Types.BOOLEAN(), b"\x03\x02\x00\x00\x00"),
    (Types.DOUBLE(), b"\x09\x00\x00\x00\x00\x00\x00\x00\x80"),
    (Types.SQL_DATE(), b"\x0c\xff\xff\xff\x7f"),
    (Types.TUPLE([Types.LONG()]), b"\x11\x07\x08\x00\x00\x00\x01"),
    (Types.TUPLE([Types.LONG()]), b"\x11\x00\x00\x00\x00\x00"),
]


@pytest.mark.parametrize(("key_type", "damaged"), DAMAGED_KEYS, ids=str)
def test_bytes_that_are_no_key_are_never_made_one(key_type: TypeInformation, damaged: bytes) -> None:
    info = StateSchema.of(ValueStateDescriptor("state", Types.LONG())).meta_info("state")
    assert_same(header_of(key_type, info), [(1, "state", (damaged, b"", b"\x05"))])


def test_short_sub_keys_and_times_are_errors_as_in_rows() -> None:
    (group, key), *_ = placed(Types.LONG(), [1])
    for kind, ttl, sub_key, value in [
        ("VALUE", True, b"", b"\x00" * 8),
        ("TIMER", False, b"\x00" * 5, b""),
        ("LIST", False, b"\x00", b"\x90"),
    ]:
        info = StateMetaInfoSnapshot("state", kind, serializer_for(Types.LONG()).snapshot(), ttl=ttl)
        if kind == "TIMER":
            info = TimerSchema("user-timers", TimeDomain.EVENT_TIME).meta_info("state")
        error, _ = assert_same(header_of(Types.LONG(), info), [(group, "state", (key, sub_key, value))])
        assert issubclass(error, SnapshotError)


COLUMN_TYPES = [one for one in SCALARS if one != Types.BIG_DEC()]


@pytest.mark.parametrize("type_info", COLUMN_TYPES, ids=str)
def test_plain_values_and_keys_need_no_element_by_element(type_info: TypeInformation) -> None:
    values = {
        Types.CHAR(): "x",
        Types.BOOLEAN(): True,
        Types.SQL_DATE(): dt.date(2026, 11, 23),
        Types.SQL_TIME(): dt.time(13),
        Types.SQL_TIMESTAMP(): dt.datetime(2026, 11, 23, 13),  # noqa: DTZ001
        Types.INSTANT(): Instant(1, 2),
        Types.STRING(): "text",
        Types.FLOAT(): 0.5,
        Types.DOUBLE(): 0.5,
        Types.PRIMITIVE_ARRAY(Types.BYTE()): b"x",
    }
    value = values.get(type_info, 7)
    nested = Types.ROW([type_info, Types.LIST(type_info), Types.MAP(Types.STRING(), type_info), Types.TUPLE([type_info])])
    row = Row(value, [value, None], {"a": value}, (value,))
    for kind, one in ((type_info, value), (nested, row)):
        array = value_array(Cells.of([serializer_for(kind).serialize(one)] * 3), kind)
        assert len(array) == 3
        assert array.null_count == 0
    if type_info not in (Types.BIG_INT(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT()):
        codec = KeyCodec(type_info)
        assert len(key_array(Cells.of([codec.encode(codec.internal(value))] * 3), type_info)) == 3
        pair = KeyCodec(Types.TUPLE([type_info, Types.LONG()]))
        assert (
            len(key_array(Cells.of([pair.encode(pair.internal((value, 1)))]), Types.TUPLE([type_info, Types.LONG()]))) == 1
        )


def test_numbers_that_are_decimal_are_columns_too() -> None:
    data = [serializer_for(Types.BIG_DEC()).serialize(Decimal(text)) for text in ("1.00", "-0E+5", "1E-400")]
    assert value_array(Cells.of(data), Types.BIG_DEC()).to_pylist() == ["1.00", "-0E+5", "1E-400"]
    with pytest.raises(NotInColumnsError):
        value_array(Cells.of([b"\xa3NaN"]), Types.BIG_DEC())
