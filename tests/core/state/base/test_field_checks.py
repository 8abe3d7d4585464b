"""Checks of fields that are made as code say what a look at each field says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystate.common import Types
from pystate.common.errors import StateError
from pystate.core.state.formats.field_checks import MAX_FIELDS, fields_check, tuple_check
from pystate.core.state.formats.type_format import Right
from pystate.core.state.kinds.overlay import value_check
from pystate.core.state.values.serializers import serializer_for

RIGHTS = st.lists(
    st.sampled_from([Right(str), Right(float), Right(bool), Right(dt.date), Right(int, -8, 7), Right(int, -(1 << 63), 1)]),
    max_size=4,
)
TIME = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
VALUES = st.one_of(
    st.sampled_from(["", "x", 1.5, True, False, None, TIME.date(), TIME, [], (), 1, 7, 8, -9]), st.integers(-10, 10)
)


@given(rights=RIGHTS, values=st.lists(VALUES, min_size=4, max_size=4))
def test_all_fields_are_right_as_they_are_or_not(rights: list[Right], values: list[Any]) -> None:
    values = values[: len(rights)]
    right = all(
        type(value) is wanted.python_type and (type(value) is not int or wanted.low <= value <= wanted.high)
        for value, wanted in zip(values, rights, strict=True)
    )
    assert fields_check(rights)(values) is right
    check = tuple_check(rights, lambda value: ("otherwise", value))
    whole = tuple(values)
    assert check(whole) == (whole if right else ("otherwise", whole))
    assert check((*whole, 1)) == ("otherwise", (*whole, 1))
    assert check(values) == ("otherwise", values)


@pytest.mark.parametrize("count", [MAX_FIELDS, MAX_FIELDS + 1, 5_000])
def test_wide_tuples_are_checked_too(count: int) -> None:
    rights = [Right(int, 0, 9)] * count
    assert fields_check(rights)([9] * count)
    assert not fields_check(rights)([*[9] * (count - 1), 10])
    assert tuple_check(rights, lambda value: "otherwise")((*[9] * (count - 1), 10)) == "otherwise"


def test_a_state_of_tuples_takes_right_ones_without_asking_its_format(monkeypatch: pytest.MonkeyPatch) -> None:
    serializer = serializer_for(Types.TUPLE([Types.LONG(), Types.DOUBLE(), Types.STRING()]))
    asked = []
    monkeypatch.setattr(serializer, "check", lambda value: asked.append(value) or value)
    check = value_check("s", serializer)
    right, odd = (1, 2.0, "x"), (1, 2, "x")
    assert check(right) is right
    assert not asked
    check(odd)
    assert asked == [odd]


def test_what_is_no_tuple_of_the_type_is_refused_or_made_right() -> None:
    check = value_check("s", serializer_for(Types.TUPLE([Types.BYTE(), Types.DOUBLE()])))
    kept = check((1, 2))
    assert kept == (1, 2.0)
    assert type(kept[1]) is float
    assert check((None, None)) == (None, None)
    for wrong in [(128, 2.0), (True, 2.0), (1,), (1, 2.0, 3), [1], "xy"]:
        with pytest.raises(StateError, match="State 's'"):
            check(wrong)
