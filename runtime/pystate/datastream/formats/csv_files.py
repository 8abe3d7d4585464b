"""CSV files: their reader and their writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystate.connectors.file_system.formats.csv_format import CsvFormat
from pystate.connectors.file_system.formats.csv_schema import CsvSchema
from pystate.connectors.file_system.formats.csv_writer import CsvWriterFactory
from pystate.connectors.file_system.formats.file_content import TextEncoding
from pystate.connectors.file_system.formats.split_format import SplitFormat
from pystate.datastream.connectors.file_system import StreamFormat
from pystate.datastream.formats.spark_columns import check_columns, session_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CsvReaderFormat(StreamFormat):
    """The rows of CSV files (RFC 4180); a row that isn't of the schema fails the job.

    Args:
        schema: Their columns.
        charset_name: See `StreamFormat.text_line_format`.
        errors: The same.

    Raises:
        JobGraphError: There is no such charset, or CSV doesn't have a column of that type.
    """

    def __init__(self, schema: CsvSchema, charset_name: str = "UTF-8", errors: str = "strict") -> None:
        check_columns(schema.row_type, "CSV")
        self._schema = schema
        self._encoding = TextEncoding(charset_name, errors, "CsvReaderFormat")

    @staticmethod
    def for_schema(schema: CsvSchema, charset_name: str = "UTF-8", errors: str = "strict") -> CsvReaderFormat:
        """Return the format of such files."""
        return CsvReaderFormat(schema, charset_name, errors)

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return what reads them in slots."""
        del paths
        return CsvFormat(self._schema, session_zone(spark), self._encoding)


class CsvBulkWriters:
    """Writers of CSV files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvWriterFactory:
        """Return what writes rows of a schema."""
        return CsvWriterFactory(schema)
