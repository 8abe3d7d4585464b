"""One rule for a type, wherever a value meets it: the table of docs/types.md, tried in each place."""

import array
import collections
import datetime as dt
import enum
import re
import struct
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pystate.common.errors import PystateError
from pystate.common.row import Row
from pystate.common.time import Instant
from pystate.common.type_info import TypeKind, Types
from pystate.common.type_rules import conform_to
from pystate.core.records.codec import RecordCodec
from pystate.core.records.key_column import KeyColumn
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.kinds.overlay import value_check
from pystate.core.state.values.serializers import serializer_for
from pystate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

PAGE = Path(__file__).parents[3] / "docs" / "types.md"
REFUSED, LEFT_OUT = object(), object()


class Text(str):
    __slots__ = ()


class Number(enum.IntEnum):
    FIVE = 5


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - as users have them
EAST = dt.timezone(dt.timedelta(hours=2))
NOON, TEN = dt.datetime(2024, 2, 29, 12, 0, 0, 5), dt.datetime(2024, 2, 29, 10, 0, 0, 5)  # noqa: DTZ001
F32 = struct.unpack("<f", struct.pack("<f", 0.1))[0]
NESTED = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])


def integers(low, high):
    return [
        *[(5, 5), (np.int64(5), 5), (np.uint8(5), 5), (Number.FIVE, 5), (low, low), (high, high)],
        *[(one, REFUSED) for one in (low - 1, high + 1, 5.0, np.float64(5.0), True, np.True_, "5", Decimal(5))],
    ]


