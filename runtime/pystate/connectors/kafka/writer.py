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
from pystate.connectors.kafka.records import KafkaRecordSerializationSchema, ProducerRecord
from pystate.connectors.sink import SinkWriter

_FLUSH_STEP_S = 1.0
_RECORDS_PER_POLL = 100
_PARTITIONER = "murmur2_random"
"""The Java client's: a key goes to the same partition whoever writes it."""


def producer_settings(properties: dict[str, str], **own: Any) -> dict[str, Any]:
    """Return the settings of a producer that neither doubles nor reorders what it sends again."""
    safe = {"enable.idempotence": True, "partitioner": _PARTITIONER, "linger.ms": 5, "compression.type": "lz4"}
    return client_settings(properties, **{"delivery.report.only.error": True}, **safe, **own)


class RecordSender:
    """Hands records to a producer; waits where its queue is full.

    Args:
        producer: Of the client, which reports failures only (`producer_settings`).

    Attributes:
        failure: The first error of a delivery, as the client's event has it, and the topic; None for none so far.
    """

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._until_poll = _RECORDS_PER_POLL
        self.failure: tuple[Any, str] | None = None

    def send(self, record: ProducerRecord) -> None:
        """Hand a record over. Whether deliveries failed is heard of once in a while."""
        topic, key, value, timestamp = record
        more = {} if timestamp is None else {"timestamp": timestamp}
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self.delivered, **more)
            except BufferError:
                self._producer.poll(0.01)  # nobody wakes it where deliveries succeed
            else:
                break
        self._until_poll -= 1
        if not self._until_poll:
            self._until_poll = _RECORDS_PER_POLL
            self._producer.poll(0)

    def delivered(self, error: Any, message: Any) -> None:
        """Take note of a delivery that failed; the client's callback."""
        if error is not None and self.failure is None:
            self.failure = error, message.topic()


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
        self._sender = RecordSender(self._producer)
        self._record_of = schema.record_of
        self._waits = guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        self._where = where

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Send an element.

        Raises:
            KafkaConnectorError: An earlier one could not be delivered.
        """
        if self._sender.failure is not None:
            self._check()
        self._sender.send(self._record_of(element, context.timestamp()))

    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Wait until all records have arrived, or one is given up (`delivery.timeout.ms`).

        Raises:
            KafkaConnectorError: One could not be delivered.
        """
        if self._waits or end_of_input:
            while self._producer.flush(_FLUSH_STEP_S):
                self._check()
        else:
            self._producer.poll(0)
        self._check()

    def close(self) -> None:
        """Drop what hasn't been sent: a job that goes on behind its checkpoint writes it again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _check(self) -> None:
        if self._sender.failure is None:
            return
        error, topic = self._sender.failure
        self._sender.failure = None
        message = f"A record could not be written to topic {topic!r}: {reason(kafka_client().KafkaException(error))}."
        raise KafkaConnectorError(message, where=self._where) from kafka_client().KafkaException(error)
