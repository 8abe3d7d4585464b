"""Rows that replace others in a topic, and those that such a topic holds: Flink's upsert-kafka, as schemas of records.

The latest value of a key is its row, and a record without a value, a tombstone, says that the row is deleted. A topic with
`cleanup.policy=compact` keeps these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from pystate.common.errors import JobGraphError, RecordError
from pystate.common.overrides import override
from pystate.common.row import Row, RowKind, expect_kinds
from pystate.common.serialization import DeserializationSchema, SerializationSchema
from pystate.common.text.bounded_text import bounded_text
from pystate.common.type_info import TypeInformation, TypeKind, Types
from pystate.connectors.kafka.record_deserialization import ConsumerRecord, KafkaRecordDeserializationSchema
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema, ProducerRecord, record_timestamp

_SHOWN = 200


class ValueFieldsStrategy(Enum):
    """Which fields the value of a record has: Flink's `value.fields-include`."""

    ALL = "ALL"
    EXCEPT_KEY = "EXCEPT_KEY"


class UpsertFields:
    """How the fields of a row are in the key and in the value of its record.

    Args:
        row_type: The type of the rows.
        key_fields: The names of the fields of the key.
        include: Which fields the value has.

    Raises:
        JobGraphError: They don't go together.

    Attributes:
        key_type: The type of the rows that keys hold.
        value_type: The type of the rows that values hold.
    """

    def __init__(self, row_type: TypeInformation, key_fields: Sequence[str], include: ValueFieldsStrategy) -> None:
        if not isinstance(row_type, TypeInformation) or row_type.kind is not TypeKind.ROW or row_type.names is None:
            message = f"Rows of a topic with keys need a type with names, not {row_type!r}."
            raise JobGraphError(message, hint="Types.ROW_NAMED([...], [...])")
        self.row_type, self.names, self.keys = row_type, tuple(row_type.names), tuple(key_fields)
        if not self.keys or len(set(self.keys)) < len(self.keys) or not set(self.keys) <= set(self.names):
            message = f"The key fields {list(self.keys)} are no fields of {row_type.name}, or are named twice."
            raise JobGraphError(message, hint="name some fields of the row, each once")
        except_key = include is ValueFieldsStrategy.EXCEPT_KEY
        self.value_names = tuple(name for name in self.names if name not in self.keys) if except_key else self.names
        self.key_type, self.value_type = self._part(self.keys), self._part(self.value_names)

    def _part(self, names: tuple[str, ...]) -> TypeInformation:
        parts = dict(zip(self.names, self.row_type.elements, strict=True))
        return Types.ROW_NAMED(list(names), [parts[name] for name in names])


class UpsertKafkaRecordSerializationSchema(KafkaRecordSerializationSchema):
    """Makes the record of a row: its value for INSERT and UPDATE_AFTER, a tombstone for DELETE, none for UPDATE_BEFORE.

    Args:
        topic: The topic, which should be compacted.
        row_type: The type of the rows.
        key_fields: The names of the fields of the key.
        key_schema: Serializes rows of the key's fields.
        value_schema: Serializes rows of the value's fields.
        value_fields_include: Which fields the value has.

    Raises:
        JobGraphError: They don't go together.
    """

    def __init__(
        self,
        topic: str,
        row_type: TypeInformation,
        key_fields: Sequence[str],
        key_schema: SerializationSchema,
        value_schema: SerializationSchema,
        value_fields_include: ValueFieldsStrategy = ValueFieldsStrategy.ALL,
    ) -> None:
        super().__init__()
        if not isinstance(topic, str) or not topic:
            message = f"A topic has a name, not {topic!r}."
            raise JobGraphError(message)
        for schema in (key_schema, value_schema):
            if not isinstance(schema, SerializationSchema):
                message = f"Rows of a topic with keys need schemas of keys and of values, not {schema!r}."
                raise JobGraphError(message, hint="JsonRowSerializationSchema is one; your own extends SerializationSchema")
        self._fields = UpsertFields(row_type, key_fields, value_fields_include)
        self._topic, self._key_schema, self._value_schema = topic, key_schema, value_schema

    @property
    @override
    def consumed_type(self) -> TypeInformation:
        return self._fields.row_type

    @override
    def record_of(self, element: Any, timestamp: int | None) -> ProducerRecord | None:
        kind = element.get_row_kind() if isinstance(element, Row) else RowKind.INSERT
        if kind is RowKind.UPDATE_BEFORE:
            return None
        key_schema, value_schema, topic = self._key_schema, self._value_schema, self._topic
        assert key_schema is not None  # noqa: S101 - checked when the schema was made
        assert value_schema is not None  # noqa: S101
        assert topic is not None  # noqa: S101
        fields = dict(zip(self._fields.names, self._values(element), strict=True))
        key = key_schema.serialize(Row.of_fields(self._fields.keys, [fields[name] for name in self._fields.keys]))
        value = None
        if kind is not RowKind.DELETE:
            names = self._fields.value_names
            value = value_schema.serialize(Row.of_fields(names, [fields[name] for name in names]))
        return topic, key, value, record_timestamp(timestamp)

    def _values(self, element: Any) -> Sequence[Any]:
        names = self._fields.names
        if isinstance(element, Row) and len(element) == len(names):
            return element.values_as(names)
        if isinstance(element, tuple) and len(element) == len(names):
            return element
        message = f"{bounded_text(repr(element), _SHOWN)} is no {self._fields.row_type.name}."
        raise RecordError(message, hint="hand the sink rows of the type that it was made for")


