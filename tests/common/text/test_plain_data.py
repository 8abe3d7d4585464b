from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

import pytest

from pystate.common.text import plain_data
from pystate.common.text.plain_data import MAX_INT, Natural, Pattern, PlainData, PlainDataError, entry, left_out, unless_none


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner(PlainData):
    number: Natural


class Row:
    """Has a form of its own."""

    def __init__(self, text: str) -> None:
        self.text = text

    def to_plain(self) -> list[str]:
        return [self.text]

    @classmethod
    def from_plain(cls, plain: Any) -> Row:
        return cls(*plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and other.text == self.text


@dataclass(frozen=True)
class Outer(PlainData):
    identity: int = entry("id")
    text: str
    truth: bool
    share: float
    colour: Colour
    inner: Inner | None
    rows: list[Row]
    words: tuple[str, ...]
    by_name: dict[str, Inner]
    anything: Any
    passing: int = left_out(7)
    many: list[int] = field(default_factory=list)


PLAIN: dict[str, Any] = {
    "id": -3,
    "text": "a",
    "truth": True,
    "share": 2.5,
    "colour": "red",
    "inner": {"number": 4},
    "rows": [["x"], ["y"]],
    "words": ["b", "c"],
    "by_name": {"n": {"number": 0}},
    "anything": {"as": ["it", "is"]},
    "many": [],
}


def test_fields_are_entries_and_come_back_as_they_were() -> None:
    made = Outer.from_plain(PLAIN)
    assert made == Outer(
        identity=-3,
        text="a",
        truth=True,
        share=2.5,
        colour=Colour.RED,
        inner=Inner(4),
        rows=[Row("x"), Row("y")],
        words=("b", "c"),
        by_name={"n": Inner(0)},
        anything={"as": ["it", "is"]},
    )
    assert list(made.to_plain().items()) == list(PLAIN.items())
    assert Outer.from_plain(json.loads(json.dumps(made.to_plain()))) == made


def test_what_is_left_out_is_neither_written_nor_read() -> None:
    assert Outer.from_plain({**PLAIN, "passing": 9, "of a later version": 1}).passing == 7


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": True}, "of a Outer 'id' is True, not a number from -9223372036854775808 to 9223372036854775807"),
        ({"text": 5}, "of a Outer 'text' is 5, not of type str"),
        ({"truth": 1}, "of a Outer 'truth' is 1, not of type bool"),
        ({"share": "1"}, "of a Outer 'share' is '1', not of type float"),
        ({"colour": "blue"}, "of a Outer 'colour' is 'blue', not any of red"),
        ({"colour": ["red"]}, "of a Outer 'colour' is ['red'], not any of red"),
        ({"inner": {"number": -1}}, f"of a Outer 'inner' of a Inner 'number' is -1, not a number from 0 to {MAX_INT}"),
        ({"inner": {}}, "of a Outer 'inner' of a Inner 'number' is missing"),
        ({"rows": {}}, "of a Outer 'rows' is {}, not a list"),
        ({"words": ["a", None]}, "of a Outer 'words' is None, not of type str"),
        ({"by_name": []}, "of a Outer 'by_name' is [], not a map"),
        ({"by_name": {5: {"number": 0}}}, "of a Outer 'by_name' is 5, not of type str"),
        ({"many": ["x" * 100]}, f"of a Outer 'many' is '{'x' * 76}..., not a number from {-MAX_INT - 1} to {MAX_INT}"),
    ],
)
def test_anything_else_is_refused_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(PlainDataError) as raised:
        Outer.from_plain({**PLAIN, **change})
    assert str(raised.value) == said


@pytest.mark.parametrize("plain", [None, [], "text"])
def test_what_is_no_map_is_refused(plain: object) -> None:
    with pytest.raises(PlainDataError, match="of a Inner is .*, not a map"):
        Inner.from_plain(plain)


@dataclass(frozen=True, kw_only=True)
class Lenient(PlainData):
    missing_is_default = True

    id: Annotated[str, Pattern("^[0-9]$")]
    kind: Literal["a", "b"] = "a"
    note: str | None = unless_none("a-note")
    count: int = entry("the-count", default=3)


def test_an_entry_with_a_default_may_be_missing_where_the_class_says_so():
    assert Lenient.from_plain({"id": "1", "unknown": 7}) == Lenient(id="1", kind="a", note=None, count=3)
    with pytest.raises(PlainDataError, match="'id' is missing"):
        Lenient.from_plain({})


def test_a_field_that_is_none_may_have_no_entry():
    assert Lenient(id="1").to_plain() == {"id": "1", "kind": "a", "the-count": 3}
    assert Lenient(id="1", note="n").to_plain() == {"id": "1", "kind": "a", "a-note": "n", "the-count": 3}
    assert Lenient.from_plain({"id": "1", "a-note": None}) == Lenient(id="1")


def test_a_word_that_is_none_of_a_literals_is_refused():
    with pytest.raises(PlainDataError, match="'kind' is 'c', not any of a, b"):
        Lenient.from_plain({"id": "1", "kind": "c"})


@dataclass(frozen=True)
class Fresh(PlainData):
    """Nobody has asked how its fields lie yet."""

    first: int = 1
    second: int = 2


def test_who_writes_while_another_thread_looks_at_the_class_for_the_first_time_writes_all_fields(monkeypatch):
    made, reader = [], plain_data._reader

    def meanwhile(kind):
        if not made:
            made.append(None)
            made[0] = Fresh().to_plain()
        return reader(kind)

    monkeypatch.setattr(plain_data, "_reader", meanwhile)
    assert Fresh.from_plain({"first": 3, "second": 4}) == Fresh(3, 4)
    assert made == [{"first": 1, "second": 2}]
