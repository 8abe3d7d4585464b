"""CSV files: their reader over Spark's, and their writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystate.common.type_info import TypeKind
from pystate.connectors.file_system.csv_format import CsvFormat
from pystate.connectors.file_system.csv_schema import CsvSchema
from pystate.connectors.file_system.csv_writer import CsvWriterFactory
from pystate.connectors.file_system.split_format import SplitFormat
from pystate.datastream.connectors.file_system import StreamFormat
from pystate.datastream.formats.spark_columns import columns_of, session_zone, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


class CsvReaderFormat(StreamFormat):
    """The rows of CSV files, by Spark's reader; a row that isn't of the schema fails the job.

    Args:
        schema: Their columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        self._schema = schema

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvReaderFormat:
        """Return the format of such files."""
        return CsvReaderFormat(schema)

    def reader(self, spark: SparkSession, paths: Sequence[str]) -> DataStreamReader:
        """Return what reads CSV files; lists are read as texts."""
        schema = self._schema
        quote = schema.quote_char or ""
        return (
            spark.readStream.format("csv")
            .schema(columns_of(schema.row_type, "CSV", texts=_lists(schema)))
            .option("mode", "FAILFAST")
            .option("sep", schema.column_separator)
            .option("quote", quote)
            .option("escape", schema.escape_char or quote)
            .option("nullValue", schema.null_value)
            .option("header", schema.use_header)
            .option("enforceSchema", not schema.strict_headers)
            .option("comment", "#" if schema.allow_comments else "")
        )

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return what reads them in slots."""
        del paths
        return CsvFormat(self._schema, session_zone(spark))

    def elements(self, frame: DataFrame) -> DataFrame:
        """Return the rows with their lists."""
        from pyspark.sql import functions

        row_type = self._schema.row_type
        for name, part in zip(row_type.get_field_names(), row_type.elements, strict=True):
            if part.kind is TypeKind.LIST:
                separator = self._schema.array_separators.get(name, ";")
                quoted = "".join(f"\\x{{{ord(char):x}}}" for char in separator)
                parts = functions.split(functions.col(f"`{name}`"), quoted)
                frame = frame.withColumn(name, parts.cast(spark_type(part, "CSV")))
        return frame


def _lists(schema: CsvSchema) -> list[str]:
    row_type = schema.row_type
    fields = zip(row_type.get_field_names(), row_type.elements, strict=True)
    return [name for name, part in fields if part.kind is TypeKind.LIST]


class CsvBulkWriters:
    """Writers of CSV files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvWriterFactory:
        """Return what writes rows of a schema."""
        return CsvWriterFactory(schema)
