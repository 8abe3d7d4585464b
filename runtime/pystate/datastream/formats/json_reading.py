"""Converts JSON to values of types, like Flink's row formats; input that these would silently change is rejected.

Numbers stay as written until the type is known: neither a decimal nor a number in a string goes through a float.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.row import Row
from pystate.common.text.float32 import float32
from pystate.common.text.plain_text import lone_surrogate
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import INTEGER_BITS, LISTS, is_byte_array

Convert = Callable[[Any], Any]

PROBLEMS = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
"""What messages and texts that are no value bring about."""
SHOWN = 200
"""Characters of a wrong text in an error."""

_BLANKS = "".join(map(chr, range(33)))
"""What Java's trim() takes off."""
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NO_NUMBERS = {"NaN": float("nan"), **{f"{sign}Infinity": float(f"{sign}inf") for sign in ("", "+", "-")}}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})?")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_LAST_INSTANT = 31_556_889_864_403_199
"""Seconds of Java's last Instant."""
_LAST_EXPONENT = 2**31 - 1
"""The largest exponent of Java's BigDecimal."""


_WORDS: dict[type, str] = {dict: "object", list: "list", str: "text"}


class Number(str):
    """A number with a point or an exponent, as written."""

    __slots__ = ()


def _no_constant(text: str) -> Any:
    message = f"{text} is no JSON"
    raise ValueError(message)


_decode = json.JSONDecoder(parse_float=Number, parse_constant=_no_constant).decode


def parse(message: bytes) -> Any:
    """Parse a JSON message in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

    Raises:
        ValueError, RecursionError: It isn't JSON, or nested too deeply.
    """
    try:
        return _decode(message.decode())
    except ValueError:
        encoding = json.detect_encoding(message)
        if encoding == "utf-8":
            raise
        return _decode(message.decode(encoding))