TABLE = {
    Types.STRING(): [
        ("ä", "ä"),
        (Text("a"), "a"),
        (np.str_("a"), "a"),
        (b"a", REFUSED),
        (5, REFUSED),
        (bytearray(b"a"), REFUSED),
    ],
    Types.CHAR(): [("a", "a"), (np.str_("a"), "a"), ("ab", REFUSED), ("", REFUSED), (97, REFUSED)],
    Types.BOOLEAN(): [(True, True), (np.False_, False), (1, REFUSED), ("true", REFUSED), (0.0, REFUSED)],
    Types.BYTE(): integers(-128, 127),
    Types.SHORT(): integers(-(2**15), 2**15 - 1),
    Types.INT(): integers(-(2**31), 2**31 - 1),
    Types.LONG(): integers(-(2**63), 2**63 - 1),
    Types.BIG_INT(): [(2**100, 2**100), (np.int64(5), 5), (Number.FIVE, 5), (5.0, REFUSED), (True, REFUSED), ("5", REFUSED)],
    Types.DOUBLE(): [
        *[(1.5, 1.5), (5, 5.0), (np.float64(1.5), 1.5), (np.float32(1.5), 1.5), (np.int64(5), 5.0), (2**53 + 1, 2.0**53)],
        *[(one, REFUSED) for one in (True, np.True_, "1.5", Decimal("1.5"), 10**400)],
    ],
    Types.FLOAT(): [
        *[(0.1, F32), (5, 5.0), (np.float32(0.1), F32), (np.int64(5), 5.0), (float("inf"), float("inf"))],
        *[(one, REFUSED) for one in (1e300, -1e300, 10**60, True, "1.5", Decimal("1.5"))],
    ],
    Types.BIG_DEC(): [
        *[(Decimal("1.50"), Decimal("1.50")), (5, Decimal(5)), (np.int64(5), Decimal(5))],
        *[(one, REFUSED) for one in (1.5, np.float64(1.5), True, "1.5", Decimal("NaN"), Decimal("Infinity"))],
    ],
    Types.SQL_DATE(): [
        *[(dt.date(2024, 2, 29), dt.date(2024, 2, 29)), (np.datetime64("2024-02-29"), dt.date(2024, 2, 29))],
        *[(one, REFUSED) for one in (NOON, pd.Timestamp(NOON), 5, 1.0, "2024-02-29", Decimal(5))],
    ],
    Types.SQL_TIME(): [(dt.time(12, 0, 0, 5), dt.time(12, 0, 0, 5)), (dt.time(12, tzinfo=EAST), REFUSED), (NOON, REFUSED)],
    Types.SQL_TIMESTAMP(): [
        *[(NOON, NOON), (NOON.replace(tzinfo=EAST), TEN), (pd.Timestamp(NOON), NOON), (np.datetime64(NOON), NOON)],
        *[(pd.Timestamp(NOON, tz="Etc/GMT-2"), TEN)],
        *[(one, REFUSED) for one in (pd.Timestamp(NOON) + pd.Timedelta(1, "ns"), np.datetime64(NOON, "ns"), pd.NaT)],
        *[(one, REFUSED) for one in (dt.date(2024, 2, 29), 5, 1.5, Decimal(5), "2024-02-29")],
    ],
    Types.INSTANT(): [(Instant(5, 7), Instant(5, 7)), (Instant(-1), Instant(-1)), (NOON, REFUSED), (5, REFUSED)],
    Types.PRIMITIVE_ARRAY(Types.BYTE()): [
        *[(b"a", b"a"), (bytearray(b"a"), b"a"), (memoryview(b"a"), b"a"), ("a", REFUSED), ([97], REFUSED)],
    ],
    Types.PRIMITIVE_ARRAY(Types.DOUBLE()): [
        *[([1.5], [1.5]), ([1], [1.0]), (np.array([1.5]), [1.5]), (array.array("d", [1.5]), [1.5]), ((1.5,), [1.5])],
        *[(one, REFUSED) for one in ([None], ["1"], {1.5}, "1", 1.5)],
    ],
    Types.PRIMITIVE_ARRAY(Types.FLOAT()): [([0.1], [F32]), ([1e300], REFUSED)],
    Types.BASIC_ARRAY(Types.STRING()): [
        (["a", None], ["a", None]),
        ([Text("a")], ["a"]),
        ([b"a"], REFUSED),
        ("ab", REFUSED),
    ],
    Types.OBJECT_ARRAY(Types.BIG_DEC()): [([Decimal("1.5")], [Decimal("1.5")]), ([5], [Decimal(5)]), ([1.5], REFUSED)],
    Types.LIST(Types.INT()): [
        *[([1, None], [1, None]), ((1, 2), [1, 2]), ([np.int64(1)], [1]), (np.array([1, 2]), [1, 2])],
        *[(one, REFUSED) for one in ([1.5], [True], [2**31], {1: 2}, {1}, 5)],
    ],
    Types.MAP(Types.STRING(), Types.INT()): [
        *[({"a": 1, "b": None}, {"a": 1, "b": None}), (collections.OrderedDict(a=np.int64(1)), {"a": 1})],
        *[(one, REFUSED) for one in ({"a": 1.5}, {1: 1}, {None: 1}, [("a", 1)], 5)],
    ],
    Types.TUPLE([Types.INT(), Types.SQL_TIMESTAMP()]): [
        *[((1, NOON), (1, NOON)), ([1, NOON], (1, NOON)), (Pair(1, NOON), (1, NOON))],
        *[((np.int64(1), NOON.replace(tzinfo=EAST)), (1, TEN)), ((None, None), (None, None))],
        *[(one, REFUSED) for one in ((1,), (1, NOON, 2), (1.5, NOON), (1, "x"), 5, "ab")],
    ],
    NESTED: [
        *[(Row(x=1, y="a"), Row(x=1, y="a")), (Row(y="a", x=1), Row(x=1, y="a")), (Row(1, "a"), Row(x=1, y="a"))],
        *[
            ((1, "a"), Row(x=1, y="a")),
            ([np.int64(1), np.str_("a")], Row(x=1, y="a")),
            (Row(x=None, y=None), Row(x=None, y=None)),
        ],
        *[
            (one, REFUSED)
            for one in (Row(x=1), Row(x=1, z="a"), Row(x=1.5, y="a"), Row(x=1, y=5), (1,), {"x": 1, "y": "a"}, 5)
        ],
    ],
    Types.PICKLED_BYTE_ARRAY(): [({1, 2}, {1, 2}), (np.int64(5), np.int64(5)), ("a", "a")],
}


