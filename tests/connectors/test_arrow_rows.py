"""Values that Arrow would change in silence on their way to a file or a table."""

from __future__ import annotations

import datetime as dt
import math

import pytest

from pystate.common import Row, RowKind, Types
from pystate.common.errors import RecordError
from pystate.connectors.arrow_rows import ArrowRows

NEAREST_TO_INFINITE = 3.4028235677973362e38  # is rounded to the largest number of 32 bits; the next one isn't


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(
    ("type_info", "wrong"),
    [
        (Types.FLOAT(), 1e300),
        (Types.FLOAT(), -1e300),
        (Types.FLOAT(), math.nextafter(NEAREST_TO_INFINITE, math.inf)),
        (Types.SQL_DATE(), dt.datetime(2026, 1, 31, 12)),  # noqa: DTZ001 - the type has no zone
    ],
)
def test_a_value_that_would_become_another_one_is_refused(type_info, wrong, inner):
    of = Types.LIST(type_info) if inner else type_info
    rows = ArrowRows(Types.ROW_NAMED(["a"], [of]))
    with pytest.raises(RecordError, match="is not of type"):
        rows.batch([rows.values(Row(a=[wrong] if inner else wrong))])


def test_values_that_fit_are_written():
    rows = ArrowRows(Types.ROW_NAMED(["a", "day"], [Types.FLOAT(), Types.SQL_DATE()]))
    day = dt.date(2026, 1, 31)
    given = [1.5, 7, math.inf, -math.inf, None, math.nextafter(NEAREST_TO_INFINITE, 0)]
    batch = rows.batch([rows.values(Row(a=value, day=day)) for value in given])
    assert batch.column("a").to_pylist()[:5] == [1.5, 7.0, math.inf, -math.inf, None]
    assert math.isfinite(batch.column("a")[5].as_py())
    assert set(batch.column("day").to_pylist()) == {day}


@pytest.mark.parametrize("wrap", [lambda row: row, lambda row: [row], lambda row: {"k": row}], ids=["row", "list", "map"])
def test_the_kind_of_a_row_within_a_row_is_not_lost_in_silence(wrap):
    of = wrap(Types.ROW_NAMED(["n"], [Types.LONG()]))
    part = Types.LIST(of[0]) if isinstance(of, list) else Types.MAP(Types.STRING(), of["k"]) if isinstance(of, dict) else of
    rows = ArrowRows(Types.ROW_NAMED(["a"], [part]))
    assert rows.batch([rows.values(Row(a=wrap(Row(n=1))))]).num_rows == 1
    with pytest.raises(RecordError, match="would turn from -D to"):
        rows.batch([rows.values(Row(a=wrap(Row.of_kind(RowKind.DELETE, n=1))))])
