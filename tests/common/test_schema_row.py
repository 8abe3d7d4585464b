"""Rows of a class made for their names behave as plain rows do, whatever is done to them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from pystate.common import Row, RowKind
from pystate.common.row import default_names, is_row, row_class, rows_of

PLAIN_NAMES = ["a", "b", "count", "index", "f0", "as_dict", "mro", "with space", ""]
NAMES = [*PLAIN_NAMES, "_kind", "_values", "_fields", "__len__", "__x"]
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=2), st.lists(st.integers(), max_size=2))

Step = tuple[str, Any]
STEPS = st.one_of(
    st.tuples(st.sampled_from(["read", "read_item", "contains"]), st.sampled_from([*NAMES, "other"])),
    st.tuples(st.just("delete"), st.sampled_from(PLAIN_NAMES)),
    st.tuples(st.sampled_from(["set", "set_item"]), st.tuples(st.sampled_from([*NAMES, "other"]), VALUES)),
    st.tuples(st.just("read_item"), st.one_of(st.integers(-4, 4), st.slices(4), st.just(1.5))),
    st.tuples(st.just("set_item"), st.tuples(st.one_of(st.integers(-4, 4), st.slices(4)), st.lists(VALUES, max_size=3))),
    st.tuples(st.just("set_names"), st.lists(st.sampled_from(NAMES), max_size=4)),
    st.tuples(st.just("by_names"), st.lists(st.sampled_from(NAMES), max_size=3)),
    st.tuples(st.just("kind"), st.sampled_from(RowKind)),
    st.tuples(st.just("call"), st.lists(VALUES, max_size=4)),
    st.tuples(st.sampled_from(["pickle", "cloudpickle", "copy", "deepcopy", "dict", "json"]), st.none()),
)


def _do(row: Row, step: Step) -> Any:
    name, given_value = step
    doings: dict[str, Any] = {
        "read": lambda: _plain(getattr(row, given_value)),
        "read_item": lambda: row[given_value],
        "contains": lambda: given_value in row,
        "delete": lambda: delattr(row, given_value),
        "set": lambda: setattr(row, *given_value),
        "set_item": lambda: row.__setitem__(*given_value),
        "set_names": lambda: row.set_field_names(given_value),
        "by_names": lambda: row.get_fields_by_names(given_value),
        "kind": lambda: row.set_row_kind(given_value),
        "call": lambda: row(*given_value),
        "pickle": lambda: pickle.loads(pickle.dumps(row)),
        "cloudpickle": lambda: pickle.loads(cloudpickle.dumps(row)),
        "copy": lambda: copy.copy(row),
        "deepcopy": lambda: copy.deepcopy(row),
        "dict": lambda: row.as_dict(recursive=True),
        "json": lambda: json.dumps(row),
    }
    try:
        return doings[name]()
    except Exception as error:  # noqa: BLE001 - whichever it is, both rows must raise it
        return type(error), None if name == "delete" else str(error)


def _plain(value: Any) -> Any:
    """Return what doesn't depend on the object for methods that a name leads to."""
    return getattr(value, "__name__", None) or "method" if callable(value) else value


def _seen(row: Row) -> list[Any]:
    hashed: Any
    try:
        hashed = hash(row)
    except TypeError as error:
        hashed = str(error)
    names = row.field_names()
    return [repr(row), str(row), list(row), len(row), row.get_field_names(), type(names), row.get_row_kind(), hashed]


@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
    unnamed=st.booleans(),
    values=st.lists(VALUES, min_size=4, max_size=4),
    steps=st.lists(STEPS, max_size=6),
)
def test_a_row_of_columns_does_as_a_row_made_alone(
    names: list[str], unnamed: bool, values: list[Any], steps: list[Step]
) -> None:
    count = len(names)
    fields = default_names(count) if unnamed else tuple(names)
    plain = Row.of_fields(fields, copy.deepcopy(values[:count]))
    (made,) = rows_of(fields, [[value] for value in copy.deepcopy(values[:count])])
    for step in [("dict", None), *steps]:
        before, after = _do(plain, step), _do(made, step)
        assert before == after
        assert _seen(plain) == _seen(made)
        assert plain == made
        assert made == plain
        assert not plain != made  # noqa: SIM202 - the operator of its own


def test_rows_of_columns_are_rows_to_whoever_asks() -> None:
    (row,) = rows_of(("a", "b"), [[1], ["x"]])
    kind = type(row)
    assert isinstance(row, Row)
    assert issubclass(kind, Row)
    assert not isinstance(row, (list, tuple))
    assert kind == Row
    assert Row == kind  # noqa: SIM300 - each side's own operator
    assert kind not in {Mapping: 0, int: 1}
    assert {Row: "found"}[kind] == "found"
    assert (kind.__name__, kind.__qualname__, kind.__module__) == ("Row", "Row", Row.__module__)
    assert type(kind(1, 2)) is Row
    assert type(kind.of_fields(None, [1])) is Row
    assert type(pickle.loads(pickle.dumps(row))) is Row
    assert pickle.loads(pickle.dumps(kind)) is kind
    assert is_row(row)
    assert is_row(Row())
    first, second = row
    assert (first, second) == (1, "x")


def test_a_class_that_a_user_made_of_row_is_not_taken_for_it() -> None:
    class Mine(Row):
        pass

    assert not is_row(Mine(1))
    assert not is_row((1,))


def test_the_names_of_a_type_that_gives_none_have_a_class_of_their_own() -> None:
    assert row_class(default_names(2)) is not row_class(("f0", "f1"))
    assert row_class(("f0", "f1")) is row_class(("f0", "f1"))
    (unnamed,) = rows_of(default_names(1), [[1]])
    assert (unnamed.f0, unnamed.field_names()) == (1, None)


def test_columns_of_different_lengths_make_no_rows() -> None:
    with pytest.raises(ValueError, match="shorter"):
        rows_of(("a", "b"), [[1, 2], [1]])
    assert rows_of(("a",), [[]]) == []


def test_fields_of_decoded_rows_are_properties() -> None:
    """A name that isn't one would be looked up by `Row.__getattr__`, ten times as dear."""
    made = row_class(("a", "as_dict", "a"))
    assert isinstance(made.__dict__["a"], property)
    assert "as_dict" not in made.__dict__
    (row,) = rows_of(("a", "as_dict", "a"), [[1], [2], [3]])
    assert (row.a, row["as_dict"]) == (1, 2)
