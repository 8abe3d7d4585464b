"""Keys and values have the same bytes by columns as one by one, and are the same when they are read."""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Row, TypeInformation, Types
from pystate.common.errors import PystateError
from pystate.common.key_groups import key_group
from pystate.core.records.codec import column_converter
from pystate.core.state.columns import Cells
from pystate.core.state.formats.all_formats import arrow_type_of
from pystate.core.state.keys import keys as keys_module
from pystate.core.state.keys.key_columns import are_keys, key_array, key_groups_of, packed_keys
from pystate.core.state.keys.keys import KeyCodec
from pystate.core.state.not_in_columns import NotInColumnsError
from pystate.core.state.values.serializers import NullableSerializer, serializer_for
from pystate.core.state.values.value_columns import packed_values, value_array

EDGES = [
    bound + step for bits in (5, 7, 8, 15, 16, 31, 32, 63) for bound in (1 << bits, -(1 << bits)) for step in (-1, 0, 1)
]


def integers(bits: int) -> st.SearchStrategy[int]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return st.one_of(st.integers(low, high), st.sampled_from([edge for edge in EDGES if low <= edge <= high]))


TEXT = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.text("abc", min_size=250, max_size=260))
PLAIN: dict[TypeInformation, st.SearchStrategy[Any]] = {
    Types.STRING(): TEXT,
    Types.BOOLEAN(): st.booleans(),
    Types.BYTE(): integers(8),
    Types.SHORT(): integers(16),
    Types.INT(): integers(32),
    Types.LONG(): integers(64),
    Types.FLOAT(): st.floats(width=32),
    Types.DOUBLE(): st.floats(),
    Types.SQL_DATE(): st.dates(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.binary(max_size=300),
}


def _tuples(types: list[TypeInformation]) -> tuple[TypeInformation, st.SearchStrategy[Any]]:
    return Types.TUPLE(types), st.tuples(*(PLAIN[one] for one in types))


def _rows(types: list[TypeInformation]) -> tuple[TypeInformation, st.SearchStrategy[Any]]:
    names = [f"field{number}" for number in range(len(types))]
    values = st.tuples(*(st.none() | PLAIN[one] for one in types))
    return Types.ROW_NAMED(names, types), values.map(lambda of: Row(**dict(zip(names, of, strict=True))))


ONE = st.sampled_from(list(PLAIN))
SCALARS = ONE.map(lambda one: (one, PLAIN[one]))
TUPLES = st.lists(ONE, min_size=1, max_size=3).map(_tuples)
ROWS = st.lists(ONE, min_size=1, max_size=3).map(_rows)
LISTS = ONE.map(lambda one: (Types.LIST(one), st.lists(st.none() | PLAIN[one], max_size=20)))


def column_of(values: list[Any], type_info: TypeInformation) -> pa.Array:
    to_arrow = column_converter(type_info).to_arrow
    return pa.array(values if to_arrow is None else map(to_arrow, values), arrow_type_of(type_info))


def shown(values: list[Any]) -> list[str]:
    """Return texts that are equal where values are, not-a-number included."""
    return list(map(repr, values))


@given(st.data(), SCALARS | TUPLES)
def test_keys_have_the_same_bytes_and_key_groups(data: st.DataObject, kind: tuple[TypeInformation, Any]) -> None:
    key_type, values = kind
    keys = data.draw(st.lists(st.none() | values, max_size=10))
    codec = KeyCodec(key_type)
    one_by_one = [codec.encode(codec.internal(key)) for key in keys]
    try:
        packed = packed_keys(column_of(keys, key_type), key_type)
    except NotInColumnsError:
        assert key_type not in PLAIN, "plain keys need no codec"
    else:
        assert packed.to_pylist() == one_by_one
        groups = [key_group(one[0], one[1:], 128) for one in one_by_one]
        assert key_groups_of(packed, 128).tolist() == groups


@given(st.data(), SCALARS | TUPLES)
def test_keys_are_read_as_they_are_one_by_one(data: st.DataObject, kind: tuple[TypeInformation, Any]) -> None:
    key_type, values = kind
    codec = KeyCodec(key_type)
    keys = [codec.internal(key) for key in data.draw(st.lists(st.none() | values, max_size=10))]
    written = list(map(codec.encode, keys))
    try:
        found = key_array(Cells.of(written), key_type)
    except NotInColumnsError:
        return
    assert shown(found.to_pylist()) == shown(column_of(list(map(codec.external, keys)), key_type).to_pylist())


@given(st.data(), SCALARS | TUPLES)
def test_bytes_are_keys_by_columns_only_if_they_are_alone(data: st.DataObject, kind: tuple[TypeInformation, Any]) -> None:
    key_type, values = kind
    codec = KeyCodec(key_type)
    written = [codec.encode(codec.internal(key)) for key in data.draw(st.lists(values, min_size=1, max_size=5))]
    place = data.draw(st.integers(0, len(written) - 1))
    damaged = bytearray(written[place])
    at = data.draw(st.integers(0, len(damaged)))
    damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    written[place] = bytes(damaged)
    if are_keys(written, key_type):
        assert [codec.encode(codec.decode(one)) for one in written] == written


@pytest.mark.parametrize(
    ("key_type", "make"),
    [
        (Types.DOUBLE(), lambda number: number / 3),
        (Types.SQL_DATE(), lambda number: dt.date.fromordinal(700_000 + number)),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), lambda number: (f"k{number}", number)),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), lambda number: (None, number)),
        (Types.STRING(), str),
        (Types.LONG(), int),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), lambda number: b"%d" % number),
    ],
)
def test_many_keys_are_read_as_few_are(key_type: TypeInformation, make: Any) -> None:
    codec, count = KeyCodec(key_type), 3 * keys_module._MANY
    keys = [codec.internal(None if number % 10 == 9 else make(number)) for number in range(count)]
    written = codec.encode_all(keys)
    assert codec.decode_all(written) == keys == [codec.decode(one) for one in written]


