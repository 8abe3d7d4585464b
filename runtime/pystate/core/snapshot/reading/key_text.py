"""Parsing of keys from text."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pystate.common.errors import StateError, UsageError
from pystate.common.files.foreign_json import parse_json
from pystate.common.row import Row
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.core.state.keys.keys import KeyCodec, key_type_name

_TRUTH = {"true": True, "false": False}


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


def _hex(text: str) -> bytes:
    if not text.lower().startswith("0x"):
        raise ValueError(text)
    return bytes.fromhex(text[2:])


def _number(parse: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    """Return a number parser that rejects underscores."""

    def parsed(text: str) -> Any:
        if "_" in text:
            raise ValueError(text)
        return parse(text)

    return _written_as(what, parsed)


def _written_as(what: str, parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser whose errors describe the expected notation."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, ArithmeticError, LookupError):
            message = f"that is written as {what}"
            raise ValueError(message) from None

    return parsed


_WHOLE = _number(int, "a whole number")
_FLOATING = _number(float, "a number")

_SCALARS: dict[TypeKind, Callable[[str], Any]] = {
    TypeKind.STRING: str,
    TypeKind.CHAR: str,
    TypeKind.BOOLEAN: _written_as("true or false", _truth),
    TypeKind.BYTE: _WHOLE,
    TypeKind.SHORT: _WHOLE,
    TypeKind.INT: _WHOLE,
    TypeKind.LONG: _WHOLE,
    TypeKind.BIG_INT: _WHOLE,
    TypeKind.FLOAT: _FLOATING,
    TypeKind.DOUBLE: _FLOATING,
    TypeKind.BIG_DEC: _number(Decimal, "a decimal number"),
    TypeKind.SQL_DATE: _written_as("YYYY-MM-DD", dt.date.fromisoformat),
    TypeKind.SQL_TIME: _written_as("HH:MM:SS", dt.time.fromisoformat),
    TypeKind.SQL_TIMESTAMP: _written_as("YYYY-MM-DDTHH:MM:SS", dt.datetime.fromisoformat),
}
_BYTES = _written_as("0x and hex digits", _hex)


def parse_key(text: str, key_type: TypeInformation | None) -> Any:
    """Return the key for a text.

    Args:
        text: As the key's type has it: a string as it is, a number, `true`, a date as YYYY-MM-DD, bytes as 0x and hex
            digits, a tuple, list or row as JSON. For untyped keys a JSON value (a list is then a tuple, like most keys in
            programs), or a string if it isn't JSON.
        key_type: The type of the keys, None for untyped.

    Raises:
        UsageError: It isn't a valid key.
    """
    return _checked(text, key_type, lambda: _untyped(text) if key_type is None else _typed(text, key_type))


def _checked(given: Any, key_type: TypeInformation | None, key_of: Callable[[], Any]) -> Any:
    try:
        key = key_of()
        KeyCodec(key_type).internal(key)
    except (ValueError, ArithmeticError, LookupError, TypeError, StateError) as error:
        why = error.message if isinstance(error, StateError) else str(error)
        message = f"{given!r} is no key of type {key_type_name(key_type)}: {why}"
        raise UsageError(message) from error
    return key


def json_key(value: Any, key_type: TypeInformation | None) -> Any:
    """Return the key for a JSON value: as in `parse_key`, with texts for types that JSON doesn't have.

    Raises:
        UsageError: It isn't a valid key.
    """
    return _checked(value, key_type, lambda: _tuples(value) if key_type is None else _from_json(value, key_type))


def _untyped(text: str) -> Any:
    try:
        return _tuples(parse_json(text))
    except ValueError:
        return text


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _typed(text: str, key_type: TypeInformation) -> Any:
    scalar = _SCALARS.get(key_type.kind)
    if scalar is not None:
        return scalar(text)
    if _is_bytes(key_type):
        return _BYTES(text)
    return _from_json(_written_as("JSON", parse_json)(text), key_type)


def _is_bytes(key_type: TypeInformation) -> bool:
    return key_type.kind is TypeKind.PRIMITIVE_ARRAY and key_type.elements[0].kind is TypeKind.BYTE


def _from_json(value: Any, key_type: TypeInformation) -> Any:
    if value is None:
        return None
    if key_type.kind in _SCALARS or _is_bytes(key_type):
        return _typed(value, key_type) if isinstance(value, str) else value
    if key_type.kind is TypeKind.ROW and isinstance(value, dict):
        names = key_type.get_field_names()
        if value.keys() != set(names):
            message = f"its fields are {', '.join(names)}"
            raise ValueError(message)
        value = [value[name] for name in names]
    if not isinstance(value, list):
        message = "that is written as a list of JSON"
        raise ValueError(message)
    if key_type.kind in (TypeKind.ROW, TypeKind.TUPLE) and len(value) != len(key_type.elements):
        message = f"it has {len(key_type.elements)} fields, not {len(value)}"
        raise ValueError(message)
    if key_type.kind is TypeKind.ROW:
        parts = [_from_json(item, part) for item, part in zip(value, key_type.elements, strict=True)]
        return Row.of_fields(key_type.names, parts)
    if key_type.kind is TypeKind.TUPLE:
        return tuple(_from_json(item, part) for item, part in zip(value, key_type.elements, strict=True))
    return [_from_json(item, key_type.elements[0]) for item in value]
