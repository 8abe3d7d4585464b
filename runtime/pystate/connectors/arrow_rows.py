"""Elements as rows of Arrow and back, with the types that Parquet files and tables have for those of a stream."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row, RowKind, rows_of
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import SCALAR_RULES, is_byte_array
from pystate.core.records.codec import shown

_INSTANT = pa.timestamp("us", tz="UTC")
_NO_ZONE = pa.timestamp("us")
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of timestamps without a zone
_MICROSECOND = dt.timedelta(microseconds=1)
_PLAIN = {
    TypeKind.STRING: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.BYTE: pa.int8(),
    TypeKind.SHORT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.LONG: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.BIG_DEC: pa.decimal128(38, 18),
    TypeKind.SQL_DATE: pa.date32(),
    TypeKind.SQL_TIME: pa.time64("us"),
}
_LARGEST_FLOAT = (2 - 2**-24) * 2.0**127
"""Half a step above the largest number of 32 bits: from here on it would be infinite."""
_LAST_DIGIT, _DIGITS = Decimal("1e-18"), Context(prec=38)
_LISTS = (TypeKind.LIST, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY, TypeKind.PRIMITIVE_ARRAY)

Convert = Callable[[Any], Any]


class ArrowRows:
    """Makes batches of Arrow of rows, and rows of batches.

    Args:
        row_type: A named ROW: the columns.
        what: What they are written to, for messages: "a Parquet file".

    Attributes:
        schema: Of the batches.

    Raises:
        JobGraphError: It isn't a named ROW, or has a type that Parquet doesn't support.
    """

    def __init__(self, row_type: TypeInformation, what: str = "a Parquet file") -> None:
        if not isinstance(row_type, TypeInformation) or row_type.kind is not TypeKind.ROW or row_type.names is None:
            message = f"The rows of {what} are a named ROW, not {getattr(row_type, 'name', row_type)}."
            raise JobGraphError(message, hint="declare them with Types.ROW_NAMED([...], [...])")
        self.row_type = row_type
        self._what = what
        self._names = row_type.row_names
        self._nothing = (None,) * len(row_type.elements)
        self._columns = [_column(part) for part in row_type.elements]
        arrow_type, _ = _column(row_type)
        self.schema = pa.schema(list(arrow_type))
        self._back = [None if part.kind is TypeKind.SQL_TIMESTAMP else _from_column(part) for part in row_type.elements]

    def values(self, element: Any) -> Sequence[Any]:
        """Return the values of an element, in the order of the columns.

        Raises:
            RecordError: It isn't a row with these fields.
        """
        return _values(element, self._names, self.row_type) or self._nothing

    def batch(self, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
        """Return a batch of such values, of at least one row.

        Raises:
            RecordError: One has another type.
        """
        try:
            columns = [
                pa.array(values if convert is _as_it_is else list(map(convert, values)), arrow_type)
                for (arrow_type, convert), values in zip(self._columns, zip(*rows, strict=True), strict=True)
            ]
            return pa.RecordBatch.from_arrays(columns, schema=self.schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ArithmeticError, TypeError, ValueError) as error:
            message = f"A row is no {self.row_type.name}: {error}"
            raise RecordError(message, hint=f"declare the right row_type for {self._what}") from error

    def elements(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the rows of a batch with the columns of `schema`; decimals may be of any scale."""
        columns = [
            _without_zone(column).to_pylist() if convert is None else list(map(convert, _without_zone(column).to_pylist()))
            for column, convert in zip(batch.columns, self._back, strict=True)
        ]
        return rows_of(self._names, columns)


def _column(type_info: TypeInformation) -> tuple[pa.DataType, Convert]:
    """Return Arrow's type, and what makes a value one that Arrow takes.

    Raises:
        JobGraphError: Parquet doesn't support the type.
    """
    kind = type_info.kind
    if kind is TypeKind.BIG_DEC:
        return _PLAIN[kind], lambda value: None if value is None else Decimal(value).quantize(_LAST_DIGIT, context=_DIGITS)
    if kind in (TypeKind.FLOAT, TypeKind.SQL_DATE):  # of which Arrow changes wrong values in silence
        return _PLAIN[kind], _float if kind is TypeKind.FLOAT else _date
    if kind in _PLAIN:
        return _PLAIN[kind], _as_it_is
    if is_byte_array(type_info):
        return pa.binary(), lambda value: None if value is None else bytes(value)
    if kind is TypeKind.SQL_TIMESTAMP:
        return _INSTANT, _timestamp
    if kind is TypeKind.INSTANT:
        return _INSTANT, _moment
    if kind is TypeKind.MAP:
        (key, to_key), (item, to_item) = (_column(part) for part in type_info.elements)
        return pa.map_(
            key, item
        ), lambda value: None if value is None else [(to_key(name), to_item(of)) for name, of in value.items()]
    if kind in (TypeKind.ROW, TypeKind.TUPLE):
        return _struct(type_info)
    if kind in _LISTS:
        part, convert = _column(type_info.elements[0])
        return pa.list_(part), lambda value: None if value is None else [convert(one) for one in value]
    message = f"A Parquet file has no {type_info.name}."
    raise JobGraphError(message, hint="map() the elements to rows of texts, numbers, times, lists and maps")