def test_many_keys_that_are_held_as_bytes_are_not_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = KeyCodec(Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    written = codec.encode_all([codec.internal((f"k{number}", number / 3)) for number in range(keys_module._MANY)])
    monkeypatch.setattr(keys_module._TypedKeys, "decode", None)
    assert codec.decode_all(written) == written


def test_one_damaged_key_among_many_is_an_error_as_it_is_alone() -> None:
    codec = KeyCodec(Types.DOUBLE())
    written = codec.encode_all([codec.internal(number / 3) for number in range(2 * keys_module._MANY)])
    for wrong in (written[0][:5], bytes((2,)) + written[0][1:], written[0][:1] + struct.pack("<d", -0.0)):
        with pytest.raises(PystateError) as alone:
            codec.decode(wrong)
        with pytest.raises(PystateError) as among:
            codec.decode_all([*written, wrong])
        assert among.value.message == alone.value.message


@given(st.data(), SCALARS | TUPLES | ROWS | LISTS)
def test_values_have_the_same_bytes_and_are_read_the_same(data: st.DataObject, kind: tuple[TypeInformation, Any]) -> None:
    type_info, strategy = kind
    nullable = data.draw(st.booleans())
    values = data.draw(st.lists(st.none() | strategy if nullable else strategy, max_size=10))
    serializer = NullableSerializer(serializer_for(type_info)) if nullable else serializer_for(type_info)
    one_by_one = list(map(serializer.serialize, values))
    column = column_of(values, type_info)
    assert packed_values(column, type_info, nullable=nullable).to_pylist() == one_by_one
    found = value_array(Cells.of(one_by_one), type_info, nullable=nullable)
    assert found.type == arrow_type_of(type_info)
    assert shown(found.to_pylist()) == shown(column.to_pylist())
