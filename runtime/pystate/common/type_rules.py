"""The conversion rules for values of each type, shared by state, transport between tasks, keys, sinks and formats.

Callers recognize values of the exact type cheaply by themselves; all other values are converted here, if the type has an
equivalent value, or rejected. `docs/functions.md` has the rules as a table.
"""

from __future__ import annotations

import array
import datetime as dt
import math
import numbers
import struct
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from pystate.common.errors import RecordError
from pystate.common.row import Row, is_row
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind

Conform = Callable[[Any], Any]
"""Returns a value as its type has it; raises `WrongValueError` where it is none of the type."""

INTEGER_BITS: dict[TypeKind, int] = {TypeKind.BYTE: 8, TypeKind.SHORT: 16, TypeKind.INT: 32, TypeKind.LONG: 64}
INTEGER_RANGES = {kind: (-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in INTEGER_BITS.items()}
LISTS = frozenset({TypeKind.LIST, TypeKind.PRIMITIVE_ARRAY, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY})
_F32 = struct.Struct("<f")
_SHOWN = 200
"""Characters of a wrong value in an error: a large one would fill logs, and all messages that carry the error."""


class WrongValueError(RecordError, ValueError):
    """A value isn't of its type.

    Args:
        value: The value.
        type_name: The name of the type.
        why: What would be right, where that is known.
    """

    def __init__(self, value: Any, type_name: str, why: str | None = None) -> None:
        text = repr(value)
        shown = f"{text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'} ({type(value).__qualname__})"
        super().__init__(f"{shown} is not of type {type_name}" + (f": {why}" if why else "."), hint=_HINT)
        self.why = why


_HINT = "convert it, or declare the type that it has"


def is_byte_array(type_info: TypeInformation) -> bool:
    """Whether the type is that of `bytes`."""
    return type_info.kind is TypeKind.PRIMITIVE_ARRAY and type_info.elements[0].kind is TypeKind.BYTE


def conform_to(type_info: TypeInformation) -> Conform:
    """Return the rule of a type; it must not be called with None, which isn't a value of any type."""
    kind = type_info.kind
    if kind in SCALAR_RULES:
        return SCALAR_RULES[kind]
    if is_byte_array(type_info):
        return lambda value: as_bytes(value, type_info.name)
    parts = [conform_to(part) for part in type_info.elements]
    if kind in LISTS:
        return lambda value: _parts(items := as_list(value, type_info), parts * len(items), type_info)
    if kind is TypeKind.MAP:
        return lambda value: {parts[0](key): _part(parts[1], item) for key, item in as_dict(value, type_info).items()}
    if kind is TypeKind.TUPLE:
        return lambda value: tuple(_parts(as_tuple(value, type_info), parts, type_info))

    def conform_row(value: Any) -> Any:
        given = as_row(value, type_info)
        names = type_info.row_names
        row = Row.of_fields(names, _parts(given.values_as(names), parts, type_info))
        row.set_row_kind(given.get_row_kind())
        return row

    return conform_row


def _part(conform: Conform, value: Any) -> Any:
    return None if value is None else conform(value)


def _parts(values: Any, parts: list[Conform], type_info: TypeInformation) -> list[Any]:
    if type_info.kind is TypeKind.PRIMITIVE_ARRAY and any(value is None for value in values):
        raise WrongValueError(list(values), type_info.name, "it has no place for None; OBJECT_ARRAY and LIST have")
    return [_part(part, value) for part, value in zip(parts, values, strict=True)]


def as_list(value: Any, type_info: TypeInformation) -> list[Any]:
    """Convert a list, a tuple or an array to a list; elements are unchanged."""
    if isinstance(value, (list, tuple, array.array)):
        return list(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.ndim == 1:
        return list(value.tolist())
    raise WrongValueError(value, type_info.name, "give it a list")


def as_dict(value: Any, type_info: TypeInformation) -> dict[Any, Any]:
    """Convert a mapping to a dict; entries are unchanged."""
    if isinstance(value, Mapping):
        return dict(value)
    raise WrongValueError(value, type_info.name, "give it a dict")


def as_tuple(value: Any, type_info: TypeInformation) -> tuple[Any, ...]:
    """Convert a tuple or list of the type's length to a tuple; its parts are unchanged."""
    if not isinstance(value, (tuple, list)):
        raise WrongValueError(value, type_info.name)
    if len(value) != len(type_info.elements):
        raise WrongValueError(value, type_info.name, f"give it {len(type_info.elements)} parts; it has {len(value)}")
    return tuple(value)


def as_row(value: Any, type_info: TypeInformation) -> Row:
    """Convert a row, a user's subclass of it, a tuple or a list to a row of all fields."""
    if isinstance(value, Row) and len(value) == len(type_info.elements):
        try:
            value.values_as(type_info.row_names)
        except ValueError as error:
            raise WrongValueError(value, type_info.name, str(error)) from error
        if is_row(value):
            return value
        row = Row.of_fields(value.field_names(), value.values_list())
        row.set_row_kind(value.get_row_kind())
        return row
    if isinstance(value, (tuple, list)) and len(value) == len(type_info.elements):
        return Row.of_fields(type_info.row_names, list(value))
    raise WrongValueError(value, type_info.name)


def as_bytes(value: Any, type_name: str) -> bytes:
    """Convert a bytes-like object to bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise WrongValueError(value, type_name)


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to a Python value; others are unchanged."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _string(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    raise WrongValueError(value, "STRING")


def _char(value: Any) -> str:
    if isinstance(value, str) and len(value) == 1:
        return str.__str__(value)
    raise WrongValueError(value, "CHAR", "it is one character")


def _boolean(value: Any) -> bool:
    plain = _plain(value)
    if isinstance(plain, bool):
        return plain
    raise WrongValueError(value, "BOOLEAN")


def _big_int(value: Any, name: str = "BIG_INT") -> int:
    plain = _plain(value)
    if isinstance(plain, numbers.Integral) and not isinstance(plain, bool):
        return int(plain)
    raise WrongValueError(value, name)


def _integer(kind: TypeKind) -> Conform:
    low, high = INTEGER_RANGES[kind]

    def conform(value: Any) -> int:
        number = _big_int(value, kind.value)
        if -high - 1 <= number <= high:
            return number
        raise WrongValueError(value, kind.value, f"{kind.value} goes from {-high - 1} to {high}; use a wider type")

    return conform


def _double(value: Any, name: str = "DOUBLE") -> float:
    plain = _plain(value)
    if isinstance(plain, (float, numbers.Integral)) and not isinstance(plain, bool):
        try:
            return float(plain)
        except OverflowError:
            raise WrongValueError(value, name, "it is beyond the range of floating-point numbers") from None
    raise WrongValueError(value, name)


def _float(value: Any) -> float:
    number = _double(value, "FLOAT")
    try:
        rounded: float = _F32.unpack(_F32.pack(number))[0]
    except OverflowError:
        raise WrongValueError(value, "FLOAT", "FLOAT has 32 bits; use DOUBLE") from None
    return rounded


def _big_dec(value: Any) -> Decimal:
    plain = _plain(value)
    if isinstance(plain, Decimal) and plain.is_finite():
        return Decimal(plain)
    if isinstance(plain, numbers.Integral) and not isinstance(plain, bool):
        return Decimal(int(plain))
    hint = "make it decimal.Decimal(str(value))" if isinstance(plain, float) and math.isfinite(plain) else None
    raise WrongValueError(value, "BIG_DEC", hint)


def _date(value: Any) -> dt.date:
    plain = _plain(value)
    if isinstance(plain, dt.date) and not isinstance(plain, dt.datetime):
        return dt.date(plain.year, plain.month, plain.day)
    raise WrongValueError(value, "SQL_DATE", "take its date()" if isinstance(plain, dt.datetime) else None)


def _time(value: Any) -> dt.time:
    if isinstance(value, dt.time) and value.tzinfo is None:
        return dt.time(value.hour, value.minute, value.second, value.microsecond)
    raise WrongValueError(value, "SQL_TIME", "SQL_TIME is a time without a time zone")


def _timestamp(value: Any) -> dt.datetime:
    """Convert a datetime with a zone to UTC, as Spark does."""
    plain = _plain(value)
    if not isinstance(plain, dt.datetime):
        raise WrongValueError(value, "SQL_TIMESTAMP", "it is a datetime")
    if getattr(plain, "nanosecond", 0):  # of pandas
        raise WrongValueError(value, "SQL_TIMESTAMP", "it has microseconds; INSTANT has nanoseconds")
    try:
        at = plain if plain.tzinfo is None else plain.astimezone(dt.timezone.utc)
        return dt.datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond)  # noqa: DTZ001
    except (TypeError, ValueError, OverflowError):  # NaT; a moment before year 1 or after 9999
        raise WrongValueError(value, "SQL_TIMESTAMP", "it is a datetime of the years 1 to 9999 in UTC") from None


def _instant(value: Any) -> Instant:
    if isinstance(value, Instant):
        return value
    raise WrongValueError(value, "INSTANT")


SCALAR_RULES: dict[TypeKind, Conform] = {
    TypeKind.STRING: _string,
    TypeKind.CHAR: _char,
    TypeKind.BOOLEAN: _boolean,
    **{kind: _integer(kind) for kind in INTEGER_BITS},
    TypeKind.BIG_INT: _big_int,
    TypeKind.FLOAT: _float,
    TypeKind.DOUBLE: _double,
    TypeKind.BIG_DEC: _big_dec,
    TypeKind.SQL_DATE: _date,
    TypeKind.SQL_TIME: _time,
    TypeKind.SQL_TIMESTAMP: _timestamp,
    TypeKind.INSTANT: _instant,
    TypeKind.PICKLED_BYTE_ARRAY: lambda value: value,
}
"""The rules of types without parts."""