def _struct(type_info: TypeInformation) -> tuple[pa.DataType, Convert]:
    names = type_info.get_field_names()
    parts = [_column(part) for part in type_info.elements]
    arrow_type = pa.struct([pa.field(name, part) for name, (part, _) in zip(names, parts, strict=True)])
    fields = type_info.row_names

    def convert(value: Any) -> Any:
        if isinstance(value, Row) and value.get_row_kind() is not RowKind.INSERT:
            message = (
                f"A row within a row has no place for its kind here: {value!r} would turn from {value.get_row_kind()} to +I."
            )
            raise RecordError(message, hint="set_row_kind(RowKind.INSERT), or keep the kind in a field of its own")
        values = _values(value, fields, type_info)
        if values is None:
            return None
        return {name: to_arrow(one) for name, (_, to_arrow), one in zip(names, parts, values, strict=True)}

    return arrow_type, convert


def _from_column(type_info: TypeInformation) -> Convert | None:
    """Return what makes a value of a column, as Arrow gives it, one of the type; None where it is one."""
    kind = type_info.kind
    if kind is TypeKind.INSTANT:
        return _none_safe(lambda at: Instant((micros := _micros(at)) // 1_000_000, micros % 1_000_000 * 1000))
    if kind is TypeKind.SQL_TIMESTAMP:
        return _none_safe(lambda at: at.replace(tzinfo=None))
    if kind in (TypeKind.ROW, TypeKind.TUPLE):
        return _from_struct(type_info)
    if kind is TypeKind.MAP:
        key, item = (_from_column(part) or _as_it_is for part in type_info.elements)
        return _none_safe(lambda pairs: {key(name): item(value) for name, value in pairs})
    if kind in _LISTS and not is_byte_array(type_info) and (part := _from_column(type_info.elements[0])) is not None:
        return _none_safe(lambda values: list(map(part, values)))
    return None


def _from_struct(type_info: TypeInformation) -> Convert:
    names, parts = type_info.get_field_names(), [_from_column(part) or _as_it_is for part in type_info.elements]
    fields, is_tuple = type_info.row_names, type_info.kind is TypeKind.TUPLE

    def convert(struct: Any) -> Any:
        values = [part(struct[name]) for name, part in zip(names, parts, strict=True)]
        return tuple(values) if is_tuple else Row.of_fields(fields, values)

    return _none_safe(convert)


def _none_safe(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _micros(at: dt.datetime) -> int:
    return (at.replace(tzinfo=None) - _EPOCH) // _MICROSECOND


def _without_zone(column: pa.Array) -> pa.Array:
    """Return a column of timestamps without their zone, which is UTC, and any other as it is: so to_pylist() is faster."""
    return column.cast(_NO_ZONE) if column.type == _INSTANT else column


def _values(value: Any, names: Any, type_info: TypeInformation) -> Sequence[Any] | None:
    """Return the fields of a row or tuple; None for None.

    Raises:
        RecordError: It isn't a row with these fields.
    """
    if value is None:
        return None
    values = value.values_as(names) if isinstance(value, Row) else value
    if not isinstance(values, (tuple, list)) or len(values) != len(type_info.elements):
        message = f"{shown(value)} is no {type_info.name}."
        raise RecordError(message, hint="return a Row or a tuple of all fields")
    return values


def _as_it_is(value: Any) -> Any:
    return value


def _timestamp(value: Any) -> Any:
    """Return a datetime without a zone, which Arrow, too, takes for one of UTC: the machine's zone is no part of it."""
    is_right = value is None or (type(value) is dt.datetime and value.tzinfo is None)
    return value if is_right else SCALAR_RULES[TypeKind.SQL_TIMESTAMP](value)


def _float(value: Any) -> Any:
    """Return a number that 32 bits have: Arrow makes a larger one infinite."""
    is_right = value is None or (type(value) is float and -_LARGEST_FLOAT < value < _LARGEST_FLOAT)
    return value if is_right else SCALAR_RULES[TypeKind.FLOAT](value)


def _date(value: Any) -> Any:
    """Return a date: of a datetime Arrow leaves out the time."""
    return value if value is None or type(value) is dt.date else SCALAR_RULES[TypeKind.SQL_DATE](value)


def _moment(value: Instant | None) -> int | None:
    return None if value is None else value.seconds * 1_000_000 + value.nanos // 1000
