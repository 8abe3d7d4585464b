"""Writes rows to Parquet files, by Arrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.row import Row
from pystate.common.serialization import BulkWriter, BulkWriterFactory
from pystate.common.time import Instant
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import SCALAR_RULES, is_byte_array
from pystate.core.records.codec import shown

_ROWS_AT_ONCE = 4096
_ROW_GROUP_BYTES = 32 << 20
_INSTANT = pa.timestamp("us", tz="UTC")
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
_LISTS = (TypeKind.LIST, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY, TypeKind.PRIMITIVE_ARRAY)

Convert = Callable[[Any], Any]


class ParquetWriterFactory(BulkWriterFactory):
    """Makes writers of Parquet files.

    Args:
        row_type: A named ROW: the columns.

    Raises:
        JobGraphError: It isn't one, or has a type that Parquet doesn't support.
    """

    def __init__(self, row_type: TypeInformation) -> None:
        if not isinstance(row_type, TypeInformation) or row_type.kind is not TypeKind.ROW or row_type.names is None:
            message = f"The rows of a Parquet file are a named ROW, not {getattr(row_type, 'name', row_type)}."
            raise JobGraphError(message, hint="declare them with Types.ROW_NAMED([...], [...])")
        self.row_type = row_type
        _column(row_type)

    def create(self, stream: IO[bytes]) -> BulkWriter:
        """Return the writer of one file."""
        return _ParquetWriter(stream, self)


class _ParquetWriter(BulkWriter):
    def __init__(self, stream: IO[bytes], factory: ParquetWriterFactory) -> None:
        self._row_type = row_type = factory.row_type
        self._names = row_type.row_names
        self._nothing = (None,) * len(row_type.elements)
        self._columns = [_column(part) for part in row_type.elements]
        arrow_type, _ = _column(row_type)
        self._schema = pa.schema(list(arrow_type))
        self._rows: list[Sequence[Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._sink = pa.PythonFile(stream, mode="w")
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="snappy")

    def add_element(self, element: Any) -> None:
        """Add a row."""
        self._rows.append(_values(element, self._names, self._row_type) or self._nothing)
        if len(self._rows) >= _ROWS_AT_ONCE:
            self._to_arrow()

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        self._to_arrow()
        batches, self._batches, self._bytes = self._batches, [], 0
        if batches:
            self._writer.write_table(pa.Table.from_batches(batches))

    def finish(self) -> None:
        """Write the footer."""
        self._writer.close()
        self._sink.flush()

    def _to_arrow(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        try:
            columns = [
                pa.array(values if convert is _as_it_is else list(map(convert, values)), arrow_type)
                for (arrow_type, convert), values in zip(self._columns, zip(*rows, strict=True), strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
            message = f"A row is no {self._row_type.name}: {error}"
            raise RecordError(message, hint="declare the right row_type for the Parquet files") from error
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _ROW_GROUP_BYTES:
            self.flush()


def _column(type_info: TypeInformation) -> tuple[pa.DataType, Convert]:
    """Return Arrow's type, and what makes a value one that Arrow takes.

    Raises:
        JobGraphError: Parquet doesn't support the type.
    """
    kind = type_info.kind
    if kind is TypeKind.BIG_DEC:
        return _PLAIN[kind], lambda value: None if value is None else Decimal(value).quantize(Decimal("1e-18"))
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
        values = _values(value, fields, type_info)
        if values is None:
            return None
        return {name: to_arrow(one) for name, (_, to_arrow), one in zip(names, parts, values, strict=True)}

    return arrow_type, convert


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


def _moment(value: Instant | None) -> int | None:
    return None if value is None else value.seconds * 1_000_000 + value.nanos // 1000
