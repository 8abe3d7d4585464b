"""Reads files of JSON lines in slots, with the results of Spark's reader.

A line with an array has a row for each of its objects, an empty line has none. JSON beyond the standard, such as single
quotes, which Spark's reader accepts, is rejected here, and so is anything after the value, which Spark's reader leaves out:
where two lines have run into each other, that would be a row that is lost.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.scanner import make_scanner
from typing import Any, BinaryIO, cast

from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import is_byte_array
from pystate.connectors.file_system.formats import text_values
from pystate.connectors.file_system.formats.file_content import content_of
from pystate.connectors.file_system.formats.lines import Lines
from pystate.connectors.file_system.formats.split_format import FileRecords, LineRows, SplitFormat
from pystate.core.records.codec import RecordCodec

Convert = Callable[[Any], Any]
PlainColumn = Callable[[list[Any]], list[Any] | None]
"""Converts a column of what JSON holds; None if one of its values is needed as it was written."""

_SPACES = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]*")
_LONE = re.compile("[\ud800-\udfff]")
_BYTES_OF_255 = range(128, 256)
_INFINITIES = {
    "NaN": "nan",
    "Infinity": "inf",
    "+Infinity": "inf",
    "INF": "inf",
    "+INF": "inf",
    "-Infinity": "-inf",
    "-INF": "-inf",
}
_NONE = type(None)
_TEXTS, _BOOLEANS = frozenset({str, _NONE}), frozenset({bool, _NONE})
_INTEGERS, _FLOATS = frozenset({int, _NONE}), frozenset({float, _NONE})
_LISTS = (TypeKind.LIST, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY, TypeKind.PRIMITIVE_ARRAY)


class _Integer(str):
    """An integer as written in the input."""

    __slots__ = ()


class _Number(str):
    """A non-integer number as written in the input."""

    __slots__ = ()


class _WrittenNeededError(Exception):
    """An object or array has to be returned as its source text."""


_DECODER = json.JSONDecoder(parse_int=_Integer, parse_float=_Number, parse_constant=_Number)
_scan_once = cast("Callable[[str, int], tuple[Any, int]]", make_scanner(_DECODER))  # type: ignore[arg-type]
_scan_plain = cast("Callable[[str, int], tuple[Any, int]]", make_scanner(json.JSONDecoder()))  # type: ignore[arg-type]
"""Makes Python's numbers, which is faster; how they were written is lost."""