class UpsertKafkaRecordDeserializationSchema(KafkaRecordDeserializationSchema):
    """Makes the row of a record: an UPDATE_AFTER, or for a tombstone a DELETE, in which the fields of the key are set.

    Args:
        row_type: The type of the rows.
        key_fields: The names of the fields of the key.
        key_schema: Deserializes rows of the key's fields.
        value_schema: Deserializes rows of the value's fields.
        value_fields_include: Which fields the value has.

    Raises:
        JobGraphError: They don't go together.
    """

    def __init__(
        self,
        row_type: TypeInformation,
        key_fields: Sequence[str],
        key_schema: DeserializationSchema,
        value_schema: DeserializationSchema,
        value_fields_include: ValueFieldsStrategy = ValueFieldsStrategy.ALL,
    ) -> None:
        for schema in (key_schema, value_schema):
            if not isinstance(schema, DeserializationSchema) or schema.makes_several:
                message = f"Rows of a topic with keys need schemas of keys and of values, not {schema!r}."
                hint = "JsonRowDeserializationSchema is one; your own extends DeserializationSchema"
                raise JobGraphError(message, hint=hint)
        expect_kinds()
        self._fields = UpsertFields(row_type, key_fields, value_fields_include)
        self._key_schema, self._value_schema = key_schema, value_schema
        self.produced_type = row_type

    @override
    def deserialize(self, record: ConsumerRecord) -> Iterator[Row]:
        fields = self._fields
        if record.key is None:
            message = "A record without a key is in a topic whose records replace others by their keys."
            raise RecordError(message, hint="look what writes the topic; set_bad_records(...) leaves such records out")
        found: dict[str, Any] = {}
        if record.value is not None:
            value = self._value_schema.deserialize(record.value)
            if value is None:  # of a schema that leaves wrong ones out
                return
            found.update(zip(fields.value_names, _values(value, fields.value_names), strict=True))
        if record.value is None or len(fields.value_names) < len(fields.names):
            key = self._key_schema.deserialize(record.key)
            if key is None:
                return
            found.update(zip(fields.keys, _values(key, fields.keys), strict=True))
        row = Row.of_fields(fields.names, [found.get(name) for name in fields.names])
        row.set_row_kind(RowKind.DELETE if record.value is None else RowKind.UPDATE_AFTER)
        yield row


def _values(row: Any, names: tuple[str, ...]) -> Sequence[Any]:
    if not isinstance(row, Row) or len(row) != len(names):
        message = f"{bounded_text(repr(row), _SHOWN)} is no row of {', '.join(names)}."
        raise RecordError(message, hint="give the schema of keys the type of the key's fields, that of values theirs")
    return row.values_as(names)


class UpsertBuffer:
    """Keeps the latest record of each key until it is written.

    Args:
        most: The number of keys; more make it full.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._records: dict[tuple[str, bytes | None], ProducerRecord] = {}

    def add(self, record: ProducerRecord) -> list[ProducerRecord]:
        """Add a record in the place of an earlier one of its key; return what is to be written now."""
        self._records[record[0], record[1]] = record
        return self.drain() if len(self._records) >= self._most else []

    def drain(self) -> list[ProducerRecord]:
        """Take out all records."""
        records = list(self._records.values())
        self._records.clear()
        return records
