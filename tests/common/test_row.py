"""Row: by position, by name, as a template; equality, copies."""

from __future__ import annotations

import copy
import pickle

import pytest

from pystate.common import Row, RowKind
from pystate.common.row import default_names


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
    with pytest.raises(ValueError, match="3 values from 2 names"):
        person(1, 2, 3)
    assert Row.of_kind(RowKind.DELETE, "name")("Ann").get_row_kind() is RowKind.DELETE


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
    with pytest.raises(ValueError, match=r"'x'.*a, b"):
        Row(a=1, b=2)["x"]
    with pytest.raises(ValueError, match="no names"):
        Row(1)["a"]
    with pytest.raises(ValueError, match="'x'"):
        Row(a=1)["x"] = 2
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
    assert str(Row(1, "x", None, Row(2))) == "<Row(1, 'x', None, <Row(2)>)>"
    assert (str(Row()), repr(Row("name", "age"))) == ("<Row()>", "<Row('name', 'age')>")


def test_kinds_are_shown_in_flinks_short_form() -> None:
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]
    assert f"{RowKind.DELETE}" == "-D"


def test_in_asks_for_a_name_and_without_names_for_a_value() -> None:
    named, positional = Row(a=1, b="x"), Row(1, "a")
    assert ("a" in named, "x" in named, 1 in named) == (True, False, False)
    assert (1 in positional, "a" in positional, "b" in positional) == (True, True, False)


def test_the_order_of_names_is_no_matter_of_equality() -> None:
    assert Row(a=1, b=2) == Row(b=2, a=1)
    assert Row(a=1, b=2) != Row(b=1, a=2)
    assert Row(a=1, b=2) != Row(a=1, c=2)


def test_several_fields_are_set_and_read_at_once() -> None:
    row = Row(1, 2, 3)
    row[0:2] = [7, 8]
    assert row == Row(7, 8, 3)
    with pytest.raises(ValueError, match="3 fields"):
        row[0:2] = [1]
    assert Row(a=1, b="x").get_fields_by_names(["b", "a"]) == ["x", 1]
    with pytest.raises(ValueError, match="'z'"):
        Row(a=1).get_fields_by_names(["z"])


def test_a_row_with_the_default_names_of_its_type_is_still_one_without_names() -> None:
    row = Row.of_fields(default_names(2), [1, "a"])
    assert (str(row), row.f0, row["f1"], "f0" in row, row.as_dict()) == (
        "Row(f0=1, f1='a')",
        1,
        "a",
        True,
        {"f0": 1, "f1": "a"},
    )
    assert row.field_names() is None
    assert row == Row(1, "a")
    assert Row(1, "a") == row
    assert row == Row(f0=1, f1="a")
    assert row != Row(a=1, b="a")
    assert Row(a=1, b="a") != row
    twin = pickle.loads(pickle.dumps(row))
    assert (twin, twin.field_names(), str(twin)) == (row, None, "Row(f0=1, f1='a')")