class JsonFormat(SplitFormat):
    """Reads rows from JSON lines.

    Args:
        element_type: A named ROW: the columns.
        zone: The time zone of timestamps without one.
    """

    def __init__(self, element_type: TypeInformation, zone: str) -> None:
        self.element_type = element_type
        self._zone = zone

    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the rows."""
        row = _Row(self.element_type, self._zone)
        lines = Lines(content_of(file, name), position)
        return LineRows(lines, name, RecordCodec(self.element_type, name), row.of_line, "JSON", row.columns_of)


class _Row:
    """Makes rows from objects.

    Args:
        row_type: Their type.
        zone: The time zone of timestamps without one.
    """

    def __init__(self, row_type: TypeInformation, zone: str) -> None:
        self._type = row_type
        self._zone = zone
        parts = list(zip(row_type.get_field_names(), row_type.elements, strict=True))
        self._parts = [(name, _converter(part, zone)) for name, part in parts]
        self._plain = [(name, _plain_column(part, zone)) for name, part in parts]

    def columns_of(self, lines: list[bytes]) -> list[list[Any]] | None:
        """Return the columns of the rows of lines, as `of_line` makes them; None if it has to, one by one."""
        if any(column is None for _, column in self._plain):
            return None
        try:
            texts = [line.decode() for line in lines]
            scanned = [_scan_plain(text, 0) for text in texts]
            objects = [value for value, _ in scanned]
            if not {dict}.issuperset(map(type, objects)) or [end for _, end in scanned] != list(map(len, texts)):
                return None
            columns = [column and column([one.get(name) for one in objects]) for name, column in self._plain]
        except (StopIteration, ValueError, OverflowError, RecursionError):  # one begins with a space, or is wrong
            return None
        return None if any(column is None for column in columns) else cast("list[list[Any]]", columns)

    def of_line(self, line: bytes) -> list[tuple[Any, ...]]:
        """Return the rows of a line.

        Raises:
            ValueError: It isn't JSON, or doesn't match the columns.
        """
        text = line.decode()
        start = _SPACE.match(text).end()  # type: ignore[union-attr]
        if start == len(text):
            return []
        try:
            value, end = _scan_once(text, start)
        except StopIteration as error:
            message = f"no value at character {error.value}"
            raise ValueError(message) from error
        if _SPACE.match(text, end).end() != len(text):  # type: ignore[union-attr]
            message = f"something follows the value, from character {end} on"
            raise ValueError(message)
        try:
            if type(value) is list:
                return [self.of_object(one) for one in value]
            return [self.of_object(value)]
        except _WrittenNeededError:
            written = text[start:end]
            slices = _items(written) if written.startswith("[") else [written]
            return [tuple(_of_written(one, self._type, self._zone).values()) for one in slices]

    def of_object(self, value: Any) -> tuple[Any, ...]:
        if type(value) is not dict:
            message = "a line holds no object"
            raise ValueError(message)
        return tuple(convert(value.get(name)) for name, convert in self._parts)


def _converter(part: TypeInformation, zone: str) -> Convert:
    convert = _of_value(part, zone)
    return lambda value: None if value is None else convert(value)


def _of_value(part: TypeInformation, zone: str) -> Convert:  # noqa: PLR0911 - one for each kind of type
    kind = part.kind
    if kind is TypeKind.STRING:
        return _text
    if kind in text_values.RANGES:
        return _integer(kind)
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return _floating
    if kind is TypeKind.BOOLEAN:
        return _boolean
    if kind is TypeKind.SQL_DATE:
        return _date
    if kind is TypeKind.SQL_TIMESTAMP:
        return _instant(text_values.instant(zone))
    if is_byte_array(part):
        return _bytes
    if kind is TypeKind.ROW:
        return _struct(_Row(part, zone), part.get_field_names())
    if kind is TypeKind.MAP:
        return _map(part, zone)
    assert kind in _LISTS  # noqa: S101 - `columns_of` has refused all others
    return _list(_converter(part.elements[0], zone))


def _plain_column(part: TypeInformation, zone: str) -> PlainColumn | None:
    """Return a function that converts a column as its converter does; None for types that have none."""
    kind = part.kind
    if kind in text_values.RANGES:
        return _plain_integers(1 << text_values.RANGES[kind])
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return _plain_numbers
    if kind is TypeKind.BOOLEAN:
        return lambda values: values if _BOOLEANS.issuperset(map(type, values)) else None
    if kind is TypeKind.STRING:
        return _plain_texts
    if kind in (TypeKind.SQL_DATE, TypeKind.SQL_TIMESTAMP) or is_byte_array(part):
        convert = _converter(part, zone)
        return lambda values: list(map(convert, values)) if _TEXTS.issuperset(map(type, values)) else None
    return None


def _plain_integers(bound: int) -> PlainColumn:
    def column(values: list[Any]) -> list[Any] | None:
        types = set(map(type, values))
        present = values if types == {int} else [value for value in values if value is not None]
        fits = types <= _INTEGERS and (not present or (-bound <= min(present) and max(present) < bound))
        return values if fits else None

    return column


def _plain_numbers(values: list[Any]) -> list[Any] | None:
    types = set(map(type, values))
    if types <= _FLOATS:
        return values
    if not types <= _FLOATS | _INTEGERS or any(value == 0 and type(value) is int for value in values):  # written -0?
        return None
    return [None if value is None else float(value) for value in values]


def _plain_texts(values: list[Any]) -> list[Any] | None:
    if not _TEXTS.issuperset(map(type, values)):
        return None
    return None if _LONE.search("".join(filter(None, values))) else values


def _no(value: Any, what: str) -> ValueError:
    return text_values.no(value if isinstance(value, str) else json.dumps(value), what)


def _text(value: Any) -> str:
    if type(value) is str:
        return _LONE.sub("?", value) if _LONE.search(value) else value
    if isinstance(value, str):  # a number
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    raise _WrittenNeededError


def _integer(kind: TypeKind) -> Convert:
    read = text_values.integer(kind)

    def convert(value: Any) -> int:
        if type(value) is not _Integer:
            raise _no(value, "an integer")
        if kind is TypeKind.BYTE and len(value) == 3 and int(value) in _BYTES_OF_255:  # noqa: PLR2004 - Jackson's bytes
            return int(value) - 256
        return read(value)

    return convert


def _floating(value: Any) -> float:
    if type(value) in (_Integer, _Number):
        return float(value)
    if type(value) is str and value in _INFINITIES:
        return float(_INFINITIES[value])
    raise _no(value, "a number")


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise _no(value, "true or false")


def _date(value: Any) -> Any:
    if type(value) is not str:
        raise _no(value, "a date")
    try:
        return text_values.date(value)
    except ValueError:
        return text_values.from_days(text_values.integer(TypeKind.INT)(value))


def _instant(read: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is _Integer:
            return text_values.from_seconds(int(value))
        if type(value) is not str:
            raise _no(value, "a timestamp")
        return read(value)

    return convert


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise _no(value, "Base64")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise _no(value, "Base64") from error


def _struct(row: _Row, names: tuple[str, ...] | list[str]) -> Convert:
    return lambda value: dict(zip(names, row.of_object(value), strict=True))


def _map(part: TypeInformation, zone: str) -> Convert:
    of_key, of_value = _of_key(part.elements[0], zone), _converter(part.elements[1], zone)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if type(value) is not dict:
            raise _no(value, "an object")
        return [(of_key(name), of_value(one)) for name, one in value.items()]

    return convert


def _of_key(part: TypeInformation, zone: str) -> Callable[[str], Any]:
    """Return what makes a key of a map of its text, which is the only form that JSON has for it."""
    kind = part.kind
    if kind is TypeKind.STRING:
        return str
    if kind in text_values.RANGES:
        return text_values.integer(kind)
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return text_values.number
    return text_values.boolean if kind is TypeKind.BOOLEAN else _of_value(part, zone)


def _list(of_part: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _no(value, "an array")
        return [of_part(one) for one in value]

    return convert


# -- objects and arrays in columns of strings: their source text


def _of_written(written: str, part: TypeInformation, zone: str) -> Any:
    """Convert a JSON value to a type; objects and arrays become their source text where the type is a string."""
    kind = part.kind
    if kind is TypeKind.STRING and written[0] in "{[":
        return written
    if kind is TypeKind.ROW and written[0] == "{":
        found: Mapping[str, str] = dict(_members(written))
        named = zip(part.get_field_names(), part.elements, strict=True)
        return {name: _of_written(found.get(name, "null"), element, zone) for name, element in named}
    if kind is TypeKind.MAP and written[0] == "{":
        of_key = _of_key(part.elements[0], zone)
        return [(of_key(name), _of_written(one, part.elements[1], zone)) for name, one in _members(written)]
    if kind in _LISTS and not is_byte_array(part) and written[0] == "[":
        return [_of_written(one, part.elements[0], zone) for one in _items(written)]
    return _converter(part, zone)(_scan_once(written, 0)[0])


def _members(written: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the source texts of the values of a valid object."""
    at = _skip(written, 1)
    while written[at] == '"':
        name, at = scanstring(written, at + 1, True)
        start = _skip(written, _skip(written, at) + 1)
        _, end = _scan_once(written, start)
        yield name, written[start:end]
        at = _skip(written, end)
        if written[at] == "}":
            return
        at = _skip(written, at + 1)


def _items(written: str) -> Iterator[str]:
    """Yield the source texts of the items of a valid array."""
    at = _skip(written, 1)
    while written[at] != "]":
        _, end = _scan_once(written, at)
        yield written[at:end]
        at = _skip(written, end)
        if written[at] == ",":
            at = _skip(written, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACES:
        at += 1
    return at
