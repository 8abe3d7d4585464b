"""Reader and writer of Parquet files, with the names of `pyflink.datastream.formats.parquet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ExternalSystemError, JobGraphError
from pystate.common.type_info import TypeInformation, Types
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.avro.avro_types import row_type_of
from pystate.connectors.file_system.formats.avro_parquet import AvroParquetFormat, AvroParquetWriterFactory
from pystate.connectors.file_system.formats.parquet_format import ParquetFormat
from pystate.connectors.file_system.formats.parquet_writer import ParquetWriterFactory
from pystate.connectors.file_system.formats.split_format import SplitFormat
from pystate.datastream.connectors.file_system import BulkFormat, StreamFormat
from pystate.datastream.formats.spark_columns import check_columns, read_back

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ParquetColumnarRowInputFormat(BulkFormat):
    """Reads rows from Parquet files.

    Args:
        row_type: A named ROW: the columns to read, by name; a column that a file doesn't have is null. None takes the
            columns of the files that are there when the job starts.
        hadoop_config: None: Spark's clients are set by `spark.hadoop.*`.
        batch_size: Without effect: the reader has batches of its own.
        is_utc_timestamp: Without effect: it is always so. A SQL_TIMESTAMP is in UTC, in each zone of a machine.
        is_case_sensitive: Without effect: `spark.sql.caseSensitive` says it.

    Raises:
        JobGraphError: There is a Hadoop configuration.
    """

    def __init__(
        self,
        row_type: TypeInformation | None = None,
        hadoop_config: Any = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        if hadoop_config is not None:
            message = "ParquetColumnarRowInputFormat takes no Hadoop configuration."
            raise JobGraphError(message, hint="set spark.hadoop.* in the configuration")
        if row_type is not None:
            check_columns(row_type, "Parquet")
        self._row_type = row_type

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return the reader for slots.

        Raises:
            ExternalSystemError: No row type was given, and there is no file to infer it from.
        """
        return ParquetFormat(self._found_type(spark, paths) if self._row_type is None else read_back(self._row_type))

    @staticmethod
    def _found_type(spark: SparkSession | None, paths: Sequence[str]) -> TypeInformation:
        from pystate.runtime.spark.spark_types import type_info_of

        hint = "give ParquetColumnarRowInputFormat a row_type, such as Types.ROW_NAMED([...], [...])"
        if spark is None:
            message = "The columns of the Parquet files can't be read without a session."
            raise JobGraphError(message, where=paths[0], hint=hint)
        try:
            # partition folders aren't columns: their values are in no file
            schema = spark.read.option("recursiveFileLookup", value=True).parquet(*paths).schema
        except Exception as error:  # Spark raises many kinds of errors
            message = f"The columns of the Parquet files can't be read: {str(error).strip().splitlines()[0]}"
            raise ExternalSystemError(message, where=paths[0], hint=hint) from error
        return type_info_of(schema, paths[0])


class ParquetBulkWriters:
    """Makes writers of Parquet files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_row_type(
        row_type: TypeInformation, hadoop_config: Any = None, utc_timestamp: bool = False
    ) -> ParquetWriterFactory:
        """Return the writer factory for a row type.

        Args:
            row_type: A named ROW: the columns.
            hadoop_config: None.
            utc_timestamp: Without effect: it is always so. A SQL_TIMESTAMP is in UTC, in each zone of a machine.

        Raises:
            JobGraphError: It isn't a named ROW, has a type that Parquet doesn't support, or there is a Hadoop configuration.
        """
        if hadoop_config is not None:
            message = "ParquetBulkWriters take no Hadoop configuration: Arrow writes the files."
            raise JobGraphError(message, hint="leave it out")
        return ParquetWriterFactory(row_type)


class AvroParquetReaders:
    """Makes readers of Parquet files by a schema of Avro, for `FileSource.for_record_stream_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema | str) -> StreamFormat:
        """Return the format whose elements are as fastavro has records: dicts.

        Args:
            schema: The schema of a record: the columns to read, by name.

        Raises:
            JobGraphError: It isn't one, or has a type that Parquet files aren't read as.
        """
        return _AvroParquet(AvroSchema.of(schema))


class _AvroParquet(StreamFormat):
    single_column = True
    element_type = Types.PICKLED_BYTE_ARRAY()

    def __init__(self, schema: AvroSchema) -> None:
        row_type = row_type_of(schema).type_info
        check_columns(row_type, "Parquet")
        self._format = AvroParquetFormat(schema, read_back(row_type))

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return the reader for slots."""
        del spark, paths
        return self._format


class AvroParquetWriters:
    """Makes writers of Parquet files by a schema of Avro, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema | str) -> AvroParquetWriterFactory:
        """Return the writer factory for a schema; elements are as fastavro has records: dicts.

        Raises:
            JobGraphError: It isn't the schema of a record, or has a type that Parquet doesn't support.
        """
        return AvroParquetWriterFactory(AvroSchema.of(schema))