def in_itself(type_info, value):
    return conform_to(type_info)(value)


def in_state(type_info, value):
    serializer = serializer_for(type_info)
    kept = value_check("s", serializer)(value)
    data = serializer.serialize(kept)
    assert serializer.serialize_all([kept]) == [data]
    return serializer.deserialize(data)


def between_tasks(type_info, value):
    codec = RecordCodec(type_info, "here")
    prepared = value if codec.prepare is None else codec.prepare(value)
    columns = codec.encode([prepared])
    (found,) = codec.decode(pa.RecordBatch.from_arrays(columns, schema=codec.schema))
    return found


def in_a_field(type_info, value):
    return between_tasks(Types.ROW_NAMED(["f", "g"], [type_info, Types.STRING()]), Row(f=value, g="x")).f


def in_a_row_in_a_row(type_info, value):
    inner = Types.ROW_NAMED(["f"], [type_info])
    return between_tasks(Types.ROW_NAMED(["r"], [inner]), Row(r=Row(f=value))).r.f


def in_a_list(type_info, value):
    return between_tasks(Types.LIST(type_info), [None, value])[1]


def in_a_map(type_info, value):
    return between_tasks(Types.MAP(Types.STRING(), type_info), {"a": value})["a"]


def in_state_within_a_list(type_info, value):
    return in_state(Types.LIST(type_info), [None, value])[1]


def as_a_key(type_info, value):
    if type_info.kind in (TypeKind.MAP, TypeKind.PICKLED_BYTE_ARRAY):
        return LEFT_OUT  # is no type of keys
    if type_info.kind is TypeKind.PRIMITIVE_ARRAY and value == [None]:
        return LEFT_OUT  # keys of older snapshots have it
    codec, column = KeyCodec(type_info), KeyColumn("key", type_info)
    prepare = column.preparer()
    (decoded,) = column.decoder(codec)(column.encode([value if prepare is None else prepare(value)], "here"))
    assert decoded == codec.internal(value)
    return codec.external(decoded)


def as_json(type_info, value):
    if type_info.kind is TypeKind.PICKLED_BYTE_ARRAY:
        return LEFT_OUT  # is no type of JSON's
    row_type = Types.ROW_NAMED(["f"], [type_info])
    message = JsonRowSerializationSchema.builder().with_type_info(row_type).build().serialize(Row(f=value))
    return JsonRowDeserializationSchema.builder().type_info(row_type).build().deserialize(message).f


PLACES = [
    *[in_itself, in_state, in_state_within_a_list, between_tasks, in_a_field, in_a_row_in_a_row, in_a_list, in_a_map],
    *[as_a_key, as_json],
]
CASES = [(type_info, value, expected) for type_info, values in TABLE.items() for value, expected in values]


def kinds(value):
    """Return a value with the types of all that is in it."""
    if isinstance(value, Row):
        return (Row, list(map(kinds, value)))
    if isinstance(value, dict):
        return (type(value), [(kinds(key), kinds(item)) for key, item in value.items()])
    return (type(value), list(map(kinds, value)) if isinstance(value, (list, tuple)) else value)


def outcome(place, type_info, value):
    try:
        found = place(type_info, value)
    except PystateError:
        return REFUSED
    return found if found is LEFT_OUT else kinds(found)


@pytest.mark.parametrize(
    ("type_info", "value", "expected"), CASES, ids=[f"{one.name}-{type(value).__name__}" for one, value, _ in CASES]
)
def test_a_value_is_the_same_wherever_it_meets_its_type(type_info, value, expected):
    right = (LEFT_OUT, REFUSED if expected is REFUSED else kinds(expected))
    found = {place.__name__: outcome(place, type_info, value) for place in PLACES}
    assert {name: one for name, one in found.items() if one not in right} == {}
    assert [one for one in found.values() if one is not LEFT_OUT]


def test_the_page_has_each_type():
    cells = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([A-Z_]+)`", "".join(cells))) == {kind.value for kind in TypeKind}
