"""Writes records as they come: at-least-once, or less."""

from __future__ import annotations

from typing import Any

from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.kafka.client import (
    KafkaConnectorError,
    client_settings,
    kafka_client,
    new_client,
    reason,
)
from pystate.connectors.kafka.records import KafkaRecordSerializationSchema
from pystate.connectors.sink import SinkWriter

_FLUSH_STEP_S = 1.0
_PARTITIONER = "murmur2_random"
"""The Java client's: a key goes to the same partition whoever writes it."""


def producer_settings(properties: dict[str, str], **own: Any) -> dict[str, Any]:
    """Return the settings of a producer that neither doubles nor reorders what it sends again."""
    safe = {"enable.idempotence": True, "partitioner": _PARTITIONER, "linger.ms": 5, "compression.type": "lz4"}
    return client_settings(properties, **safe, **own)


def produce(producer: Any, record: Any, on_delivery: Any) -> None:
    """Hand a record to a producer; waits where its queue is full."""
    topic, key, value, timestamp = record
    more = {} if timestamp is None else {"timestamp": timestamp}
    while True:
        try:
            producer.produce(topic, value=value, key=key, on_delivery=on_delivery, **more)
        except BufferError:
            producer.poll(0.1)
        else:
            break
    producer.poll(0)


class KafkaWriter(SinkWriter[Any]):
    """Sends each record at once; at a checkpoint it waits until all have arrived.

    Args:
        properties: The client's.
        schema: Makes records of elements.
        guarantee: With NONE, nothing waits for records to arrive but the end of the input.
        where: For errors.
    """

    def __init__(
        self, properties: dict[str, str], schema: KafkaRecordSerializationSchema, guarantee: DeliveryGuarantee, where: str
    ) -> None:
        own = {} if guarantee is DeliveryGuarantee.AT_LEAST_ONCE else {"enable.idempotence": False}
        self._producer = new_client("Producer", {**producer_settings(properties), **own}, where)
        self._schema = schema
        self._waits = guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        self._where = where
        self._failure: Any = None

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Send an element.

        Raises:
            KafkaConnectorError: An earlier one could not be delivered.
        """
        self._check()
        produce(self._producer, self._schema.record_of(element, context.timestamp()), self._delivered)

    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Wait until all records have arrived, or one is given up (`delivery.timeout.ms`).

        Raises:
            KafkaConnectorError: One could not be delivered.
        """
        if self._waits or end_of_input:
            while self._producer.flush(_FLUSH_STEP_S):
                self._check()
        self._check()

    def close(self) -> None:
        """Drop what hasn't been sent: a job that goes on behind its checkpoint writes it again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = (error, message.topic())

    def _check(self) -> None:
        if self._failure is None:
            return
        error, topic = self._failure
        self._failure = None
        message = f"A record could not be written to topic {topic!r}: {reason(kafka_client().KafkaException(error))}."
        raise KafkaConnectorError(message, where=self._where) from kafka_client().KafkaException(error)
