"""Plain lines are parsed many at once: with the rows, places and refusals of lines that are parsed one by one."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import pytest

from pystate.common import Types
from pystate.common.errors import RecordError
from pystate.common.type_info import TypeKind
from pystate.connectors.file_system.formats import text_values
from pystate.connectors.file_system.formats.csv_format import CsvFormat, CsvRows
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.file_system.formats.file_content import TextEncoding
from pystate.connectors.file_system.formats.json_format import JsonFormat, _Row
from pystate.connectors.file_system.formats.split_format import SplitFormat

ROW = Types.ROW_NAMED(
    ["y", "i", "l", "d", "f", "b", "s", "day"],
    [
        *(Types.BYTE(), Types.INT(), Types.LONG(), Types.DOUBLE(), Types.FLOAT(), Types.BOOLEAN(), Types.STRING()),
        Types.SQL_DATE(),
    ],
)
CSV = {
    "y": ["1", "127", "128", "-128", ""],
    "i": ["0", "-7", "2147483647", "", "+1", "2147483648", "1_0", " 1", "١", "1-2", "0x1F"],
    "l": ["9223372036854775807", "-9223372036854775808", "", "9223372036854775808", "--1"],
    "d": ["1", "1.5e3", "-.5", "-0", "", "NaN", "1d", "1e999", "0x1p3", "1.e", "inf", "1_0.0"],
    "f": ["0.1", "3", "", "1e-50", "1.1f"],
    "b": ["true", "false", "", "TRUE", "1", "t"],
    "s": ["plain", "", "ünïcode", '"a,b"', '"x\ny"', 'in "the" middle', "#no comment", " "],
    "day": ["2026-01-02", "", "2026-13-01", "2026"],
}
JSON = {
    "y": ["1", "200", "-128", "300", "null"],
    "i": ["0", "-7", "2147483647", "null", "2147483648", "1.0", "-0", "true", '"1"'],
    "l": ["9223372036854775807", "null", "9223372036854775808", "1e3"],
    "d": ["1.5", "1", "-0", "0", "null", "NaN", '"NaN"', "1e999", "12345678901234567890123", "1" * 400, '"x"'],
    "f": ["0.1", "3", "null", "1e-50"],
    "b": ["true", "false", "null", "1", '"true"'],
    "s": ['"plain"', "null", '"\\ud800"', "1.50", "true", '{"a": [1,  2]}', '"ünïcode"'],
    "day": ['"2026-01-02"', "null", "7", '"2026-13-01"', "1.5"],
}


def csv_line(rng: random.Random, odd: float) -> str:
    return ",".join(
        value if rng.random() > odd else rng.choice(CSV[name]) for name, value in zip(CSV, PLAIN_CSV, strict=True)
    )


def json_line(rng: random.Random, odd: float) -> str:
    members = [(name, value if rng.random() > odd else rng.choice(JSON[name])) for name, value in PLAIN_JSON.items()]
    rng.shuffle(members)
    return "{" + ", ".join(f'"{name}": {value}' for name, value in members if rng.random() > odd / 5) + "}"


PLAIN_CSV = ["3", "1", "2", "0.25", "0.5", "true", "text", "2026-01-02"]
PLAIN_JSON = {name: JSON[name][0] for name in JSON}
ODD_LINES = {
    csv_line: ["", "  ", "1,2", "a\rb,c", "#comment", b"1,1,2,3,4,true,\xff,2026-01-02", "1,1,2,3,4,true,x\0y,"],
    json_line: ["", " {}", "{}", "[{}, {}]", "{} {}", "7", "{", b'{"s": "\xff"}', '{"i": 1, "i": 2}', "[" * 5000],
}
FORMATS: dict[Callable[..., str], Callable[[], SplitFormat]] = {
    csv_line: lambda: CsvFormat(CsvSchema(ROW), "UTC", TextEncoding("UTF-8", "replace", "test")),
    json_line: lambda: JsonFormat(ROW, "UTC"),
}


def outcome(split_format: SplitFormat, data: bytes, most: int) -> tuple[list[tuple[str, ...]], list[int], str]:
    """Return the rows, the places between the reads, and the refusal."""
    rows: list[tuple[str, ...]] = []
    places: list[int] = []
    try:
        records = split_format.open(io.BytesIO(data), "f", 0)
        while (now := records.read(most)) is not None:
            rows += [tuple(map(repr, row)) for row in now]
            places.append(records.position)
    except RecordError as error:
        return rows, places, str(error)
    return rows, places, ""


@pytest.mark.parametrize("line", FORMATS, ids=["CSV", "JSON"])
@pytest.mark.parametrize("odd", [0.0, 0.01, 0.2])
def test_lines_at_once_and_one_by_one_are_the_same_rows(line, odd, monkeypatch):
    rng = random.Random(7)
    at_once = []
    cases = []
    for _ in range(150):
        lines = [line(rng, odd).encode() for _ in range(rng.randrange(1, 12))]
        if rng.random() < odd:
            strange = rng.choice(ODD_LINES[line])
            lines.insert(rng.randrange(len(lines) + 1), strange if isinstance(strange, bytes) else strange.encode())
        cases.append((b"\n".join(lines) + b"\n", rng.choice([1, 3, 500])))
    cases = [(data, most) for data, most in cases if data]
    at_once = [outcome(FORMATS[line](), data, most) for data, most in cases]
    refused = sum(bool(problem) for *_, problem in at_once)
    assert (refused == 0) == (odd == 0.0)
    monkeypatch.setattr(CsvRows, "_rows_of_plain", lambda self, lines: None)
    monkeypatch.setattr(_Row, "columns_of", lambda self, lines: None)
    monkeypatch.setattr(text_values, "integers", lambda kind: each(text_values.integer(kind)))
    monkeypatch.setattr(text_values, "numbers", each(text_values.number))
    monkeypatch.setattr(text_values, "booleans", each(text_values.boolean))
    assert at_once == [outcome(FORMATS[line](), data, most) for data, most in cases]


def each(read: Callable[[str], Any]) -> Callable[[Any], list[Any]]:
    return lambda texts: list(map(read, texts))


@pytest.mark.parametrize("line", FORMATS, ids=["CSV", "JSON"])
def test_plain_lines_are_not_parsed_one_by_one(line, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError

    for owner, name in ((CsvRows, "__next__"), (_Row, "of_line")):
        monkeypatch.setattr(owner, name, refuse)
    for name in ("number", "boolean"):
        monkeypatch.setattr(text_values, name, refuse)
    rng = random.Random(7)
    lines = [line(rng, 0.0) for _ in range(100)]
    rows, _, problem = outcome(FORMATS[line](), "\n".join(lines).encode(), 500)
    assert (len(rows), problem) == (100, "")


def test_integers_at_once_are_those_of_java():
    for kind in (TypeKind.BYTE, TypeKind.LONG):
        assert text_values.integers(kind)(["1", "-1"]) == [1, -1]
        for wrong in ("1_0", " 1", "", "1-", "1" * 20):
            with pytest.raises(ValueError, match="is not"):
                text_values.integers(kind)(["1", wrong])
