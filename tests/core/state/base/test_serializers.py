"""Serializers: exact round trips, strict types, compatibility."""

from __future__ import annotations

import datetime as dt
import math
import threading
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Instant, Row, TypeInformation, Types
from pystate.common.errors import CorruptSnapshotError, RestoreError, StateError, UnknownClassError
from pystate.core.state.values.serializers import serializer_for, serializer_from_snapshot

UTC = dt.timezone.utc
PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def exact(value: Any) -> Any:
    """Return a value that is equal only for values of equal types all the way down."""
    if isinstance(value, Row):
        return ("Row", value.field_names(), value.get_row_kind(), [exact(v) for v in value])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [exact(v) for v in value])
    if isinstance(value, dict):
        return ("dict", [(exact(k), exact(v)) for k, v in value.items()])
    if isinstance(value, Decimal):
        return ("Decimal", value.as_tuple())
    if isinstance(value, float):
        return ("float", math.copysign(1, value), value)
    return (type(value).__name__, value)


class _Thing:
    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Thing) and other.x == self.x

    __hash__ = None  # type: ignore[assignment]


class _Dict(dict[str, int]):
    pass


CASES: list[tuple[TypeInformation, list[Any], list[Any]]] = [
    (Types.STRING(), ["", "é\ud800"], [1, b"a"]),
    (Types.CHAR(), ["x"], ["", "xy"]),
    (Types.BOOLEAN(), [True, False], [1, "x"]),
    (Types.BYTE(), [-128, 127], [-129, 128, True]),
    (Types.SHORT(), [-32768, 32767], [32768]),
    (Types.INT(), [-(2**31), 2**31 - 1], [2**31, 1.0, True]),
    (Types.LONG(), [-(2**63), 2**63 - 1], [2**63, -(2**63) - 1, 1.0, True, "1"]),
    (Types.DOUBLE(), [0.1, -0.0, math.inf], ["x", True, 10**400]),
    (Types.FLOAT(), [0.5, -math.inf], ["x", 1e300]),
    (Types.BIG_INT(), [0, 2**63, -(2**63) - 1, -(2**200)], [1.0, True]),
    (Types.BIG_DEC(), [Decimal("1.00"), Decimal("-0E+5"), Decimal("1E-400")], [1.5, Decimal("NaN")]),
    (Types.SQL_DATE(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)], [dt.datetime(2020, 1, 1, tzinfo=UTC)]),
    (Types.SQL_TIME(), [dt.time(0), dt.time(23, 59, 59, 999999)], [dt.time(1, tzinfo=UTC)]),
    (Types.SQL_TIMESTAMP(), [dt.datetime.min, dt.datetime.max], [1, dt.date(2020, 1, 1)]),  # noqa: DTZ901
    (Types.INSTANT(), [Instant(-1, 999_999_999)], [3]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"\x00\xff"], ["x", [1]]),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [[1.5, 2.0]], [[None], {1.0}, "1"]),
    (Types.LIST(Types.LONG()), [[], [1, None]], ["1", ["x"], [2**63]]),
    (Types.BASIC_ARRAY(Types.STRING()), [["a", None]], ["a", [1]]),
    (Types.OBJECT_ARRAY(Types.LIST(Types.INT())), [[[1], []]], [[1]]),
    (Types.MAP(Types.LONG(), Types.STRING()), [{}, {1: "a", 2: None}], [{"1": "a"}, {1: 2}, {None: "a"}, [1]]),
    (Types.MAP(Types.TUPLE([Types.INT()]), Types.INT()), [{(1,): 2}], [{1: 2}]),
    (Types.TUPLE([Types.INT(), Types.LIST(Types.INT())]), [(1, [2]), (None, None)], [(1,), "12", (1, 2)]),
    (PERSON, [Row(name="Ann", age=41)], [Row(name="Ann"), Row(name="Ann", size=4), Row("Ann", "41"), ("Ann", "41")]),
    (Types.ROW([Types.INT()]), [Row(1)], [Row(a=1)]),
    (Types.PICKLED_BYTE_ARRAY(), [_Thing(3), {1, 2}], [lambda: 1]),
]


