"""Reader and writer of container files of Avro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pystate.common.type_info import TypeInformation
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.file_system.formats.avro_format import AvroFormat
from pystate.connectors.file_system.formats.avro_writer import AvroWriterFactory
from pystate.connectors.file_system.formats.split_format import SplitFormat
from pystate.datastream.connectors.file_system import BulkFormat, FileSource
from pystate.datastream.formats.avro_rows import GenericRecordAvroTypeInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AvroBulkFormat(BulkFormat):
    """Reads container files, for `FileSource.for_bulk_file_format` (pystate only); made by one of its methods.

    Args:
        split_format: The reader.
    """

    def __init__(self, split_format: AvroFormat) -> None:
        self._format = split_format
        self.single_column = not split_format.element_type.elements

    @staticmethod
    def for_rows(schema: AvroSchema | str) -> AvroBulkFormat:
        """Return the format whose elements are rows.

        Args:
            schema: The schema that rows have. A file may be written with another one: Avro's resolution rules say how a
                record of that becomes one of this.

        Raises:
            JobGraphError: It isn't the schema of a record.
        """
        return AvroBulkFormat(AvroFormat(AvroSchema.of(schema), as_rows=True))

    @staticmethod
    def for_generic_record(schema: AvroSchema | str | None = None) -> AvroBulkFormat:
        """Return the format whose elements are as fastavro has them: a record is a dict.

        Args:
            schema: The schema that elements have; None takes each file's own.
        """
        return AvroBulkFormat(AvroFormat(None if schema is None else AvroSchema.of(schema), as_rows=False))

    @property
    def element_type(self) -> TypeInformation:
        """The type of the elements."""
        return self._format.element_type

    def in_slots(self, spark: SparkSession | None, paths: Sequence[str]) -> SplitFormat:
        """Return the reader for slots."""
        del spark, paths
        return self._format


class AvroInputFormat(FileSource):
    """Reads container files as a bounded source, for `env.create_input`; a record is a dict.

    Args:
        path: A folder, a file or a pattern.
        schema: The schema that elements have.
    """

    def __init__(self, path: str, schema: AvroSchema) -> None:
        super().__init__(path, None, file_format=AvroBulkFormat.for_generic_record(schema))
        self._schema = schema

    def get_produced_type(self) -> GenericRecordAvroTypeInfo:
        """Return the type of the elements."""
        return GenericRecordAvroTypeInfo(self._schema)


class AvroBulkWriters:
    """Makes writers of container files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema | str, codec: str = "null") -> AvroWriterFactory:
        """Return the writer factory for a schema.

        Args:
            schema: The schema of the elements, which are rows, or dicts as fastavro takes them.
            codec: Ours: how blocks are compressed: `null`, `deflate`, `bzip2`, `xz`, `snappy`, `zstandard` or `lz4`.

        Raises:
            JobGraphError: There is no such codec.
        """
        return AvroWriterFactory(AvroSchema.of(schema), codec)
