"""The text of elements in `print()`, in Flink's form.

Flink's sink runs in the JVM, so an element of a declared type is printed as a Java object: `true`, `1.0E10`, `(2,null)`. In
that conversion a number is truncated to fit an integer type, and values of other types fail. Rows and untyped elements are
converted to text by Python.

Facts are those of PyFlink 2.3.0 on Java 17.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from pystate.common.errors import RecordError
from pystate.common.row import Row
from pystate.common.text.float32 import float32, shortest_digits
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import INTEGER_BITS, is_byte_array
from pystate.core.records.codec import shown

Show = Callable[[Any], str]

NULL = "null"

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - an instant is shown as UTC

_REFUSALS = (AttributeError, TypeError, ValueError, OverflowError, ArithmeticError)


def line_of(type_info: TypeInformation | None, where: str) -> Show:
    """Return the function that converts an element of a type to the text of `print()`.

    The returned function raises RecordError where the element isn't of the type.

    Args:
        type_info: The type; None for untyped elements.
        where: The stream's name, for errors.
    """
    if type_info is not None and type_info.kind is TypeKind.ROW:
        return _checked(_row_line, type_info, where)
    return text_of(type_info, where)


def text_of(type_info: TypeInformation | None, where: str) -> Show:
    """Return the function that converts an element, also a row, to the text of its Java object; Python's for untyped.

    The returned function raises RecordError where the element isn't of the type.

    Args:
        type_info: The type; None for untyped elements.
        where: The stream's name, for errors.
    """
    if type_info is None or type_info.kind is TypeKind.PICKLED_BYTE_ARRAY:
        return str
    return _checked(_shower(type_info), type_info, where)


def _checked(show: Show, type_info: TypeInformation, where: str) -> Show:
    def line(element: Any) -> str:
        if element is None:
            return NULL
        try:
            return show(element)
        except _REFUSALS as error:
            message = f"{shown(element)} is no {type_info.name}: {error}"
            raise RecordError(message, where=where, hint="declare the right output_type, or leave it out") from error

    return line


def java_double(value: float) -> str:
    """Return Java's `Double.toString`."""
    return _java_number(value, _double_digits)


def java_float(value: float) -> str:
    """Return Java's `Float.toString` of a 32-bit number."""
    return _java_number(value, shortest_digits)


def _java_number(value: float, digits_of: Callable[[float], tuple[str, int]]) -> str:
    if value != value:
        return "NaN"
    sign = "-" if str(value).startswith("-") else ""
    if value in (float("inf"), float("-inf")):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = digits_of(abs(value))
    if len(digits) == 1:  # Java takes the closest number of two digits
        digits = f"{abs(value):.1e}".partition("e")[0].replace(".", "").rstrip("0") or digits
    if not 1e-3 <= abs(value) < 1e7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{sign}{whole}.{digits[exponent + 1 :] or '0'}"


def _double_digits(value: float) -> tuple[str, int]:
    number = Decimal(repr(value))
    return "".join(map(str, number.as_tuple().digits)).strip("0"), number.adjusted()


def _row_line(element: Any) -> str:
    if isinstance(element, Row):
        return f"{element.get_row_kind()}[{','.join(map(str, element.values_list()))}]"
    if isinstance(element, (tuple, list)):
        return f"+I[{','.join(map(str, element))}]"
    message = "return a Row"
    raise TypeError(message)


def _shower(type_info: TypeInformation) -> Show:
    """Return the function that converts a value of a type to the text of its Java object; its parts may be None."""
    kind = type_info.kind
    if kind in INTEGER_BITS:
        return _integer(INTEGER_BITS[kind])
    if is_byte_array(type_info):
        return lambda value: f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in bytes(value))}]"
    if kind in _SCALARS:
        return _SCALARS[kind]
    parts = [_nullable(_shower(part)) for part in type_info.elements]
    if kind is TypeKind.TUPLE:
        return lambda value: f"({','.join(_fields(parts, value))})"
    if kind is TypeKind.ROW:
        return lambda value: f"{_kind_of(value)}[{', '.join(_fields(parts, value))}]"
    if kind is TypeKind.MAP:
        return lambda value: f"{{{', '.join(f'{parts[0](key)}={parts[1](item)}' for key, item in _items(value))}}}"
    return lambda value: f"[{', '.join(map(parts[0], _list(value)))}]"


def _nullable(show: Show) -> Show:
    return lambda value: NULL if value is None else show(value)


def _fields(parts: list[Show], value: Any) -> Iterable[str]:
    values = value.values_list() if isinstance(value, Row) else _list(value)
    if len(values) != len(parts):
        message = f"it has {len(values)} fields"
        raise ValueError(message)
    return [show(item) for show, item in zip(parts, values, strict=True)]


def _kind_of(value: Any) -> str:
    return str(value.get_row_kind()) if isinstance(value, Row) else "+I"


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        return value
    message = f"a {type(value).__name__} is no list"
    raise TypeError(message)


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    message = f"a {type(value).__name__} is no dict"
    raise TypeError(message)


def _integer(bits: int) -> Show:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def show(value: Any) -> str:
        number = value if type(value) is int else _whole(value)
        if not low <= number <= high:
            message = f"it goes from {low} to {high}"
            raise OverflowError(message)
        return str(number)

    return show


def _whole(value: Any) -> int:
    """Return a number without its fraction; text isn't accepted."""
    if hasattr(value, "__int__"):
        return int(value)
    message = "an integer is required"
    raise TypeError(message)


def _number(value: Any) -> float:
    if hasattr(value, "__float__") or hasattr(value, "__index__"):
        return float(value)
    message = "a number is required"
    raise TypeError(message)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    message = "a str is required"
    raise TypeError(message)


def _char(value: Any) -> str:
    if isinstance(value, str) and len(value) == 1:
        return value
    message = "a str of one character is required"
    raise TypeError(message)


def _decimal(value: Any) -> str:
    return str(value if isinstance(value, Decimal) else Decimal(str(value)))


def _date(value: Any) -> str:
    return dt.date.fromordinal(value.toordinal()).isoformat()


def _time(value: Any) -> str:
    return dt.time(value.hour, value.minute, value.second).isoformat()


def _timestamp(value: Any) -> str:
    day = _date(value)
    return f"{day} {_time(value)}.{f'{value.microsecond:06d}'.rstrip('0') or '0'}"


def _instant(value: Any) -> str:
    if not isinstance(value, Instant):
        message = "an Instant is required"
        raise TypeError(message)
    fraction = f"{value.nanos:09d}"
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    seconds = (_EPOCH + dt.timedelta(seconds=value.seconds)).isoformat()
    return f"{seconds}{'.' if fraction else ''}{fraction}Z"


_SCALARS: dict[TypeKind, Show] = {
    TypeKind.STRING: _text,
    TypeKind.CHAR: _char,
    TypeKind.BOOLEAN: lambda value: "true" if _whole(value) else "false",
    TypeKind.FLOAT: lambda value: java_float(float32(_number(value))),
    TypeKind.DOUBLE: lambda value: java_double(_number(value)),
    TypeKind.BIG_INT: lambda value: str(_whole(value)),
    TypeKind.BIG_DEC: _decimal,
    TypeKind.SQL_DATE: _date,
    TypeKind.SQL_TIME: _time,
    TypeKind.SQL_TIMESTAMP: _timestamp,
    TypeKind.INSTANT: _instant,
    TypeKind.PICKLED_BYTE_ARRAY: str,
}