@pytest.mark.parametrize(
    ("type_info", "right", "wrong"), CASES, ids=lambda v: v.name if isinstance(v, TypeInformation) else ""
)
def test_values_come_back_exactly_and_others_are_refused(
    type_info: TypeInformation, right: list[Any], wrong: list[Any]
) -> None:
    serializer = serializer_from_snapshot(serializer_for(type_info).snapshot())
    for value in right:
        assert exact(serializer.deserialize(serializer.serialize(serializer.check(value)))) == exact(value)
    for value in wrong:
        with pytest.raises(StateError) as error:
            serializer.serialize(value)
        assert type_info.name in str(error.value) or type_info.elements


@pytest.mark.parametrize(
    ("type_info", "right", "wrong"), CASES, ids=lambda v: v.name if isinstance(v, TypeInformation) else ""
)
def test_many_values_are_serialized_as_each_of_them(type_info: TypeInformation, right: list[Any], wrong: list[Any]) -> None:
    serializer = serializer_for(type_info)
    data = serializer.serialize_all(right)
    assert data == [serializer.serialize(value) for value in right]
    assert exact(serializer.deserialize_all(data)) == exact(right)
    for value in wrong:
        with pytest.raises(StateError) as one:
            serializer.serialize(value)
        with pytest.raises(StateError) as many:
            serializer.serialize_all([*right, value])
        assert many.value.message == one.value.message
    with pytest.raises(CorruptSnapshotError):
        serializer.deserialize_all([*data, b"\xc1"])


def test_many_bytes_of_another_type_are_refused() -> None:
    assert serializer_for(Types.LONG()).deserialize_all([]) == []
    for other in (serializer_for(Types.STRING()).serialize("x"), serializer_for(Types.BOOLEAN()).serialize(value=True)):
        with pytest.raises(CorruptSnapshotError):
            serializer_for(Types.LONG()).deserialize_all([serializer_for(Types.LONG()).serialize(1), other])


def test_a_double_takes_ints_and_a_float_has_32_bits() -> None:
    assert exact(serializer_for(Types.DOUBLE()).check(3)) == exact(3.0)
    assert serializer_for(Types.FLOAT()).check(0.1) == 0.10000000149011612
    assert exact(serializer_for(Types.TUPLE([Types.DOUBLE(), Types.FLOAT()])).check((1, 0.1))) == exact(
        (1.0, 0.10000000149011612)
    )


def test_what_can_change_in_place_is_known() -> None:
    for type_info in (Types.LONG(), Types.STRING(), Types.TUPLE([Types.INT()]), Types.PRIMITIVE_ARRAY(Types.BYTE())):
        assert serializer_for(type_info).immutable
    for changeable in (
        None,
        PERSON,
        Types.LIST(Types.INT()),
        Types.TUPLE([Types.LIST(Types.INT())]),
        Types.PICKLED_BYTE_ARRAY(),
    ):
        assert not serializer_for(changeable).immutable


def test_a_row_without_names_takes_those_of_its_type() -> None:
    serializer = serializer_for(PERSON)
    assert serializer.deserialize(serializer.serialize(Row("Ann", 41))) == Row(name="Ann", age=41)
    assert serializer.deserialize(serializer.serialize(Row(age=41, name="Ann"))) == Row(name="Ann", age=41)


UNTYPED = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(),
        st.binary(),
        st.decimals(allow_nan=False, allow_infinity=False),
        st.dates(),
        st.times(),
        st.datetimes(),
        st.datetimes(timezones=st.just(UTC)),
    ),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.lists(parts, max_size=3).map(lambda v: Row.of_fields(None, v)),
        st.dictionaries(
            st.one_of(st.text(), st.integers(), st.binary(), st.tuples(st.integers(), st.text())), parts, max_size=3
        ),
    ),
    max_leaves=8,
)


@given(UNTYPED)
def test_untyped_values_come_back_exactly(value: Any) -> None:
    serializer = serializer_for(None)
    assert exact(serializer.deserialize(serializer.serialize(value))) == exact(value)


