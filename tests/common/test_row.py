"""Row: by position, by name, as a template; equality, copies."""

from __future__ import annotations

import copy
import pickle

import pytest

from pystate.common import Row, RowKind


def test_a_positional_row_is_read_and_set_by_position() -> None:
    row = Row("hello", 3)
    row[1] = 4
    assert (row[0], row[1], len(row), list(row), row[0:2]) == ("hello", 4, 2, ["hello", 4], ["hello", 4])


def test_a_named_row_is_read_and_set_by_name_attribute_and_position() -> None:
    row = Row(word="hello", count=3)
    row["count"] = 4
    row.word = "bye"
    assert (row.word, row["count"], row[0], row.as_dict()) == ("bye", 4, "bye", {"word": "bye", "count": 4})


def test_a_row_of_strings_is_a_template() -> None:
    person = Row("name", "age")
    assert person("Ann", 41) == Row(name="Ann", age=41)
    with pytest.raises(TypeError):
        person(1, 2, 3)


def test_rows_are_equal_by_names_values_and_kind() -> None:
    assert Row(1, 2) == Row(1, 2)
    assert Row(a=1) == Row.of_fields(("a",), [1])
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1) != Row.of_kind(RowKind.DELETE, 1)
    assert hash(Row(1, "x")) == hash(Row(1, "x"))
    assert Row(1) != (1,)


def test_a_missing_field_is_an_error_that_names_the_others() -> None:
    with pytest.raises(AttributeError, match=r"'c'.*a, b"):
        _ = Row(a=1, b=2).c
    with pytest.raises(KeyError):
        Row(1)["a"]
    with pytest.raises(AttributeError):
        Row(1).a = 2


def test_rows_survive_pickle_and_copy() -> None:
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=[1], b="x")
    twin = pickle.loads(pickle.dumps(row))
    assert twin == row
    deep = copy.deepcopy(row)
    deep.a.append(2)
    assert row.a == [1]


def test_rows_nested_in_rows_become_dicts_when_asked() -> None:
    assert Row(a=Row(b=1), c=[Row(d=2)]).as_dict(recursive=True) == {"a": {"b": 1}, "c": [{"d": 2}]}
    with pytest.raises(TypeError):
        Row(1).as_dict()


def test_positional_and_named_fields_do_not_mix() -> None:
    with pytest.raises(ValueError, match="positional or named"):
        Row(1, a=2)


def test_a_row_shows_how_it_is_made() -> None:
    assert repr(Row(a=1, b="x")) == "Row(a=1, b='x')"
    assert repr(Row(1, "x")) == "Row(1, 'x')"
