"""Keys: typed bytes, injective, canonical, and the groups Spark computes."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Instant, Row, TypeInformation, Types
from pystate.common.errors import CorruptSnapshotError, PystateError, RestoreError, StateError
from pystate.common.key_groups import hash_bytes, key_group
from pystate.common.row import default_names
from pystate.core.state.formats import key_bytes
from pystate.core.state.keys.keys import KeyCodec, KeyCompatibility, check_key_compatible, encode_auto, type_tag

UTC = dt.timezone.utc
SCALARS = st.one_of(
    st.text(),
    st.binary(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
)
KEYS = st.recursive(
    SCALARS,
    lambda parts: st.one_of(
        st.lists(parts | st.none(), max_size=3),
        st.lists(parts | st.none(), max_size=3).map(tuple),
        st.dictionaries(st.text(min_size=1, max_size=3), parts, max_size=3, min_size=1).map(
            lambda d: Row.of_fields(tuple(d), list(d.values()))
        ),
    ),
    max_leaves=6,
)


def typed(value: Any) -> Any:
    """Return a value that is equal for equal typed keys only."""
    if isinstance(value, Row):
        return ("Row", value.field_names(), [typed(v) for v in value])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [typed(v) for v in value])
    return (type(value).__name__, value)


@given(KEYS)
def test_an_untyped_key_comes_back_with_its_type(key: Any) -> None:
    codec = KeyCodec()
    internal = codec.internal(key)
    data = codec.encode(internal)
    assert data == encode_auto(key)
    again = codec.decode(data)
    assert again == internal
    assert hash(again) == hash(internal)
    assert typed(codec.external(again)) == typed(key)
    assert codec.key_group(internal, 128) == key_group(data[0], data[1:], 128)


@given(KEYS, KEYS)
def test_two_keys_share_bytes_exactly_if_they_are_the_same_key(a: Any, b: Any) -> None:
    codec = KeyCodec()
    same = typed(a) == typed(b)
    assert (encode_auto(a) == encode_auto(b)) == same
    assert (codec.internal(a) == codec.internal(b)) == same


def test_one_as_int_float_bool_and_text_are_four_keys() -> None:
    codec = KeyCodec()
    keys = [1, 1.0, True, "1", b"1", (1,), [1], Decimal(1)]
    assert len({codec.encode(codec.internal(key)) for key in keys}) == len(keys)
    assert len({codec.internal(key) for key in keys}) == len(keys)
    assert encode_auto((1,)) != encode_auto((1.0,)) != encode_auto((True,))


def test_int_and_long_are_two_types() -> None:
    int_codec, long_codec = KeyCodec(Types.INT()), KeyCodec(Types.LONG())
    assert int_codec.encode(int_codec.internal(1)) != long_codec.encode(long_codec.internal(1))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (0.0, -0.0),
        (float("nan"), -float("nan")),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal("100"), Decimal("1E+2")),
        (Decimal("-0"), Decimal("0.00")),
        (dt.datetime(2024, 1, 1, 12, tzinfo=UTC), dt.datetime(2024, 1, 1, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
    ],
)
def test_equal_values_of_one_type_are_one_key(a: Any, b: Any) -> None:
    assert encode_auto(a) == encode_auto(b)


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize("key", [{1}, {"a": 1}, bytearray(b"x"), object(), _Text("x"), Decimal("NaN"), ({1},)])
def test_a_key_without_bytes_of_its_own_is_refused(key: Any) -> None:
    with pytest.raises(StateError) as error:
        KeyCodec().internal(key)
    assert error.value.hint


def test_a_key_nested_too_deep_is_refused() -> None:
    key: Any = 1
    for _ in range(100):
        key = (key,)
    with pytest.raises(StateError, match="deeper"):
        KeyCodec().internal(key)


TYPED = [
    (Types.STRING(), ["", "a", "日本語"], [1, b"a"]),
    (Types.CHAR(), ["a", "é"], ["", "ab", 1]),
    (Types.BOOLEAN(), [True, False], [1, 0, "x"]),
    (Types.BYTE(), [-128, 127], [128, True, "1"]),
    (Types.SHORT(), [-32768, 32767], [32768]),
    (Types.INT(), [-(2**31), 2**31 - 1], [2**31, 1.0, True]),
    (Types.LONG(), [-(2**63), 2**63 - 1], [2**63, 1.0, True]),
    (Types.FLOAT(), [1.5, float("inf")], ["x", True, 1e300]),
    (Types.DOUBLE(), [0.1, -1e300], ["x", True]),
    (Types.BIG_INT(), [0, -1, 127, 128, 2**100, -(2**100)], [1.0, True]),
    (Types.BIG_DEC(), [Decimal("1.5"), Decimal("-1E-30")], [1.5, Decimal("Infinity")]),
    (Types.SQL_DATE(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)], [dt.datetime(2020, 1, 1, tzinfo=UTC)]),
    (Types.SQL_TIME(), [dt.time(23, 59, 59, 999999)], [dt.time(1, tzinfo=UTC)]),
    (Types.SQL_TIMESTAMP(), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], [dt.date(2020, 1, 1)]),  # noqa: DTZ001
    (Types.INSTANT(), [Instant(-1, 5)], [1]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\x00\xff"], ["x", [1]]),
    (Types.TUPLE([Types.INT(), Types.STRING()]), [(1, "a"), (None, "b")], [(1,), (1, 2), "1a"]),
    (Types.LIST(Types.LONG()), [[], [1, 2, None]], ["12", ["a"], {1}]),
    (
        Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]),
        [Row(a=1, b="x")],
        [Row(a=1), Row(a=1, c="x"), (1, 2), (1,)],
    ),
    (Types.ROW([Types.INT(), Types.LIST(Types.INT())]), [Row(1, [2])], [Row(1, 2)]),
]


@pytest.mark.parametrize(
    ("type_info", "right", "wrong"), TYPED, ids=lambda v: v.name if isinstance(v, TypeInformation) else ""
)
def test_typed_keys_come_back_and_others_are_refused(type_info: TypeInformation, right: list[Any], wrong: list[Any]) -> None:
    codec = pickle.loads(pickle.dumps(KeyCodec(type_info)))
    for key in right:
        internal = codec.internal(key)
        data = codec.encode(internal)
        assert data[0] == type_tag(type_info)
        assert codec.decode(data) == internal
        assert typed(codec.external(internal)) == typed(key)
        assert codec.key_group(internal, 100) == key_group(data[0], data[1:], 100)
    for key in wrong:
        with pytest.raises(StateError):
            codec.internal(key)


@pytest.mark.parametrize("type_info", [None, *(type_info for type_info, _, _ in TYPED)], ids=str)
def test_none_is_a_key_of_any_type_with_the_same_bytes(type_info: TypeInformation | None) -> None:
    codec = KeyCodec(type_info)
    internal = codec.internal(None)
    assert (codec.encode(internal), codec.external(internal)) == (b"\x00", None)
    assert codec.external(codec.decode(b"\x00")) is None
    assert codec.decode(b"\x00") == internal
    assert codec.key_group(internal, 100) == key_group(0, b"", 100)


def test_none_is_another_key_than_a_byte_of_zero() -> None:
    codec = KeyCodec(Types.PRIMITIVE_ARRAY(Types.BYTE()))
    assert codec.internal(None) != codec.internal(b"\x00")
    assert codec.encode(codec.internal(b"\x00")) == b"\x02\x00"


def test_named_rows_are_keys_by_name_whatever_their_order() -> None:
    codec = KeyCodec(Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    assert codec.internal(Row(b="x", a=1)) == codec.internal(Row(a=1, b="x")) == codec.internal(Row(1, "x"))


@pytest.mark.parametrize("type_info", [Types.MAP(Types.STRING(), Types.INT()), Types.PICKLED_BYTE_ARRAY()])
def test_types_that_cannot_be_keys_are_refused(type_info: TypeInformation) -> None:
    assert type_tag(type_info) is None
    with pytest.raises(StateError, match="can't be the type of a key"):
        KeyCodec(type_info)


# From Spark 4.3.0: F.hash(column), seed 42
@pytest.mark.parametrize(
    ("type_info", "key", "spark_hash"),
    [
        (Types.BOOLEAN(), True, -559580957),
        (Types.BOOLEAN(), False, 933211791),
        (Types.BYTE(), -128, 1110053733),
        (Types.SHORT(), -32768, -1871935946),
        (Types.INT(), -1, -1604776387),
        (Types.LONG(), -12345678901, -402911403),
        (Types.DOUBLE(), 0.0, -1670924195),
        (Types.DOUBLE(), -0.0, -1670924195),
        (Types.DOUBLE(), -1.5, 2099784398),
        (Types.DOUBLE(), float("nan"), -1281358385),
        (Types.DOUBLE(), float("inf"), 833680482),
        (Types.DOUBLE(), 1e-300, -409653190),
        (Types.FLOAT(), -0.0, 933211791),
        (Types.FLOAT(), -1.5, 1765572753),
        (Types.FLOAT(), float("nan"), -349261430),
        (Types.FLOAT(), float("inf"), 2026854605),
        (Types.SQL_DATE(), dt.date(2024, 2, 29), 653915859),
        (Types.SQL_DATE(), dt.date(1969, 12, 31), -1604776387),
        (Types.SQL_TIMESTAMP(), dt.datetime(2024, 2, 29, 12, 30, 1, 5), 1163407178),  # noqa: DTZ001
        (Types.STRING(), "héllo", 1212979866),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\xff\xfe\xfd\xfc\xfb", 1324213860),
    ],
)
def test_payloads_are_what_spark_hashes(type_info: TypeInformation, key: Any, spark_hash: int) -> None:
    codec = KeyCodec(type_info)
    assert type_tag(type_info) in key_bytes.NATIVE_TAGS
    assert hash_bytes(codec.encode(codec.internal(key))[1:], 42) == spark_hash


def test_tags_never_change() -> None:
    names = {name: value for name, value in vars(key_bytes).items() if name.startswith("TAG_") and name != "TAG_NAMES"}
    assert names == {
        "TAG_NULL": 0,
        "TAG_STRING": 1,
        "TAG_BINARY": 2,
        "TAG_BOOLEAN": 3,
        "TAG_BYTE": 4,
        "TAG_SHORT": 5,
        "TAG_INT": 6,
        "TAG_LONG": 7,
        "TAG_FLOAT": 8,
        "TAG_DOUBLE": 9,
        "TAG_BIG_INT": 10,
        "TAG_BIG_DEC": 11,
        "TAG_DATE": 12,
        "TAG_TIME": 13,
        "TAG_TIMESTAMP": 14,
        "TAG_INSTANT": 15,
        "TAG_CHAR": 16,
        "TAG_TUPLE": 17,
        "TAG_LIST": 18,
        "TAG_ROW": 19,
        "TAG_ZONED_TIMESTAMP": 20,
    }
    assert encode_auto((1, "a", None)).hex() == "11" + "0708000000" + "0100000000000000" + "010100000061" + "0000000000"


def test_untyped_and_declared_keys_are_compatible_where_their_bytes_are_the_same() -> None:
    for type_info in (Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.BOOLEAN(), Types.PRIMITIVE_ARRAY(Types.BYTE())):
        assert check_key_compatible(None, type_info) is KeyCompatibility.COMPATIBLE
        assert check_key_compatible(type_info, None) is KeyCompatibility.COMPATIBLE
        assert check_key_compatible(type_info, type_info) is KeyCompatibility.COMPATIBLE
    for old, new in [(None, Types.INT()), (Types.INT(), None), (Types.INT(), Types.LONG()), (Types.TUPLE([]), None)]:
        assert check_key_compatible(old, new) is KeyCompatibility.INCOMPATIBLE
    assert check_key_compatible(None, None) is KeyCompatibility.COMPATIBLE


def test_bytes_of_a_key_of_another_type_are_refused_by_name() -> None:
    with pytest.raises(RestoreError, match=r"STRING.*LONG"):
        KeyCodec(Types.LONG()).decode(encode_auto("a"))
    with pytest.raises(RestoreError, match=r"BIG_INT.*LONG"):
        KeyCodec(Types.LONG()).decode(encode_auto(2**70))
    with pytest.raises(RestoreError, match="CHAR"):
        KeyCodec().decode(bytes((key_bytes.TAG_CHAR,)) + b"a")


@given(st.binary(max_size=40))
def test_arbitrary_bytes_are_a_key_that_encodes_to_them_or_an_error(data: bytes) -> None:
    for type_info in (None, *(entry[0] for entry in TYPED)):
        codec = KeyCodec(type_info)
        for candidate in (data, bytes((type_tag(type_info) or 0,)) + data):
            try:
                internal = codec.decode(candidate)
            except (CorruptSnapshotError, RestoreError):
                continue
            except PystateError as error:  # pragma: no cover - a wrong class of error
                raise AssertionError(type_info) from error
            assert codec.encode(internal) == candidate


def test_a_row_that_has_the_default_names_of_its_type_is_the_same_key_as_one_without_names() -> None:
    row = Row.of_fields(default_names(2), [1, "a"])
    assert encode_auto(row) == encode_auto(Row(1, "a")) != encode_auto(Row(f0=1, f1="a"))
    typed = KeyCodec(Types.ROW([Types.LONG(), Types.STRING()]))
    data = typed.encode(typed.internal(Row(1, "a")))
    assert typed.encode(typed.internal(row)) == data
    assert typed.external(typed.decode(data)).f1 == "a"


TYPED_KEYS: list[tuple[TypeInformation | None, st.SearchStrategy[Any]]] = [
    (None, SCALARS),
    (Types.STRING(), st.text(st.characters(exclude_categories=()))),
    (Types.BYTE(), st.integers(-(1 << 7), (1 << 7) - 1)),
    (Types.SHORT(), st.integers(-(1 << 15), (1 << 15) - 1)),
    (Types.INT(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (Types.LONG(), st.integers(-(1 << 63), (1 << 63) - 1)),
    (Types.DOUBLE(), st.floats()),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
]


@pytest.mark.parametrize(("key_type", "keys"), TYPED_KEYS, ids=lambda one: getattr(one, "name", ""))
@given(data=st.data())
def test_many_keys_are_encoded_and_decoded_as_each_of_them(
    key_type: TypeInformation | None, keys: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    codec = KeyCodec(key_type)
    internals = [codec.internal(key) for key in data.draw(st.lists(keys | st.none(), max_size=9))]
    encoded = codec.encode_all(internals)
    assert encoded == [codec.encode(internal) for internal in internals]
    assert codec.decode_all(encoded) == internals


@pytest.mark.parametrize("key_type", [Types.STRING(), Types.INT(), Types.LONG(), Types.SHORT()], ids=lambda one: one.name)
@given(st.lists(st.binary(max_size=9) | st.binary(min_size=4, max_size=8).map(b"\x06".__add__), min_size=1, max_size=4))
def test_many_damaged_keys_fail_as_the_first_of_them(key_type: TypeInformation, encoded: list[bytes]) -> None:
    codec = KeyCodec(key_type)

    def outcome(decode: Any) -> Any:
        try:
            return decode()
        except PystateError as error:
            return type(error), error.message

    assert outcome(lambda: codec.decode_all(encoded)) == outcome(lambda: [codec.decode(key) for key in encoded])
