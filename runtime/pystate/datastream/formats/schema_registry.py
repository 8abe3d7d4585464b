"""Messages whose schemas are in a schema registry, as Confluent's serializers write them: Avro, JSON Schema, Protobuf.

Avro has the names of Flink's Java classes. The bytes before a message name its schema; the registry is asked for it once in
each process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pystate.common.overrides import override
from pystate.common.type_info import TypeInformation
from pystate.connectors.avro.avro_schema import AvroSchema
from pystate.connectors.avro.avro_types import row_type_of
from pystate.connectors.message_schemas import ReadingSchema, WritingSchema
from pystate.connectors.protobuf.message_class import MessageClass
from pystate.connectors.protobuf.protobuf_rows import protobuf_rows
from pystate.connectors.schema_registry.avro_messages import avro_message_reader
from pystate.connectors.schema_registry.registry import SchemaRegistry, frame_bytes, registry_module
from pystate.connectors.schema_registry.subjects import Subject
from pystate.datastream.formats.avro_rows import GenericRecordAvroTypeInfo
from pystate.datastream.formats.json_rows import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = [
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "ConfluentRegistryJsonDeserializationSchema",
    "ConfluentRegistryJsonSerializationSchema",
    "ConfluentRegistryProtobufDeserializationSchema",
    "ConfluentRegistryProtobufSerializationSchema",
    "Subject",
]

Configs = Mapping[str, Any]


class ConfluentRegistryAvroDeserializationSchema(ReadingSchema):
    """Deserializes Avro of any schema in a registry; made by `for_generic` or `for_rows`.

    Args:
        schema: The schema that elements have: Avro's resolution rules say how a message of another one becomes one of it.
        registry: The registry.
        as_rows: Whether elements are rows; else a record is a dict.
    """

    def __init__(self, schema: AvroSchema, registry: SchemaRegistry, *, as_rows: bool) -> None:
        self._schema, self._registry, self._as_rows = schema, registry, as_rows
        self.produced_type = row_type_of(schema).type_info if as_rows else GenericRecordAvroTypeInfo(schema)
        self.what = f"Avro of a schema registry that becomes {self.produced_type.name if as_rows else 'one of the schema'}"
        registry_module("avro")

    @staticmethod
    def for_generic(
        schema: AvroSchema | str, url: str, registry_configs: Configs | None = None
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Return the schema whose elements are as fastavro has them: a record is a dict.

        Args:
            schema: The schema that elements have.
            url: The URL of the registry.
            registry_configs: Properties of its client: `basic.auth.user.info`, `ssl.ca.location`, ...
        """
        registry = SchemaRegistry(url, registry_configs)
        return ConfluentRegistryAvroDeserializationSchema(AvroSchema.of(schema), registry, as_rows=False)

    @staticmethod
    def for_rows(
        schema: AvroSchema | str, url: str, registry_configs: Configs | None = None
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Return the schema whose elements are rows (pystate only); see `for_generic`."""
        registry = SchemaRegistry(url, registry_configs)
        return ConfluentRegistryAvroDeserializationSchema(AvroSchema.of(schema), registry, as_rows=True)

    @override
    def reader(self) -> Callable[[bytes], Any]:
        read = avro_message_reader(self._registry, self._schema)
        to_row = row_type_of(self._schema).read if self._as_rows else None
        return read if to_row is None else lambda message: to_row(read(message))


class ConfluentRegistryAvroSerializationSchema(WritingSchema):
    """Serializes Avro, and registers its schema; made by `for_generic` or `for_rows`.

    Args:
        subject: The subject of the schema.
        schema: The schema of the elements.
        registry: The registry.
        as_rows: Whether elements are rows; else a record is a dict.
        serializer_configs: Properties of confluent-kafka's `AvroSerializer`.
    """

    def __init__(
        self,
        subject: Subject | str,
        schema: AvroSchema,
        registry: SchemaRegistry,
        *,
        as_rows: bool,
        serializer_configs: Configs,
    ) -> None:
        self._subject, self._schema, self._registry = Subject.of(subject), schema, registry
        self._as_rows, self._configs = as_rows, dict(serializer_configs)
        self.what = row_type_of(schema).type_info.name if as_rows else "datum of the schema"
        registry_module("avro")

    @staticmethod
    def for_generic(
        subject: Subject | str,
        schema: AvroSchema | str,
        url: str,
        registry_configs: Configs | None = None,
        serializer_configs: Configs | None = None,
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Return the schema of elements as fastavro has them: a record is a dict.

        Args:
            subject: The subject that the schema is registered under: its name, or one of `Subject`.
            schema: The schema of the elements.
            url: The URL of the registry.
            registry_configs: Properties of its client: `basic.auth.user.info`, `ssl.ca.location`, ...
            serializer_configs: Ours: properties of confluent-kafka's serializer: `auto.register.schemas`, ...
        """
        return _avro_writer(subject, schema, url, registry_configs, serializer_configs, as_rows=False)

    @staticmethod
    def for_rows(
        subject: Subject | str,
        schema: AvroSchema | str,
        url: str,
        registry_configs: Configs | None = None,
        serializer_configs: Configs | None = None,
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Return the schema of rows (pystate only); see `for_generic`."""
        return _avro_writer(subject, schema, url, registry_configs, serializer_configs, as_rows=True)

    @override
    def writer(self) -> Callable[[Any], bytes]:
        made = registry_module("avro").AvroSerializer(
            self._registry.client(), self._schema.text, conf=_with_subject(self._configs, self._subject)
        )
        to_datum = row_type_of(self._schema).write if self._as_rows else None
        context = _context(self._subject)
        if to_datum is None:
            return self._registry.asking(lambda element: made(element, context))
        return self._registry.asking(lambda element: made(to_datum(element), context))


def _avro_writer(
    subject: Subject | str,
    schema: AvroSchema | str,
    url: str,
    registry: Configs | None,
    own: Configs | None,
    *,
    as_rows: bool,
) -> ConfluentRegistryAvroSerializationSchema:
    return ConfluentRegistryAvroSerializationSchema(
        subject, AvroSchema.of(schema), SchemaRegistry(url, registry), as_rows=as_rows, serializer_configs=own or {}
    )


class ConfluentRegistryJsonDeserializationSchema(ReadingSchema):
    """Deserializes rows from JSON that fits the JSON Schema which a message names (pystate only).

    Args:
        type_info: The type of the rows.
        url: The URL of the registry.
        registry_configs: Properties of its client.
    """

    def __init__(self, type_info: TypeInformation, url: str, registry_configs: Configs | None = None) -> None:
        self._rows = JsonRowDeserializationSchema.builder().type_info(type_info).build()
        self._registry = SchemaRegistry(url, registry_configs)
        self.produced_type = type_info
        self.what = f"JSON of a schema registry of {type_info.name}"
        registry_module("json_schema")

    @override
    def reader(self) -> Callable[[bytes], Any]:
        check = registry_module("json_schema").JSONDeserializer(None, schema_registry_client=self._registry.client())
        to_row = self._rows.deserialize

        def read(message: bytes) -> Any:
            check(message, _context(Subject()))
            return to_row(message[frame_bytes(message) :])

        return self._registry.reading(read)


class ConfluentRegistryJsonSerializationSchema(WritingSchema):
    """Serializes rows as JSON that fits a JSON Schema, and registers that (pystate only).

    Args:
        subject: The subject of the schema: its name, or one of `Subject`.
        type_info: The type of the rows.
        schema: The JSON Schema.
        url: The URL of the registry.
        registry_configs: Properties of its client.
        serializer_configs: Properties of confluent-kafka's `JSONSerializer`.
    """

    def __init__(
        self,
        subject: Subject | str,
        type_info: TypeInformation,
        schema: str,
        url: str,
        registry_configs: Configs | None = None,
        serializer_configs: Configs | None = None,
    ) -> None:
        self._rows = JsonRowSerializationSchema.builder().with_type_info(type_info).build()
        self._subject, self._schema, self._configs = Subject.of(subject), schema, dict(serializer_configs or {})
        self._registry = SchemaRegistry(url, registry_configs)
        self.what = type_info.name
        registry_module("json_schema")

    @override
    def writer(self) -> Callable[[Any], bytes]:
        made = registry_module("json_schema").JSONSerializer(
            self._schema, self._registry.client(), conf=_with_subject(self._configs, self._subject)
        )
        context, to_json = _context(self._subject), self._rows.serialize
        return self._registry.asking(lambda row: made(json.loads(to_json(row)), context))


class ConfluentRegistryProtobufDeserializationSchema(ReadingSchema):
    """Deserializes rows from messages of a generated class (pystate only).

    Args:
        message_class: The class.
        url: The URL of the registry.
        registry_configs: Properties of its client.
    """

    def __init__(self, message_class: type, url: str, registry_configs: Configs | None = None) -> None:
        self._class = MessageClass(message_class)
        self._registry = SchemaRegistry(url, registry_configs)
        self.produced_type = protobuf_rows(self._class.of_messages.DESCRIPTOR).type_info
        self.what = f"message {self._class.name} of Protobuf and a schema registry"
        registry_module("protobuf")

    @override
    def reader(self) -> Callable[[bytes], Any]:
        read = registry_module("protobuf").ProtobufDeserializer(
            self._class.of_messages, {"use.deprecated.format": False}, self._registry.client()
        )
        context, to_row = _context(Subject()), protobuf_rows(self._class.of_messages.DESCRIPTOR).to_row
        return self._registry.reading(lambda message: to_row(read(message, context)))


class ConfluentRegistryProtobufSerializationSchema(WritingSchema):
    """Serializes rows as messages of a generated class, and registers its schema (pystate only).

    Args:
        subject: The subject of the schema: its name, or one of `Subject`.
        message_class: The class.
        url: The URL of the registry.
        registry_configs: Properties of its client.
        serializer_configs: Properties of confluent-kafka's `ProtobufSerializer`.
    """

    def __init__(
        self,
        subject: Subject | str,
        message_class: type,
        url: str,
        registry_configs: Configs | None = None,
        serializer_configs: Configs | None = None,
    ) -> None:
        self._class = MessageClass(message_class)
        self._subject, self._configs = Subject.of(subject), dict(serializer_configs or {})
        self._registry = SchemaRegistry(url, registry_configs)
        self.what = protobuf_rows(self._class.of_messages.DESCRIPTOR).type_info.name
        registry_module("protobuf")

    @override
    def writer(self) -> Callable[[Any], bytes]:
        new = self._class.of_messages
        configs = {**_with_subject(self._configs, self._subject), "use.deprecated.format": False}
        made = registry_module("protobuf").ProtobufSerializer(new, self._registry.client(), configs)
        context, fill = _context(self._subject), protobuf_rows(new.DESCRIPTOR).fill

        def write(row: Any) -> Any:
            message = new()
            fill(message, row)
            return made(message, context)

        return self._registry.asking(write)


def _with_subject(configs: Configs, subject: Subject) -> dict[str, Any]:
    return {**configs, "subject.name.strategy": subject.subject_of}


def _context(subject: Subject) -> Any:
    from confluent_kafka.serialization import MessageField, SerializationContext

    return SerializationContext(subject.topic or "", MessageField.KEY if subject.of_key else MessageField.VALUE)
