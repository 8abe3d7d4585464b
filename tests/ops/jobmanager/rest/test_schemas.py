from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from enum import Enum
from typing import Any, Literal

import jsonschema_rs
import pytest

from pystate.common.text.plain_data import entry, unless_none
from pystate.ops.jobmanager.rest.schemas import TEXT, nullable, record, schema_of
from pystate.runtime.rest.message import HexId, RestMessage, UnreadableAnswerError


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


class Inner(RestMessage):
    pass


class Outer(RestMessage):
    id: HexId
    shown_name: str | None = entry("shown-name", default=None)
    inner: list[Inner]
    counts: dict[Colour, int]
    figure: float | Literal["NaN"]
    more: dict[str, Any] | None = unless_none(default=None)


def test_the_schema_of_a_message_has_its_fields_by_the_names_of_its_json():
    assert schema_of(Outer) == record(
        {
            "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "shown-name": nullable(TEXT),
            "inner": {"type": "array", "items": record({})},
            "counts": record({"red": {"type": "integer"}, "blue": {"type": "integer"}}),
            "figure": {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN"]}]},
        },
        {"more": {"type": "object", "additionalProperties": {}}},
    )


class Full(RestMessage):
    status: Literal["full"] = "full"
    litres: int


class Empty(RestMessage):
    status: Literal["empty"] = "empty"


class Bottles(RestMessage):
    bottles: list[Full | Empty]


def test_of_two_messages_that_may_stand_in_a_place_the_one_that_fits_is_read():
    assert Bottles.from_plain({"bottles": [{"status": "empty"}, {"status": "full", "litres": 2}]}) == Bottles(
        bottles=[Empty(), Full(litres=2)]
    )


def test_what_is_unknown_is_left_out_and_what_has_a_default_may_be_missing():
    assert Full.from_plain({"litres": 1, "colour": "green"}) == Full(litres=1)
    with pytest.raises(UnreadableAnswerError, match="The job manager's answer can't be read: of a Full 'litres' is missing"):
        Full.from_plain({"status": "full"})


def test_a_message_is_made_of_its_fields_and_can_not_be_changed():
    full: Any = Full
    with pytest.raises(TypeError, match="the fields of a Full are others: gallons, litres"):
        full(gallons=1)
    with pytest.raises(TypeError, match="others: litres"):
        full()
    with pytest.raises(FrozenInstanceError):
        full(litres=1).litres = 2
    assert replace(full(litres=1), litres=2) == Full(litres=2) != Full(litres=1)
    assert repr(full(litres=1)) == "Full(status='full', litres=1)"


@pytest.mark.parametrize("more", [None, {"any": ["thing"]}])
def test_what_a_message_becomes_is_what_its_schema_says(more):
    one = Outer(id="0" * 32, inner=[Inner()], counts={Colour.RED: 1, Colour.BLUE: 2}, figure="NaN", more=more)

    jsonschema_rs.validate(schema_of(Outer), one.to_plain())
    jsonschema_rs.validate(schema_of(list[Outer]), [one.to_plain()])
    assert Outer.from_plain(one.to_plain()) == one
    assert ("more" in one.to_plain()) is (more is not None)