def reader(type_info: TypeInformation, *, fails_on_missing: bool = False, ignores_errors: bool = False) -> Convert:
    """Return a converter to a type, of results of `parse` or of strings.

    Args:
        type_info: The type.
        fails_on_missing: Whether a missing field of a row is an error; else it is None.
        ignores_errors: Whether the smallest invalid part becomes None; else it is an error.

    Raises:
        JobGraphError: JSON doesn't support the type.
    """
    convert = _reader(type_info, fails_on_missing=fails_on_missing, ignores_errors=ignores_errors)
    if not ignores_errors:
        return lambda value: None if value is None else convert(value)

    def lax(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except PROBLEMS:
            return None

    return lax


def _reader(type_info: TypeInformation, *, fails_on_missing: bool, ignores_errors: bool) -> Convert:
    kind = type_info.kind
    if is_byte_array(type_info):
        return lambda value: base64.b64decode(_a(str, value), validate=True)
    strictness = {"fails_on_missing": fails_on_missing, "ignores_errors": ignores_errors}
    parts = [reader(part, **strictness) for part in type_info.elements]
    if kind is TypeKind.MAP:
        of_key, of_value = _key_reader(type_info), parts[1]
        return lambda value: {of_key(name): of_value(item) for name, item in _a(dict, value).items()}
    if kind is TypeKind.ROW:
        return _row_reader(type_info.row_names, parts, fails_on_missing=fails_on_missing)
    if kind is TypeKind.PRIMITIVE_ARRAY:
        return lambda value: [_some(parts[0](item)) for item in _a(list, value)]
    if kind in LISTS:
        return lambda value: [parts[0](item) for item in _a(list, value)]
    if kind is TypeKind.TUPLE:
        return lambda value: tuple(part(item) for part, item in zip(parts, _a(list, value), strict=True))
    return _simple(type_info)


def _row_reader(names: tuple[str, ...], parts: list[Convert], *, fails_on_missing: bool) -> Convert:
    pairs = list(zip(names, parts, strict=True))

    def convert(value: Any) -> Row:
        found = _a(dict, value)
        name, values = "", []
        try:
            for name, part in pairs:  # noqa: B007 - named below
                if fails_on_missing and name not in found:
                    message = "it is missing"
                    raise ValueError(message)  # noqa: TRY301
                values.append(part(found.get(name)))
        except PROBLEMS as error:
            message = f"field {name!r}: {error}"
            raise ValueError(message) from error
        return Row.of_fields(names, values)

    return convert


def _key_reader(type_info: TypeInformation) -> Convert:
    if type_info.elements[0].elements:
        message = f"The keys of {type_info.name} are no texts, as those of JSON's objects are."
        raise JobGraphError(message, hint="use a list of tuples, or leave the field out")
    return _simple(type_info.elements[0])


def _simple(type_info: TypeInformation) -> Convert:
    kind = type_info.kind
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    message = f"{type_info.name} is no type of JSON's."
    raise JobGraphError(message, hint="leave the field out, or convert it in map()")


def _a(kind: type, value: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, Number):
        raise _none_of(value, _WORDS[kind])
    return value


def _none_of(value: Any, what: str) -> ValueError:
    return ValueError(f"{to_text(value)[:SHOWN]} is no {what}")


def _some(value: Any) -> Any:
    if value is None:
        message = "an array of numbers has no place for null"
        raise ValueError(message)
    return value


def to_text(value: Any) -> str:
    """Format a result of `parse` as JSON without spaces; numbers stay as written."""
    if isinstance(value, Number):
        return str.__str__(value)
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        return f"{{{','.join(f'{encode_basestring(name)}:{to_text(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(to_text, value))}]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _string(value: Any) -> str:
    text = value if type(value) is str else to_text(value)
    if not text.isascii() and lone_surrogate(text) is not None:
        message = f"{text[:SHOWN]!r} has half of a surrogate pair, which UTF-8 has no bytes for"
        raise ValueError(message)
    return text


def _char(value: Any) -> str:
    text = _string(value)
    if len(text) != 1 or not isinstance(value, str):
        raise _none_of(value, "character")
    return text


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip(_BLANKS).lower() if isinstance(value, str) else None
    if text in ("true", "false"):
        return text == "true"
    raise _none_of(value, "BOOLEAN")


def _whole(value: Any) -> int:
    """Return an integer of any size, from a JSON integer or a string of digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = value.strip(_BLANKS)
        if _WHOLE.fullmatch(text):
            return int(text)
    raise _none_of(value, "whole number")


def _integer(kind: TypeKind) -> Convert:
    high = (1 << INTEGER_BITS[kind] - 1) - 1
    takes_point = kind in (TypeKind.INT, TypeKind.LONG)

    def convert(value: Any) -> int:
        if takes_point and isinstance(value, Number):  # 1e3 and 5.0, but not 5.5
            exact = Decimal(value)
            if exact and (exact.adjusted() > 18 or exact != exact.to_integral_value()):
                raise _none_of(value, kind.value)
            value = int(exact) if exact else 0
        number = _whole(value)
        if not -high - 1 <= number <= high:
            raise _none_of(value, kind.value)
        return number

    return convert


def _double(value: Any) -> float:
    if type(value) is Number:
        return float(value)
    if isinstance(value, str):
        text = value.strip(_BLANKS)
        if _DECIMAL.fullmatch(text):
            return float(text)
        if text in _NO_NUMBERS:
            return _NO_NUMBERS[text]
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    raise _none_of(value, "floating-point number")


def _big_dec(value: Any) -> Decimal:
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(text := value.strip(_BLANKS)):
        exact = Decimal(text)
        if abs(exact.adjusted()) <= _LAST_EXPONENT:
            return exact
    raise _none_of(value, "decimal number")


def _date(value: Any) -> datetime.date:
    if not _DATE.fullmatch(_a(str, value)):
        raise _none_of(value, "date such as 2026-01-31")
    return datetime.date.fromisoformat(value)


def _time(value: Any) -> datetime.time:
    match = _TIME.fullmatch(_a(str, value))
    if match is None or (match[3] or "Z") not in ("Z", "z", "+00:00"):
        raise _none_of(value, "time of day in UTC such as 23:59:59Z")
    return datetime.time.fromisoformat(match[1]).replace(microsecond=_micros(value, match[2]))


def _moment(value: Any) -> tuple[datetime.datetime, str | None]:
    """Return a time in UTC in whole seconds, and the digits of its fraction."""
    day, clock = _a(str, value)[:10], _TIME.fullmatch(value[11:])
    if value[10:11] not in ("T", " ") or clock is None or not _DATE.fullmatch(day):
        raise _none_of(value, "time such as 2026-01-31T23:59:59.123Z")
    zone = "+00:00" if clock[3] in (None, "Z", "z") else clock[3]
    return datetime.datetime.fromisoformat(f"{day}T{clock[1]}{zone}").astimezone(datetime.timezone.utc), clock[2]


def _micros(value: str, fraction: str | None) -> int:
    digits = (fraction or "").ljust(9, "0")
    if digits[6:] != "000":
        message = f"{value!r} has nanoseconds, SQL_TIME and SQL_TIMESTAMP have microseconds: declare INSTANT or STRING"
        raise ValueError(message)
    return int(digits[:6])


def _timestamp(value: Any) -> datetime.datetime:
    """Return a time in UTC, without a zone, as pystate's timestamps are."""
    moment, fraction = _moment(value)
    return moment.replace(microsecond=_micros(value, fraction), tzinfo=None)


def _instant(value: Any) -> Instant:
    if isinstance(value, (int, Number)) and not isinstance(value, bool):  # seconds, as Jackson reads them
        exact = Decimal(value)
        if abs(exact.adjusted()) > 18 or exact != round(exact, 9) or abs(exact) > _LAST_INSTANT:
            raise _none_of(value, "instant in seconds since 1970, with up to nine digits after the point")
        nanos = int(exact * 1_000_000_000)
        return Instant(nanos // 1_000_000_000, nanos % 1_000_000_000)
    moment, fraction = _moment(value)
    return Instant((moment - _EPOCH) // datetime.timedelta(seconds=1), int((fraction or "").ljust(9, "0")))


_SIMPLE: dict[TypeKind, Convert] = {
    TypeKind.STRING: _string,
    TypeKind.CHAR: _char,
    TypeKind.BOOLEAN: _boolean,
    **{kind: _integer(kind) for kind in INTEGER_BITS},
    TypeKind.BIG_INT: _whole,
    TypeKind.FLOAT: lambda value: float32(_double(value)),
    TypeKind.DOUBLE: _double,
    TypeKind.BIG_DEC: _big_dec,
    TypeKind.SQL_DATE: _date,
    TypeKind.SQL_TIME: _time,
    TypeKind.SQL_TIMESTAMP: _timestamp,
    TypeKind.INSTANT: _instant,
}
