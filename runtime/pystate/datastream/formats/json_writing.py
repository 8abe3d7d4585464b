"""Converts values of types to JSON, like Flink's row formats; values of other types are rejected."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.text.float32 import float32
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import (
    INTEGER_BITS,
    LISTS,
    SCALAR_RULES,
    as_bytes,
    as_dict,
    as_list,
    as_row,
    as_tuple,
    is_byte_array,
)

Write = Callable[[Any], str]

_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - of times without a zone, which are in UTC


def writer(type_info: TypeInformation) -> Write:
    """Return a converter of values of a type, or None, to JSON.

    It raises ValueError for values of other types.

    Raises:
        JobGraphError: JSON doesn't support the type.
    """
    write = _writer(type_info)
    return lambda value: "null" if value is None else write(value)


def _writer(type_info: TypeInformation) -> Write:
    kind = type_info.kind
    if kind in INTEGER_BITS or kind in _SIMPLE:
        return scalar_writer(kind)
    if is_byte_array(type_info):
        return lambda value: f'"{base64.b64encode(as_bytes(value, type_info.name)).decode()}"'
    if kind is TypeKind.PICKLED_BYTE_ARRAY:
        message = f"{type_info.name} is no type of JSON's."
        raise JobGraphError(message, hint="leave the field out, or serialize in map()")
    parts = [writer(part) for part in type_info.elements]
    if kind in LISTS:
        return lambda value: f"[{','.join(map(parts[0], as_list(value, type_info)))}]"
    if kind is TypeKind.TUPLE:
        return lambda value: f"[{','.join(part(item) for part, item in zip(parts, as_tuple(value, type_info)))}]"  # noqa: B905 - as_tuple has looked
    if kind is TypeKind.MAP:
        write_key = _writer(type_info.elements[0])  # None can't be a key

        def write_map(value: Any) -> str:
            entries = as_dict(value, type_info).items()
            return f"{{{','.join([f'{_key(write_key(key))}:{parts[1](item)}' for key, item in entries])}}}"

        return write_map
    names = type_info.row_names
    fields = [(f"{encode_basestring(name)}:", part) for name, part in zip(names, parts, strict=True)]

    def write(value: Any) -> str:
        values = as_row(value, type_info).values_as(names)
        return f"{{{','.join([name + part(item) for (name, part), item in zip(fields, values, strict=True)])}}}"

    return write


def _key(text: str) -> str:
    return text if text.startswith('"') else encode_basestring(text)


def scalar_writer(kind: TypeKind) -> Write:
    """Return a converter of values of a scalar type to JSON; see `writer`."""
    rule = SCALAR_RULES[kind]
    if kind in INTEGER_BITS:
        high = (1 << INTEGER_BITS[kind] - 1) - 1

        def write_integer(value: Any) -> str:
            return repr(value if type(value) is int and -high - 1 <= value <= high else rule(value))

        return write_integer
    write = _SIMPLE[kind]
    exact = {TypeKind.STRING: str, TypeKind.DOUBLE: float, TypeKind.BOOLEAN: bool}.get(kind)
    return lambda value: write(value if type(value) is exact else rule(value))


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _float(value: float) -> str:
    """Return the shortest decimal text of a 32-bit float."""
    short = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    return _double(next((number for number in short if float32(number) == value), value))


def instant_text(instant: Instant, separator: str = "T") -> str:
    """Return an instant in ISO 8601, with nanoseconds."""
    whole = (_EPOCH + datetime.timedelta(seconds=instant.seconds)).isoformat(separator)
    return f"{whole}{f'.{instant.nanos:09d}'.rstrip('0') if instant.nanos else ''}Z"


_SIMPLE: dict[TypeKind, Write] = {
    TypeKind.STRING: encode_basestring,
    TypeKind.CHAR: encode_basestring,
    TypeKind.BOOLEAN: lambda value: "true" if value else "false",
    TypeKind.FLOAT: _float,
    TypeKind.DOUBLE: _double,
    TypeKind.BIG_INT: str,
    TypeKind.BIG_DEC: str,
    TypeKind.SQL_DATE: lambda date: f'"{date.isoformat()}"',
    TypeKind.SQL_TIME: lambda time: f'"{time.isoformat()}Z"',
    TypeKind.SQL_TIMESTAMP: lambda at: f'"{at.isoformat()}Z"',
    TypeKind.INSTANT: lambda instant: f'"{instant_text(instant)}"',
}
