"""Serialization of elements to Kafka records: topic, key and value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pystate.common.errors import JobGraphError
from pystate.common.serialization import SerializationSchema
from pystate.common.type_info import TypeInformation

ProducerRecord = tuple[str, bytes | None, bytes | None, int | None]
"""Topic, key, value and timestamp (ms since 1970) of a record."""


class KafkaTopicSelector(ABC):
    """Selects the topic of an element."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic."""


class KafkaRecordSerializationSchema:
    """Makes a record from an element; made by `builder()`, or subclassed.

    Args:
        topic_selector: Selects the topic of an element.
    """

    def __init__(self, topic_selector: KafkaTopicSelector | None = None) -> None:
        self._topic_selector = topic_selector
        self._topic: str | None = None
        self._key_schema: SerializationSchema | None = None
        self._value_schema: SerializationSchema | None = None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder."""
        return KafkaRecordSerializationSchemaBuilder()

    @property
    def consumed_type(self) -> TypeInformation | None:
        """The type of the elements that it takes; None if it is left open."""
        schema = getattr(self, "_value_schema", None)  # a subclass may have an __init__ of its own
        return schema.consumed_type if isinstance(schema, SerializationSchema) else None

    def record_of(self, element: Any, timestamp: int | None) -> ProducerRecord | None:
        """Return the record of an element; None to leave it out.

        Args:
            element: The element.
            timestamp: The element's timestamp, ms since 1970; None for none, see `record_timestamp`.
        """
        selector, key_schema, value_schema = self._topic_selector, self._key_schema, self._value_schema
        topic = self._topic if selector is None else selector.apply(element)
        if type(topic) is not str or value_schema is None:
            message = f"The topic of an element must be a text, not {topic!r}."
            raise JobGraphError(message, where=type(self).__name__, hint="return the topic's name from apply()")
        key = None if key_schema is None else key_schema.serialize(element)
        return topic, key, value_schema.serialize(element), record_timestamp(timestamp)


def record_timestamp(timestamp: int | None) -> int | None:
    """Return the timestamp of a record, ms since 1970; None lets the broker use the arrival time.

    It does so for elements without one and, as in Flink, for times before 1970. 0 becomes 1, since the client takes 0 for
    none.
    """
    return None if timestamp is None or timestamp < 0 else timestamp or 1


class _OfFunction(KafkaTopicSelector):
    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def apply(self, data: Any) -> str:
        """Return the topic."""
        return self._function(data)


class KafkaRecordSerializationSchemaBuilder:
    """Builds a schema from topic or topic selector, key and value."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._selector: KafkaTopicSelector | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all elements to one topic.

        Raises:
            JobGraphError: It isn't a topic name, or the topic is already set.
        """
        self._check_no_topic()
        if not isinstance(topic, str) or not topic:
            message = f"set_topic() takes the name of a topic, not {topic!r}."
            raise JobGraphError(message)
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic by element.

        Raises:
            JobGraphError: It isn't callable, or the topic is already set.
        """
        self._check_no_topic()
        if not isinstance(topic_selector, KafkaTopicSelector):
            if not callable(topic_selector):
                message = f"set_topic_selector() takes a KafkaTopicSelector, not {topic_selector!r}."
                raise JobGraphError(message)
            topic_selector = _OfFunction(topic_selector)
        self._selector = topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of the key, by which Kafka chooses the partition; without it, records have no key.

        Raises:
            JobGraphError: It isn't a schema.
        """
        self._key = _schema("set_key_serialization_schema", key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of the value.

        Raises:
            JobGraphError: It isn't a schema.
        """
        self._value = _schema("set_value_serialization_schema", value_serialization_schema)
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema.

        Raises:
            JobGraphError: Topic or value is missing.
        """
        if self._value is None:
            message = "A record needs a value."
            raise JobGraphError(message, hint="call set_value_serialization_schema(SimpleStringSchema())")
        if self._topic is None and self._selector is None:
            message = "A record needs a topic."
            raise JobGraphError(message, hint="call set_topic(...) or set_topic_selector(...)")
        schema = KafkaRecordSerializationSchema(self._selector)
        schema._topic, schema._key_schema, schema._value_schema = self._topic, self._key, self._value  # noqa: SLF001
        return schema

    def _check_no_topic(self) -> None:
        if self._topic is not None or self._selector is not None:
            message = "The topic is set already: a record has one topic, or one selector of topics."
            raise JobGraphError(message)


def _schema(call: str, schema: Any) -> SerializationSchema:
    if not isinstance(schema, SerializationSchema):
        message = f"{call}() takes a SerializationSchema, not {schema!r}."
        raise JobGraphError(message, hint="SimpleStringSchema() is one; your own extends SerializationSchema")
    return schema
