"""Deserialization of Kafka records to elements, by their values alone or with all that a record has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pystate.common.errors import JobGraphError
from pystate.common.serialization import DeserializationSchema
from pystate.common.type_info import TypeInformation
from pystate.connectors.bad_records import BadRecords, Refused, is_of_the_record, why


class ConsumerRecord(NamedTuple):
    """A record of Kafka, as a `KafkaRecordDeserializationSchema` gets it.

    Attributes:
        topic: Its topic.
        partition: Its partition.
        offset: Its offset.
        timestamp: Its time, ms since 1970; None if it has none.
        key: Its key; None if it has none.
        value: Its value; None of a tombstone.
        headers: Its headers, in order: a name may come several times, a value may be None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class KafkaRecordDeserializationSchema(ABC):
    """Deserializes whole records: a tombstone, a key, headers and times are there to be looked at.

    Attributes:
        produced_type: The type of the elements; None if it is left open, and they travel pickled.
    """

    produced_type: TypeInformation | None = None

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Iterable[Any] | None:
        """Return, or yield, the elements of a record; none to leave it out."""

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Return the schema that looks at values alone; records without one make no element.

        Raises:
            JobGraphError: It isn't a `DeserializationSchema`.
        """
        return ValueOnly(deserialization_schema)


class ValueOnly(KafkaRecordDeserializationSchema):
    """Deserializes values.

    Args:
        schema: Their schema.

    Raises:
        JobGraphError: It isn't one.

    Attributes:
        schema: The schema.
    """

    def __init__(self, schema: DeserializationSchema) -> None:
        if not isinstance(schema, DeserializationSchema):
            message = f"A DeserializationSchema is needed, not {schema!r}."
            raise JobGraphError(message, hint="SimpleStringSchema() is one; your own extends DeserializationSchema")
        self.schema = schema
        self.produced_type = schema.produced_type

    def deserialize(self, record: ConsumerRecord) -> Iterable[Any]:
        """Return the elements of a value."""
        if record.value is None:
            return ()
        made = self.schema.deserialize(record.value)
        if self.schema.makes_several:
            return made if made is not None else ()
        return () if made is None else (made,)


class RecordReading:
    """How the records of a source become elements.

    Args:
        schema: Makes the elements.
        bad_records: What is done with records that the schema refuses.

    Attributes:
        of_value: Makes an element, or None, of a value, where nothing else of a record is needed; None where it is.
    """

    def __init__(self, schema: KafkaRecordDeserializationSchema, bad_records: BadRecords) -> None:
        self._schema = schema
        self._bad_records = bad_records
        self.of_value: Callable[[bytes], Any] | None = None
        if isinstance(schema, ValueOnly) and not schema.schema.makes_several and not bad_records.skips:
            self.of_value = schema.schema.deserialize

    def elements(self, record: ConsumerRecord, refuse: Callable[[Refused], None]) -> Sequence[Any]:
        """Return the elements of a record.

        Args:
            record: The record.
            refuse: Takes a record that is refused, where the program goes on without such ones.

        Raises:
            Exception: The schema's error, if such records fail the job, or if it isn't about the record.
        """
        try:
            return list(self._schema.deserialize(record) or ())
        except Exception as error:
            if not self._bad_records.skips or not is_of_the_record(error):
                raise
            topic, partition, offset, timestamp, key, value, _ = record
            refuse(Refused(value, topic, offset, why(error), key, partition, timestamp))
            return ()
