"""What `print()` shows: known answers of PyFlink 2.3.0, process mode, Java 17."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from pystate.common import Instant, Row, RowKind, Types
from pystate.common.errors import RecordError
from pystate.common.type_info import TypeInformation
from pystate.core.records.printed import line_of

_FIVE = Types.ROW([Types.INT(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.STRING()])
_NESTED = Types.TUPLE(
    [
        Types.ROW([Types.INT(), Types.STRING(), Types.BOOLEAN()]),
        Types.LIST(Types.INT()),
        Types.PRIMITIVE_ARRAY(Types.INT()),
        Types.MAP(Types.STRING(), Types.DOUBLE()),
    ]
)
_ARRAYS = Types.TUPLE(
    [
        Types.BASIC_ARRAY(Types.STRING()),
        Types.OBJECT_ARRAY(Types.TUPLE([Types.INT()])),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ]
)
_DOUBLES = {
    1: "1.0",
    0.1: "0.1",
    1e10: "1.0E10",
    1e-5: "1.0E-5",
    1e7: "1.0E7",
    9999999.0: "9999999.0",
    0.001: "0.001",
    1e-3 / 3: "3.333333333333333E-4",
    100.0: "100.0",
    1e21: "1.0E21",
    123456789.125: "1.23456789125E8",
    float("nan"): "NaN",
    float("-inf"): "-Infinity",
    -0.0: "-0.0",
    2e-323: "2.0E-323",
    5e-324: "4.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    2.0**53: "9.007199254740992E15",
    4.35: "4.35",
}
_FLOATS = {
    1: "1.0",
    1.5: "1.5",
    0.1: "0.1",
    1e10: "1.0E10",
    143.2: "143.2",
    1e40: "Infinity",
    float("nan"): "NaN",
    -0.0: "-0.0",
    16777217: "1.6777216E7",
    1e-5: "1.0E-5",
}


@pytest.mark.parametrize(
    ("type_info", "element", "line"),
    [
        (None, (2, None), "(2, None)"),
        (None, 1e10, "10000000000.0"),
        (None, True, "True"),
        (None, Row(1, "a"), "<Row(1, 'a')>"),
        (None, Row(a=1), "Row(a=1)"),
        (Types.STRING(), "a", "a"),
        (Types.BOOLEAN(), True, "true"),
        (Types.BOOLEAN(), 2, "true"),
        (Types.BOOLEAN(), 0, "false"),
        (Types.INT(), 1.7, "1"),
        (Types.INT(), -1.7, "-1"),
        (Types.INT(), True, "1"),
        (Types.INT(), Decimal("2.5"), "2"),
        *((Types.DOUBLE(), value, text) for value, text in _DOUBLES.items()),
        *((Types.FLOAT(), value, text) for value, text in _FLOATS.items()),
        (Types.BIG_DEC(), Decimal("1E+5"), "1E+5"),
        (Types.BIG_DEC(), Decimal("0E-3"), "0.000"),
        (Types.BIG_DEC(), 1.5, "1.5"),
        (Types.SQL_DATE(), dt.date(2020, 1, 2), "2020-01-02"),
        (Types.SQL_DATE(), dt.datetime(2020, 1, 2, 3, 4), "2020-01-02"),  # noqa: DTZ001 - as Flink has it
        (Types.SQL_TIME(), dt.time(1, 2, 3, 456789), "01:02:03"),
        (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 3, 4, 5), "2020-01-02 03:04:05.0"),  # noqa: DTZ001
        (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 3, 4, 5, 120000), "2020-01-02 03:04:05.12"),  # noqa: DTZ001
        (Types.INSTANT(), Instant(0, 0), "1970-01-01T00:00:00Z"),
        (Types.INSTANT(), Instant(1577934245, 120000000), "2020-01-02T03:04:05.120Z"),
        (Types.INSTANT(), Instant(1577934245, 123456789), "2020-01-02T03:04:05.123456789Z"),
        (Types.INSTANT(), Instant(-1, 500000000), "1969-12-31T23:59:59.500Z"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (2.7, "b"), "(2,b)"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (2, None), "(2,null)"),
        (Types.TUPLE([Types.DOUBLE(), Types.BOOLEAN(), Types.FLOAT()]), (1e10, True, 0.1), "(1.0E10,true,0.1)"),
        (_NESTED, (Row(1, "a", None), [1, 2], [3, 4], {"k": 1e10}), "(+I[1, a, null],[1, 2],[3, 4],{k=1.0E10})"),
        (_ARRAYS, (["a", None], [(1,), (2,)], b"ab"), "([a, null],[(1), (2)],[97, 98])"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": 2}, "{a=1, b=2}"),
        (_FIVE, Row(1, "a", 1.5, True, None), "+I[1,a,1.5,True,None]"),
        (_FIVE, Row(1.7, "a", 2, 5, None), "+I[1.7,a,2,5,None]"),
        (_FIVE, Row.of_kind(RowKind.DELETE, 1, "a", 1.5, True, None), "-D[1,a,1.5,True,None]"),
        (Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), Row(y="a", x=1), "+I[a,1]"),
        (Types.ROW([Types.ROW([Types.INT()]), Types.FLOAT()]), Row(Row(1), 0.1), "+I[<Row(1)>,0.1]"),
    ],
)
def test_an_element_is_shown_as_flink_shows_it(type_info: TypeInformation | None, element: Any, line: str) -> None:
    assert line_of(type_info, "out")(element) == line


@pytest.mark.parametrize(
    ("type_info", "element"),
    [
        (Types.STRING(), 5),
        (Types.STRING(), b"x"),
        (Types.BOOLEAN(), "a"),
        (Types.BYTE(), 300),
        (Types.SHORT(), 43878),
        (Types.INT(), 2**31),
        (Types.INT(), "5"),
        (Types.INT(), float("nan")),
        (Types.DOUBLE(), "x"),
        (Types.CHAR(), "ab"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (1,)),
        (Types.ROW([Types.INT()]), {"f0": 1}),
        (Types.MAP(Types.STRING(), Types.INT()), [1]),
    ],
)
def test_what_is_not_of_the_type_fails_as_in_flink(type_info: TypeInformation, element: Any) -> None:
    with pytest.raises(RecordError, match=type_info.kind.value) as caught:
        line_of(type_info, "out")(element)
    assert caught.value.where == "out"


@pytest.mark.parametrize(
    ("type_info", "element", "line"),
    [
        (Types.LIST(Types.DOUBLE()), [1e10, 2.0], "[1.0E10, 2.0]"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a\xff", "[97, -1]"),
        (Types.CHAR(), "a", "a"),
        (Types.BIG_INT(), 2**70, "1180591620717411303424"),
        (Types.INT(), None, "null"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), [3, "c"], "(3,c)"),
        (Types.ROW([Types.INT(), Types.STRING()]), (1, "a"), "+I[1,a]"),
    ],
)
def test_what_flink_can_not_show_is_shown_in_its_style(type_info: TypeInformation, element: Any, line: str) -> None:
    assert line_of(type_info, "out")(element) == line
