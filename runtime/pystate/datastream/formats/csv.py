"""The CSV formats: reader and writer of files, and names of those for rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystate.connectors.file_system.formats.csv_format import CsvFormat
from pystate.connectors.file_system.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from pystate.connectors.file_system.formats.csv_writer import CsvWriterFactory
from pystate.connectors.file_system.formats.file_content import TextEncoding
from pystate.connectors.file_system.formats.split_format import SplitFormat
from pystate.datastream.connectors.file_system import StreamFormat
from pystate.datastream.formats.csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pystate.datastream.formats.spark_columns import check_columns, session_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvReaderFormat(StreamFormat):
    """Reads rows from CSV files (RFC 4180); a row that doesn't match the schema fails the job.

    Args:
        schema: The columns.
        charset_name: See `StreamFormat.text_line_format`.
        errors: See `StreamFormat.text_line_format`.

    Raises:
        JobGraphError: There is no such charset, or CSV doesn't support the type of a column.
    """

    def __init__(self, schema: CsvSchema, charset_name: str = "UTF-8", errors: str = "strict") -> None:
        check_columns(schema.row_type, "CSV")
        self._schema = schema
        self._encoding = TextEncoding(charset_name, errors, "CsvReaderFormat")

    @staticmethod
    def for_schema(schema: CsvSchema, charset_name: str = "UTF-8", errors: str = "strict") -> CsvReaderFormat:
        """Return the format for a schema."""
        return CsvReaderFormat(schema, charset_name, errors)

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return the reader for slots."""
        del paths
        return CsvFormat(self._schema, session_zone(spark), self._encoding)


class CsvBulkWriters:
    """Makes writers of CSV files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvWriterFactory:
        """Return the writer factory for a schema."""
        return CsvWriterFactory(schema)
