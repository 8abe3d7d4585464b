"""What our row formats answer, in the words in which `AskFlink.java` gives Flink's answers."""

from __future__ import annotations

import base64
import csv
import datetime
import struct
from decimal import Decimal
from typing import Any

from pystate.common.errors import RecordError
from pystate.common.row import Row
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pystate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from pystate.datastream.formats.json_reading import parse, reader
from pystate.datastream.formats.json_writing import instant_text


def answer(question: dict[str, Any]) -> str:
    """Return what our classes answer."""
    row_type = TypeInformation.from_plain(question["type"])
    try:
        if "message" in question:
            row = _reads(row_type, question).deserialize(base64.b64decode(question["message"]))
            return "none" if row is None else said(row)
        value = question["value"][0]
        of = row_type.elements[0]
        row = Row(f=None if value is None else _value(of, value))
        return _writes(row_type, question).serialize(row).decode()
    except RecordError:
        return "error"


def _reads(row_type: TypeInformation, question: dict[str, Any]) -> Any:
    if question["format"] == "json":
        of_json = JsonRowDeserializationSchema.builder().type_info(row_type)
        of_json = of_json.ignore_parse_errors() if question.get("ignore") else of_json
        return (of_json.fail_on_missing_field() if question.get("missing") else of_json).build()
    of_csv = CsvRowDeserializationSchema.Builder(row_type).set_ignore_parse_errors(question.get("ignore", False))
    of_csv = of_csv.set_null_literal(question["null"]) if "null" in question else of_csv
    of_csv = of_csv.set_escape_character(question["escape"]) if "escape" in question else of_csv
    return of_csv.set_allow_comments(question.get("comments", False)).build()


def _writes(row_type: TypeInformation, question: dict[str, Any]) -> Any:
    if question["format"] == "json":
        return JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    of_csv = CsvRowSerializationSchema.Builder(row_type)
    of_csv = of_csv.set_null_literal(question["null"]) if "null" in question else of_csv
    return (of_csv.set_escape_character(question["escape"]) if "escape" in question else of_csv).build()


def _value(type_info: TypeInformation, value: Any) -> Any:
    if isinstance(value, list):
        return [None if part is None else _value(type_info.elements[0], part) for part in value]
    return value if type_info.kind is TypeKind.STRING else reader(type_info)(value)


def said(value: Any) -> str:
    """Return a value in words."""
    if value is None:
        return "null"
    if isinstance(value, Row):
        return f"({', '.join(map(said, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(said, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{said(key)}={said(item)}' for key, item in value.items()))}}}"
    if isinstance(value, bytes):
        return f"bytes:{base64.b64encode(value).decode()}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"double:{struct.unpack('>Q', struct.pack('>d', value))[0]:x}"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Decimal):
        return str(value.normalize()) if value else "0"
    if isinstance(value, Instant):
        return _java_time(instant_text(value)[:-1]) + "Z"
    if isinstance(value, datetime.datetime):
        text = value.isoformat()
        return _java_time(text.removesuffix(":00") if value.second == value.microsecond == 0 else text)
    return str(value)


def _text(value: str) -> str:
    if len(value) > 1000:
        return f"{len(value)} characters"
    data = value.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(data) // 2}H", data)
    return f"'{''.join(chr(unit) if 32 <= unit < 127 else f'{chr(92)}u{unit:04x}' for unit in units)}'"


def _java_time(text: str) -> str:
    """Return a time with digits in groups of three, as Java's toString() has it."""
    whole, _, digits = text.partition(".")
    digits = digits.rstrip("0")
    return f"{whole}.{digits.ljust(-(-len(digits) // 3) * 3, '0')}" if digits else whole


def means(question: dict[str, Any], written: str) -> Any:
    """Return what a text that was written says: numbers and times look otherwise in Java, decimals don't."""
    kind = TypeInformation.from_plain(question["type"]).elements[0].kind
    if written == "error":
        return written
    if question["format"] == "json":
        value = parse(written.encode())["f"]
    else:
        value = next(csv.reader([written], strict=True), [""])
    looks_otherwise = kind in (TypeKind.DOUBLE, TypeKind.FLOAT, TypeKind.SQL_TIMESTAMP, TypeKind.INSTANT)
    if not looks_otherwise:
        return written if kind is not TypeKind.STRING else value
    of_type = reader(TypeInformation(kind))  # of JSON, whose numbers and times CSV has, too
    return said(of_type(value[0] if isinstance(value, list) else value))
