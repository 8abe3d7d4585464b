"""Reads and writes Parquet files by a schema of Avro: elements are data as fastavro has them."""

from __future__ import annotations

from typing import IO, Any, BinaryIO

from pystate.common.errors import RecordError
from pystate.common.overrides import override
from pystate.common.serialization import BulkWriter, BulkWriterFactory
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.avro.avro_types import row_type_of
from pystate.connectors.bad_records import why
from pystate.connectors.file_system.formats.parquet_format import ParquetFormat
from pystate.connectors.file_system.formats.parquet_writer import ParquetWriterFactory
from pystate.connectors.file_system.formats.split_format import FileRecords, SplitFormat
from pystate.core.records.codec import shown


class AvroParquetFormat(SplitFormat):
    """Reads dicts from Parquet files.

    Args:
        schema: The schema of a record.
        row_type: The columns of the files.
    """

    element_type: TypeInformation = Types.PICKLED_BYTE_ARRAY()
    refuses_records = False

    def __init__(self, schema: AvroSchema, row_type: TypeInformation) -> None:
        self._schema = schema
        self._rows = ParquetFormat(row_type)

    @override
    def open(self, file: BinaryIO, name: str, position: int) -> FileRecords:
        return _AvroParquetRecords(self._rows.open(file, name, position), self._schema, name)


class _AvroParquetRecords(FileRecords):
    def __init__(self, rows: FileRecords, schema: AvroSchema, name: str) -> None:
        self._rows = rows
        self._name = name
        self._to_datum = row_type_of(schema).write
        self.position = rows.position

    @override
    def read(self, most: int) -> list[Any] | None:
        rows = self._rows.read(most)
        if rows is None:
            return None
        try:
            elements = list(map(self._to_datum, rows))
        except ValueError as error:
            message = f"A row of {self._name} after row {self.position} is none of the schema: {why(error)}"
            raise RecordError(message, hint="give it a schema that the files have") from error
        self.position = self._rows.position
        return elements

    @override
    def close(self) -> None:
        self._rows.close()


class AvroParquetWriterFactory(BulkWriterFactory):
    """Makes writers of Parquet files that take dicts.

    Args:
        schema: The schema of a record.

    Raises:
        JobGraphError: It isn't one, or has a type that Parquet doesn't support.
    """

    can_be_concatenated = False

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._rows = ParquetWriterFactory(row_type_of(schema).type_info)

    @override
    def create(self, stream: IO[bytes]) -> BulkWriter:
        return _AvroParquetWriter(self._rows.create(stream), self._schema)


class _AvroParquetWriter(BulkWriter):
    def __init__(self, rows: BulkWriter, schema: AvroSchema) -> None:
        self._rows = rows
        self._to_row = row_type_of(schema).read

    @override
    def add_element(self, element: Any) -> None:
        assert self._to_row is not None  # noqa: S101 - records become rows
        try:
            row = self._to_row(element)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"{shown(element)} can't be written as Parquet by a schema of Avro: {why(error)}"
            raise RecordError(message, hint="give it dicts with all fields of the schema") from error
        self._rows.add_element(row)

    @override
    def flush(self) -> None:
        self._rows.flush()

    @override
    def finish(self) -> None:
        self._rows.finish()
