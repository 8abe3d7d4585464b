"""Reads Parquet files in slots, by Arrow, with the columns that Spark would return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pystate.common.errors import RecordError
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.common.type_rules import is_byte_array
from pystate.connectors.file_system.formats.split_format import FileRecords, SplitFormat
from pystate.core.records.codec import RecordCodec, column_converter

_AT_ONCE = 1000
_INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64, pa.uint8(): 9, pa.uint16(): 17, pa.uint32(): 33}
_UTC = pa.timestamp("us", "UTC")


class ParquetFormat(SplitFormat):
    """Reads rows from Parquet files. A position is a number of rows.

    Args:
        element_type: A named ROW: the columns to read, by name, ignoring case.
    """

    refuses_records = False

    def __init__(self, element_type: TypeInformation) -> None:
        self.element_type = element_type

    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        """Return the rows.

        Raises:
            RecordError: It isn't a Parquet file.
        """
        try:
            return _ParquetRecords(pq.ParquetFile(file), name, self.element_type, position)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = f"{name} can't be read as Parquet: {error}"
            raise RecordError(message, hint="remove what is no Parquet file from the folder") from error


class _ParquetRecords(FileRecords):
    def __init__(self, file: Any, name: str, row_type: TypeInformation, position: int) -> None:
        self._file = file
        self._name = name
        self._type = row_type
        self._codec = RecordCodec(row_type, name)
        self.position = position
        if position > file.metadata.num_rows:
            message = f"it has become shorter than the {position} rows that were read of it"
            raise ValueError(message)
        self._columns = self._columns_of(file.schema_arrow)
        self._batches = self._from(position)
        self._rest: pa.RecordBatch | None = None

    def _columns_of(self, schema: pa.Schema) -> list[str | None]:
        """Return the name of each column in the file; None for a missing column."""
        there: dict[str, list[str]] = {}
        for one in schema.names:
            there.setdefault(one.lower(), []).append(one)
        columns: list[str | None] = []
        for wanted in self._type.get_field_names():
            found = there.get(wanted.lower(), [])
            if len(found) > 1:
                message = f"{self._name} has several columns {', '.join(found)}."
                raise RecordError(message, hint="write the file with columns that differ in more than their case")
            columns.append(found[0] if found else None)
        return columns

    def _from(self, position: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from a position on."""
        skip = position
        groups: list[int] = []
        for group in range(self._file.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if not groups and skip >= rows:
                skip -= rows
            else:
                groups.append(group)
        if not groups:
            return
        columns = [column for column in self._columns if column is not None]
        for batch in self._file.iter_batches(batch_size=_AT_ONCE, row_groups=groups, columns=columns):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
            else:
                yield batch.slice(skip)
                skip = 0

    def read(self, most: int) -> list[Any] | None:
        batch = self._rest if self._rest is not None else next(self._batches, None)
        if batch is None:
            return None
        now, self._rest = batch.slice(0, most), batch.slice(most) if batch.num_rows > most else None
        arrays = []
        for field, column, part in zip(self._codec.schema, self._columns, self._type.elements, strict=True):
            if column is None:
                arrays.append(pa.nulls(now.num_rows, field.type))
            else:
                arrays.append(self._fit(now.column(column), part, column))
        self.position += now.num_rows
        return list(self._codec.decode(pa.RecordBatch.from_arrays(arrays, schema=self._codec.schema)))

    def _fit(self, array: Any, part: TypeInformation, where: str) -> Any:
        """Cast a column to the type, as far as Spark would widen it.

        Raises:
            RecordError: It can't be cast.
        """
        old, new = array.type, column_converter(part).arrow_type
        if old == new:
            return array
        kind = part.kind
        if pa.types.is_dictionary(old):
            return self._fit(array.dictionary_decode(), part, where)
        if part.kind is TypeKind.BIG_DEC and (pa.types.is_decimal(old) or old == pa.uint64()):
            return array.cast(pa.string())
        if kind is TypeKind.SQL_TIMESTAMP and pa.types.is_timestamp(old):
            zoned = array if old.tz is not None else array.cast(pa.timestamp(old.unit, "UTC"), safe=False)
            return zoned.cast(_UTC, safe=False).cast(new)
        if _widens(old, new):
            return array.cast(new)
        if kind is TypeKind.ROW and pa.types.is_struct(old):
            return self._fit_struct(array, part, where)
        if kind is TypeKind.MAP and pa.types.is_map(old):
            keys = self._fit(array.keys, part.elements[0], where)
            items = self._fit(array.items, part.elements[1], where)
            return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
        if pa.types.is_list(old) and part.elements and not is_byte_array(part):
            values = self._fit(array.values, part.elements[0], where)
            return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null())
        message = f"The column {where} of {self._name} is {old}, which is not read as {part.name}."
        raise RecordError(message, hint="declare the type that the files have, and convert in map()")

    def _fit_struct(self, array: Any, part: TypeInformation, where: str) -> Any:
        there = {array.type.field(index).name.lower(): index for index in range(array.type.num_fields)}
        children = []
        for name, element in zip(part.get_field_names(), part.elements, strict=True):
            index = there.get(name.lower())
            if index is None:
                children.append(pa.nulls(len(array), column_converter(element).arrow_type))
            else:
                children.append(self._fit(pc.struct_field(array, index), element, f"{where}.{name}"))
        fields = list(column_converter(part).arrow_type)
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())

    def close(self) -> None:
        self._file.close()


def _widens(old: Any, new: Any) -> bool:
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS[old] <= _INTEGERS[new]
    if old in _INTEGERS and new == pa.float64():
        return _INTEGERS[old] <= 32  # noqa: PLR2004 - as many bits as it holds exactly
    if old == pa.float32() and new == pa.float64():
        return True
    texts = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    return old in texts and new in (pa.string(), pa.binary())
