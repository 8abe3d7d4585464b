"""The columns of the DataFrame of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pystate.common.errors import SnapshotError
from pystate.common.text.json_text import json_text
from pystate.common.type_info import TypeInformation
from pystate.core.api.state import StateKind
from pystate.core.records.codec import column_converter
from pystate.core.snapshot.reading.state_rows import RowDecoder, StateRow
from pystate.core.state.keys.namespaces import KeyNamespaceSerializer, NamespaceSerializer, split_namespace

KEY = "key"
KEY_GROUP = "key_group"
VALUE = "value"
NAMESPACE = "namespace"
INDEX = "index"
MAP_KEY = "map_key"
TIMESTAMP = "ttl_timestamp"
SUBTASK = "subtask"
BYTES = "_bytes"
"""How the name of a column ends that holds the bytes of what the column before it shows."""

_BATCH_ROWS = 2048
_BATCH_ENTRIES = 8192


@dataclass(frozen=True)
class Part:
    """One of the columns of a value.

    Attributes:
        suffix: The suffix of its name, after that of the value.
        arrow_type: Its type.
        of: Makes a cell from the value and its bytes.
    """

    suffix: str
    arrow_type: pa.DataType
    of: Callable[[Any, bytes], Any]


def parts_of(type_info: TypeInformation | None) -> list[Part]:
    """Return the columns for values of a type: one, or JSON and bytes for untyped values."""
    if type_info is None:
        return [
            Part("", pa.string(), lambda value, _: None if value is None else json_text(value)),
            Part(BYTES, pa.binary(), lambda _, data: data),
        ]
    column = column_converter(type_info)
    convert = column.to_arrow
    if convert is None:
        return [Part("", column.arrow_type, lambda value, _: value)]
    return [Part("", column.arrow_type, lambda value, _: convert(value))]


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: Its name.
        arrow_type: Its type.
        of: Makes a cell from a row.
    """

    name: str
    arrow_type: pa.DataType
    of: Callable[[Any], Any]


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the schema of columns."""
    return pa.schema([pa.field(column.name, column.arrow_type) for column in columns])


def batches_of(columns: Sequence[Column], rows: Iterable[Any], where: str) -> Iterator[pa.RecordBatch]:
    """Collect rows in Arrow batches.

    Raises:
        SnapshotError: Arrow can't represent a value.
    """
    schema = schema_of(columns)
    gathered: list[Any] = []
    entries = 0
    for row in rows:
        gathered.append(row)
        entries += len(row) if type(row) is list else 1
        if len(gathered) >= _BATCH_ROWS or entries >= _BATCH_ENTRIES:
            yield _batch(columns, gathered, schema, where)
            gathered, entries = [], 0
    if gathered:
        yield _batch(columns, gathered, schema, where)


def _batch(columns: Sequence[Column], rows: list[Any], schema: pa.Schema, where: str) -> pa.RecordBatch:
    arrays = [column_array(column.name, map(column.of, rows), column.arrow_type, where) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def column_array(name: str, cells: Iterable[Any], arrow_type: pa.DataType, where: str) -> pa.Array:
    """Return the cells of a column.

    Raises:
        SnapshotError: Arrow can't represent a cell.
    """
    try:
        return pa.array(list(cells), arrow_type)
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        message = f"Column {name!r} holds what {arrow_type} can't say: {error}"
        raise SnapshotError(message, where=where, hint="read it with raw=True") from error


RAW_SCHEMA = pa.schema(
    [
        pa.field(KEY + BYTES, pa.binary()),
        pa.field(KEY_GROUP, pa.int32()),
        pa.field("sub_key", pa.binary()),
        pa.field(VALUE + BYTES, pa.binary()),
    ]
)
"""The columns of entries as they stand in the file."""


def value_columns(
    name: str, type_info: TypeInformation | None, value_of: Callable[[Any], Any], bytes_of: Callable[[Any], bytes]
) -> list[Column]:
    """Return the columns for values of a type.

    Args:
        name: The name of the first column.
        type_info: The type; None for untyped.
        value_of: Returns the value of a row.
        bytes_of: Returns the bytes of the value of a row.
    """
    return [Column(name + part.suffix, part.arrow_type, _cell(part, value_of, bytes_of)) for part in parts_of(type_info)]


def _cell(part: Part, value_of: Callable[[Any], Any], bytes_of: Callable[[Any], bytes]) -> Callable[[Any], Any]:
    return lambda row: part.of(value_of(row), bytes_of(row))


def keyed_columns(decoder: RowDecoder, *, per_entry: bool) -> list[Column]:
    """Return the columns of a keyed state's DataFrame.

    Args:
        decoder: The decoder of the state.
        per_entry: Whether each element of a list and each entry of a map is a row.

    Returns:
        Columns of a `StateRow`; for lists and maps without `per_entry`, of the list of a key's rows.
    """
    gathers = is_gathered(decoder, per_entry=per_entry)
    first: Callable[[Any], StateRow] = (lambda rows: rows[0]) if gathers else (lambda row: row)
    columns = value_columns(KEY, decoder.key_type, lambda row: first(row).key, lambda row: first(row).key_bytes)
    columns.append(Column(KEY_GROUP, pa.int32(), lambda row: first(row).key_group))
    columns += _namespace_columns(decoder.namespaces, first)
    entry_columns = _entry_columns(decoder)
    if not gathers:
        return [*columns, *_place_columns(decoder), *entry_columns]
    if decoder.kind is StateKind.LIST:
        return [*columns, *(_gathered(column) for column in entry_columns)]
    if decoder.user_key_type is not None:
        (key_column,) = _place_columns(decoder)
        return [*columns, *(_mapped(key_column, column) for column in entry_columns)]
    return [*columns, _structs([*_place_columns(decoder), *entry_columns])]


def _namespace_columns(namespaces: NamespaceSerializer, first: Callable[[Any], StateRow]) -> list[Column]:
    if namespaces.is_void:
        return []
    if isinstance(namespaces, KeyNamespaceSerializer):
        return value_columns(
            NAMESPACE,
            namespaces.type_info,
            lambda row: first(row).namespace,
            lambda row: split_namespace(first(row).namespace_bytes)[0],
        )
    window = pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64())])
    return [Column(NAMESPACE, window, lambda row: dict(zip(("start", "end"), first(row).namespace, strict=True)))]


def is_gathered(decoder: RowDecoder, *, per_entry: bool) -> bool:
    """Return whether all rows of a key and namespace are combined into one."""
    return not per_entry and decoder.kind in (StateKind.LIST, StateKind.MAP)


def _place_columns(decoder: RowDecoder) -> list[Column]:
    """Return the columns that identify the elements of a list or the entries of a map."""
    if decoder.kind is StateKind.LIST:
        return [Column(INDEX, pa.int64(), lambda row: row.sub_key)]
    if decoder.kind is not StateKind.MAP:
        return []
    return value_columns(MAP_KEY, decoder.user_key_type, lambda row: row.sub_key, lambda row: row.sub_key_bytes)


def _entry_columns(decoder: RowDecoder) -> list[Column]:
    columns = value_columns(VALUE, decoder.value_type, lambda row: row.value, lambda row: row.value_bytes)
    if decoder.has_timestamps:
        columns.append(Column(TIMESTAMP, pa.int64(), lambda row: row.timestamp))
    return columns


def _gathered(column: Column) -> Column:
    return Column(column.name, pa.list_(column.arrow_type), lambda rows: [column.of(row) for row in rows])


def _mapped(key: Column, column: Column) -> Column:
    arrow_type = pa.map_(key.arrow_type, column.arrow_type)
    return Column(column.name, arrow_type, lambda rows: [(key.of(row), column.of(row)) for row in rows])


def _structs(columns: list[Column]) -> Column:
    struct = pa.struct([pa.field(column.name, column.arrow_type) for column in columns])
    return Column(
        VALUE, pa.list_(struct), lambda rows: [{column.name: column.of(row) for column in columns} for row in rows]
    )


def list_columns(type_info: TypeInformation | None) -> list[Column]:
    """Return the columns of a list or union state's DataFrame, of rows (subtask, element, its bytes)."""
    values = value_columns(VALUE, type_info, lambda row: row[1], lambda row: row[2])
    return [Column(SUBTASK, pa.int32(), lambda row: row[0]), *values]


def broadcast_columns(key_type: TypeInformation | None, type_info: TypeInformation | None) -> list[Column]:
    """Return the columns of a broadcast state's DataFrame, of rows (map key, its bytes, value, its bytes)."""
    keys = value_columns(MAP_KEY, key_type, lambda row: row[0], lambda row: row[1])
    return [*keys, *value_columns(VALUE, type_info, lambda row: row[2], lambda row: row[3])]
