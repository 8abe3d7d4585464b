from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import jsonschema_rs
import pytest

from pystate.common.plain_data import entry, unless_none
from pystate.jobmanager.rest.schemas import TEXT, nullable, record, schema_of
from pystate.rest.message import HexId, RestMessage


class Colour(str, Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, kw_only=True)
class Inner(RestMessage):
    pass


@dataclass(frozen=True, kw_only=True)
class Outer(RestMessage):
    id: HexId
    shown_name: str | None = entry("shown-name", default=None)
    inner: list[Inner]
    counts: dict[Colour, int]
    figure: float | Literal["NaN"]
    more: dict[str, Any] | None = unless_none()


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


@pytest.mark.parametrize("more", [None, {"any": ["thing"]}])
def test_what_a_message_becomes_is_what_its_schema_says(more):
    one = Outer(id="0" * 32, inner=[Inner()], counts={Colour.RED: 1, Colour.BLUE: 2}, figure="NaN", more=more)

    jsonschema_rs.validate(schema_of(Outer), one.to_plain())
    jsonschema_rs.validate(schema_of(list[Outer]), [one.to_plain()])
    assert Outer.from_plain(one.to_plain()) == one
    assert ("more" in one.to_plain()) is (more is not None)
