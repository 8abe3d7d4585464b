"""Parquet files, in the names of `pyflink.datastream.formats.parquet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.errors import JobGraphError
from pystate.common.not_there import not_there
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.datastream.connectors.file_system import BulkFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


class ParquetColumnarRowInputFormat(BulkFormat):
    """The rows of Parquet files.

    Args:
        row_type: A named ROW: the columns to read, by name; a column that a file doesn't have is null. None takes the
            columns of the files that are there when the job starts.
        hadoop_config: None: Spark's clients are set by `spark.hadoop.*`.
        batch_size: Without effect: Spark's reader has batches of its own.
        is_utc_timestamp: Without effect: a timestamp is read as the file says it.
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
        self._schema = None if row_type is None else _columns(row_type)

    def reader(self, spark: SparkSession, paths: Sequence[str]) -> DataStreamReader:
        """Return what reads Parquet files below `paths`.

        Raises:
            JobGraphError: No row type was given, and there is no file to take it from.
        """
        reader = spark.readStream.format("parquet")
        if self._schema is not None:
            return reader.schema(self._schema)
        try:
            return reader.schema(spark.read.parquet(*paths).schema)
        except Exception as error:  # Spark's errors come in many classes
            message = f"The columns of the Parquet files can't be read: {str(error).strip().splitlines()[0]}"
            hint = "give ParquetColumnarRowInputFormat a row_type, such as Types.ROW_NAMED([...], [...])"
            raise JobGraphError(message, where=paths[0], hint=hint) from error


_SPARK_TYPES = {
    TypeKind.STRING: "STRING",
    TypeKind.BOOLEAN: "BOOLEAN",
    TypeKind.BYTE: "TINYINT",
    TypeKind.SHORT: "SMALLINT",
    TypeKind.INT: "INT",
    TypeKind.LONG: "BIGINT",
    TypeKind.FLOAT: "FLOAT",
    TypeKind.DOUBLE: "DOUBLE",
    TypeKind.SQL_DATE: "DATE",
    TypeKind.SQL_TIMESTAMP: "TIMESTAMP",
}


def _columns(row_type: TypeInformation) -> str:
    if row_type.kind is not TypeKind.ROW or row_type.names is None:
        message = f"The rows of a Parquet file are a named ROW, not {row_type.name}."
        raise JobGraphError(message, hint="declare them with Types.ROW_NAMED([...], [...])")
    return ", ".join(_fields(row_type, " "))


def _fields(row_type: TypeInformation, between: str) -> list[str]:
    names = [name.replace("`", "``") for name in row_type.get_field_names()]
    return [f"`{name}`{between}{_spark_type(part)}" for name, part in zip(names, row_type.elements, strict=True)]


def _spark_type(type_info: TypeInformation) -> str:
    kind = type_info.kind
    if kind in _SPARK_TYPES:
        return _SPARK_TYPES[kind]
    if kind is TypeKind.PRIMITIVE_ARRAY and type_info.elements[0].kind is TypeKind.BYTE:
        return "BINARY"
    if kind is TypeKind.ROW:
        return f"STRUCT<{', '.join(_fields(type_info, ': '))}>"
    if kind is TypeKind.MAP:
        key, value = (_spark_type(part) for part in type_info.elements)
        return f"MAP<{key}, {value}>"
    if kind in (TypeKind.LIST, TypeKind.BASIC_ARRAY, TypeKind.OBJECT_ARRAY, TypeKind.PRIMITIVE_ARRAY):
        return f"ARRAY<{_spark_type(type_info.elements[0])}>"
    message = f"A Parquet file is not read as {type_info.name}."
    raise JobGraphError(message, hint="leave row_type out: the columns then are what the files say")


_WRITE = "write Parquet with Spark: for_each_batch(lambda frame, epoch: frame.write.parquet(...))"

AvroParquetReaders = not_there("AvroParquetReaders", "Avro formats come later.", "read with ParquetColumnarRowInputFormat")
AvroParquetWriters = not_there("AvroParquetWriters", "file sinks come later.", _WRITE)
ParquetBulkWriters = not_there("ParquetBulkWriters", "file sinks come later.", _WRITE)
