"""Serialization of single data of Avro, with the names of `pyflink.datastream.formats.avro` and of Flink's Java classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation, TypeKind
from pystate.connectors.avro.avro_data import datum_reader, datum_writer
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.avro.avro_types import row_type_of
from pystate.connectors.message_schemas import ReadingSchema, WritingSchema


class GenericRecordAvroTypeInfo(TypeInformation[Any]):
    """The type of data as fastavro has them: a record is a dict. They travel pickled; rows travel by columns.

    Args:
        schema: Their schema.
    """

    def __init__(self, schema: AvroSchema | str) -> None:
        super().__init__(TypeKind.PICKLED_BYTE_ARRAY)
        self.schema = AvroSchema.of(schema)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how the type is made again."""
        return type(self), (self.schema,)


class AvroRowDeserializationSchema(ReadingSchema):
    """Deserializes rows from records of Avro.

    Args:
        record_class: None: a class of Java has no meaning here.
        avro_schema_string: The schema that rows have.
        writer_schema_string: Ours: the schema that messages were written with, if it is another one. Avro's resolution rules
            say how a datum of it becomes one of the other: fields by name, defaults, wider numbers, aliases.

    Raises:
        JobGraphError: A class is given, or the schema is missing, wrong, or not one of a record.
    """

    def __init__(
        self,
        record_class: str | None = None,
        avro_schema_string: str | None = None,
        writer_schema_string: str | None = None,
    ) -> None:
        self._schema = _schema_of_rows("AvroRowDeserializationSchema", record_class, avro_schema_string)
        self._writer = self._schema if writer_schema_string is None else AvroSchema.parse_string(writer_schema_string)
        self.produced_type = row_type_of(self._schema).type_info
        self.what = f"Avro of {self.produced_type.name}"

    @override
    def reader(self) -> Callable[[bytes], Any]:
        read_datum, to_row = datum_reader(self._writer, self._schema), row_type_of(self._schema).read
        assert to_row is not None  # noqa: S101 - records become rows
        return lambda message: to_row(read_datum(message))


class AvroRowSerializationSchema(WritingSchema):
    """Serializes rows as records of Avro.

    Args:
        record_class: None: a class of Java has no meaning here.
        avro_schema_string: The schema of the records.

    Raises:
        JobGraphError: A class is given, or the schema is missing, wrong, or not one of a record.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema_of_rows("AvroRowSerializationSchema", record_class, avro_schema_string)
        self.consumed_type = row_type_of(self._schema).type_info
        self.what = self.consumed_type.name

    @override
    def writer(self) -> Callable[[Any], bytes]:
        write_datum, to_datum = datum_writer(self._schema), row_type_of(self._schema).write
        return lambda row: write_datum(to_datum(row))


class AvroDeserializationSchema(ReadingSchema):
    """Deserializes data of Avro as fastavro has them: a record is a dict; made by `for_generic`.

    Args:
        schema: The schema that elements have.
        writer_schema: The schema that messages were written with, if it is another one.
    """

    what = "Avro of the schema"

    def __init__(self, schema: AvroSchema, writer_schema: AvroSchema | None = None) -> None:
        self._schema, self._writer = schema, writer_schema or schema
        self.produced_type = GenericRecordAvroTypeInfo(schema)

    @staticmethod
    def for_generic(schema: AvroSchema | str, writer_schema: AvroSchema | str | None = None) -> AvroDeserializationSchema:
        """Return the deserialization schema of a schema.

        Args:
            schema: The schema that elements have.
            writer_schema: Ours: the schema that messages were written with, if it is another one.
        """
        writer = None if writer_schema is None else AvroSchema.of(writer_schema)
        return AvroDeserializationSchema(AvroSchema.of(schema), writer)

    @override
    def reader(self) -> Callable[[bytes], Any]:
        return datum_reader(self._writer, self._schema)


class AvroSerializationSchema(WritingSchema):
    """Serializes data of Avro as fastavro has them: a record is a dict; made by `for_generic`.

    Args:
        schema: The schema.
    """

    what = "datum of the schema"

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    @staticmethod
    def for_generic(schema: AvroSchema | str) -> AvroSerializationSchema:
        """Return the serialization schema of a schema."""
        return AvroSerializationSchema(AvroSchema.of(schema))

    @override
    def writer(self) -> Callable[[Any], bytes]:
        return datum_writer(self._schema)


def _schema_of_rows(call: str, record_class: str | None, text: str | None) -> AvroSchema:
    if record_class is not None:
        message = f"{call}(record_class={record_class!r}): a class of Java has no meaning here."
        raise JobGraphError(message, hint="give it avro_schema_string")
    if text is None:
        message = f"{call} needs a schema."
        raise JobGraphError(message, hint="give it avro_schema_string")
    return AvroSchema.of(text)