@pytest.mark.parametrize(
    "value", [{1}, [{1}], _Thing(1), [bytearray(b"x")], {"a": _Dict()}, [Decimal("NaN")], object(), [[lambda: 1]]]
)
def test_untyped_values_that_msgpack_cannot_say_are_refused_with_a_remedy(value: Any) -> None:
    with pytest.raises(StateError) as error:
        serializer_for(None).serialize(value)
    assert error.value.hint or "BIG_DEC" in error.value.message


@pytest.mark.parametrize("value", [{1}, _Thing(1), bytearray(b"x"), _Dict()])
def test_an_untyped_value_of_a_wrong_type_is_refused_at_the_first_write(value: Any) -> None:
    with pytest.raises(StateError, match="untyped"):
        serializer_for(None).check(value)


def test_untyped_nesting_has_an_end() -> None:
    value: Any = []
    for _ in range(100):
        value = [value]
    with pytest.raises(StateError, match="deeper"):
        serializer_for(None).serialize(value)


@given(st.binary(max_size=30))
def test_arbitrary_bytes_are_a_value_or_an_error(data: bytes) -> None:
    for type_info in (None, *(case[0] for case in CASES if case[0] != Types.PICKLED_BYTE_ARRAY())):
        try:
            serializer_for(type_info).deserialize(data)
        except CorruptSnapshotError:
            continue


def test_a_serializer_snapshot_of_another_version_or_damaged_is_refused() -> None:
    snapshot = serializer_for(Types.LONG()).snapshot()
    with pytest.raises(RestoreError, match="version 2"):
        serializer_from_snapshot({**snapshot, "version": 2})
    for damaged in (None, {}, {**snapshot, "type": {"type": "NOPE"}}, {**snapshot, "type": 3}):
        with pytest.raises(CorruptSnapshotError):
            serializer_from_snapshot(damaged)


def test_a_serializer_works_in_several_threads() -> None:
    serializer = serializer_for(Types.MAP(Types.STRING(), Types.LIST(Types.LONG())))
    wrong: list[Any] = []

    def work(n: int) -> None:
        for i in range(500):
            value = {f"{n}-{i}": [n, i]}
            if serializer.deserialize(serializer.serialize(value)) != value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_row_without_names_is_read_with_those_of_flink_and_written_as_ever() -> None:
    serializer = serializer_for(Types.ROW([Types.LONG(), Types.STRING()]))
    data = serializer.serialize(Row(1, "a"))
    assert data == b"\x93\x00\x01\xa1a"
    row = serializer.deserialize(data)
    assert (row.f0, row["f1"], str(row)) == (1, "a", "Row(f0=1, f1='a')")
    assert serializer.serialize(row) == data
    assert serializer.serialize(Row(f1="a", f0=1)) == data


def test_the_default_names_of_a_row_stay_with_it_in_untyped_state() -> None:
    (row,) = [serializer_for(Types.ROW([Types.LONG()])).deserialize(b"\x92\x00\x01")]
    untyped = serializer_for(None)
    assert untyped.deserialize(untyped.serialize(row)).f0 == 1
    assert untyped.deserialize(untyped.serialize(Row(1))).get_field_names() is None


class _Stops:
    def __init__(self, number: int, stops: str) -> None:
        self.number, self.stops = number, stops

    def __getstate__(self) -> Any:
        return next(iter([])) if self.stops == "written" else self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = next(iter([])) if state["stops"] == "read" else state


def test_a_class_that_stops_an_iteration_loses_no_other_values() -> None:
    serializer = serializer_for(Types.PICKLED_BYTE_ARRAY())
    with pytest.raises(StateError, match="_Stops") as refused:
        serializer.serialize_all([_Stops(1, ""), _Stops(2, "written"), _Stops(3, "")])
    assert "next() needs a default" in str(refused.value.hint)
    written = serializer.serialize_all([_Stops(1, ""), _Stops(2, "read"), _Stops(3, "")])
    with pytest.raises(UnknownClassError, match="raised StopIteration"):
        serializer.deserialize_all(written)
