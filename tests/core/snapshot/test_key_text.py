"""Keys as people and programs write them: what is refused says how it is written."""

from __future__ import annotations

from typing import Any

import pytest

from pystate.common import Row, Types
from pystate.common.errors import UsageError
from pystate.core.snapshot.reading.key_text import json_key, parse_key

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
NAMED = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("text", "key_type", "key"),
    [
        ("12", Types.LONG(), 12),
        ("-1", Types.LONG(), -1),
        ("False", Types.BOOLEAN(), False),
        ("0x00ff", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        ('["a", 1]', PAIR, ("a", 1)),
        ('{"n": null, "name": "a"}', NAMED, Row(name="a", n=None)),
        ('["a", 1]', NAMED, Row(name="a", n=1)),
    ],
)
def test_a_key_is_written_as_its_type_is(text: str, key_type: Any, key: Any) -> None:
    assert parse_key(text, key_type) == key


@pytest.mark.parametrize(
    ("text", "key_type", "why"),
    [
        ("two", Types.LONG(), "that is written as a whole number"),
        ("1_0", Types.LONG(), "that is written as a whole number"),
        ("1_0.5", Types.DOUBLE(), "that is written as a number"),
        ("1_0", Types.BIG_DEC(), "that is written as a decimal number"),
        ("1", Types.BOOLEAN(), "that is written as true or false"),
        ("ff", Types.PRIMITIVE_ARRAY(Types.BYTE()), "that is written as 0x and hex digits"),
        ("0xzz", Types.PRIMITIVE_ARRAY(Types.BYTE()), "that is written as 0x and hex digits"),
        ("2026-2-3", Types.SQL_DATE(), "that is written as YYYY-MM-DD"),
        ("25:00:00", Types.SQL_TIME(), "that is written as HH:MM:SS"),
        ("1770091506789", Types.SQL_TIMESTAMP(), "that is written as YYYY-MM-DDTHH:MM:SS"),
        ("a,1", PAIR, "that is written as JSON"),
        ('{"f0": "a"}', PAIR, "that is written as a list of JSON"),
        ('["a"]', PAIR, "it has 2 fields, not 1"),
        ('["a", 1, 2]', PAIR, "it has 2 fields, not 3"),
        ('{"name": "b"}', NAMED, "its fields are name, n"),
        ('{"name": "b", "n": 1, "x": 2}', NAMED, "its fields are name, n"),
    ],
)
def test_what_is_no_key_says_how_one_is_written(text: str, key_type: Any, why: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_key(text, key_type)
    assert refused.value.message.endswith(f": {why}")


def test_a_value_of_json_that_is_no_key_says_so_too() -> None:
    with pytest.raises(UsageError, match="it has 2 fields, not 1"):
        json_key(["a"], PAIR)
