"""The writer for at-least-once and for no guarantee: sends records immediately."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.kafka.kafka_client import (
    KafkaConnectorError,
    client_settings,
    kafka_client,
    new_client,
    reason,
)
from pystate.connectors.kafka.kafka_failures import Failure, failure_of
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema, ProducerRecord
from pystate.connectors.kafka.sink.topic_limits import HINT, TopicLimits
from pystate.connectors.kafka.upserts import UpsertBuffer
from pystate.connectors.sink import SinkWriter

_LOG = logging.getLogger(__name__)

_FLUSH_STEP_S = 1.0
_POLL_S = 0.01
_DROP_S = 1.0
_RECORDS_PER_POLL = 100
_PARTITIONER = "murmur2_random"
"""The Java client's: a key goes to the same partition whoever writes it."""


def producer_settings(properties: dict[str, str], **own: Any) -> dict[str, Any]:
    """Return the settings of a producer whose retries neither duplicate nor reorder records."""
    safe = {"enable.idempotence": True, "partitioner": _PARTITIONER, "linger.ms": 5, "compression.type": "lz4"}
    return client_settings(properties, **{"delivery.report.only.error": True}, **safe, **own)


class FailedDelivery(NamedTuple):
    """A record that was not delivered.

    Attributes:
        error: The error of the client.
        record: Topic, key and value; the client doesn't report the timestamp.
    """

    error: Any
    record: tuple[str, bytes | None, bytes | None]


class RecordSender:
    """Passes records to a producer; waits while its queue is full.

    Args:
        producer: The client's producer, which reports only failures (`producer_settings`).

    Attributes:
        failure: The first failed delivery that isn't a consequence of another one, or just the first; None for none.
    """

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._until_poll = _RECORDS_PER_POLL
        self.failure: FailedDelivery | None = None

    def send(self, record: ProducerRecord) -> None:
        """Pass a record to the producer. Failed deliveries are polled for now and then."""
        topic, key, value, timestamp = record
        more = {} if timestamp is None else {"timestamp": timestamp}
        self.send_as(topic, value=value, key=key, **more)

    def send_as(self, topic: str, **more: Any) -> None:
        """Pass a record to the producer, with more arguments of the client's `produce`."""
        while True:
            try:
                self._producer.produce(topic, on_delivery=self.delivered, **more)
            except BufferError:
                self._producer.poll(_POLL_S)  # successful deliveries don't wake it
            except kafka_client().KafkaException as error:
                if failure_of(error.args[0]) is Failure.RECORD:
                    self.failure = FailedDelivery(error.args[0], (topic, more.get("key"), more.get("value")))
                raise
            else:
                break
        self._until_poll -= 1
        if not self._until_poll:
            self._until_poll = _RECORDS_PER_POLL
            self._producer.poll(0)

    def drain(self, timeout_s: float) -> int:
        """Wait until all records are delivered or failed; return how many are left after the timeout.

        Doesn't use the client's `flush`: on a fatal error that calls back with an exception set, and may end the process.

        Raises:
            KafkaException: The client has a fatal error.
        """
        deadline = time.monotonic() + timeout_s
        while left := len(self._producer):
            self._producer.poll(_POLL_S)
            if time.monotonic() > deadline:
                return left
        self._producer.poll(0)
        return 0

    def drop(self) -> None:
        """Drop all undelivered records."""
        self._producer.purge()
        try:
            self.drain(_DROP_S)
        except kafka_client().KafkaException:  # once, of a client that can't continue
            self.drain(_DROP_S)

    def delivered(self, error: Any, message: Any) -> None:
        """Record a failed delivery; the client's callback."""
        if error is None:
            return
        if self.failure is None or (
            failure_of(self.failure.error) is Failure.CONSEQUENCE and failure_of(error) is not Failure.CONSEQUENCE
        ):
            self.failure = FailedDelivery(error, (message.topic(), message.key(), message.value()))


class KafkaWriter(SinkWriter[Any]):
    """Sends each record immediately; at a checkpoint it waits until all are delivered.

    Args:
        properties: The properties of the client.
        schema: Makes records from elements.
        guarantee: With NONE, only the end of the input waits for deliveries.
        where: For errors.
        dead_letter_topic: The topic for records that violate a limit of their topic; None: they fail the job.
        count_dead_letters: Called with the number of records sent there.
        buffer: Keeps the latest record of each key; None to send them all.
    """

    def __init__(
        self,
        properties: dict[str, str],
        schema: KafkaRecordSerializationSchema,
        guarantee: DeliveryGuarantee,
        where: str,
        dead_letter_topic: str | None = None,
        count_dead_letters: Callable[[int], None] = lambda _: None,
        buffer: UpsertBuffer | None = None,
    ) -> None:
        self._buffer = buffer
        own = {} if guarantee is DeliveryGuarantee.AT_LEAST_ONCE else {"enable.idempotence": False}
        self._producer = new_client("Producer", {**producer_settings(properties), **own}, where)
        self._sender = RecordSender(self._producer)
        self._record_of = schema.record_of
        self._waits = guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        self._where = where
        self._limits = TopicLimits(properties, where)
        self._dead_letter_topic = dead_letter_topic
        self._count_dead_letters = count_dead_letters

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Send an element.

        Raises:
            KafkaConnectorError: An earlier one could not be delivered.
        """
        if self._sender.failure is not None:
            self._check()
        record = self._record_of(element, context.timestamp())
        if record is None:
            return
        for one in [record] if self._buffer is None else self._buffer.add(record):
            self._send(one)

    def _send(self, record: ProducerRecord) -> None:
        # a rejected batch loses its other records, too, so it must be avoided
        refused = None if self._dead_letter_topic is None else self._limits.refusal(record)
        if refused is None:
            try:
                self._sender.send(record)
            except kafka_client().KafkaException as error:
                self._sender.failure = None
                raise self._failed(error.args[0], record) from error
        else:
            _LOG.warning("%s: to %s goes %s", self._where, self._dead_letter_topic, refused)
            self._sender.send_as(str(self._dead_letter_topic), **refused.dead_letter())
            self._count_dead_letters(1)

    def flush(self, end_of_input: bool) -> None:  # noqa: FBT001 - Flink's signature
        """Wait until all records are delivered, or one times out (`delivery.timeout.ms`).

        Raises:
            KafkaConnectorError: One could not be delivered.
        """
        for record in () if self._buffer is None else self._buffer.drain():
            self._send(record)
        try:
            if self._waits or end_of_input:
                while self._sender.drain(_FLUSH_STEP_S):
                    self._check()
            else:
                self._producer.poll(0)
        except kafka_client().KafkaException as error:
            raise self._failed(error.args[0]) from error
        self._check()

    def close(self) -> None:
        """Drop unsent records: a job restored from its checkpoint writes them again."""
        producer, self._producer = self._producer, None
        if producer is not None:
            self._sender.drop()

    def _check(self) -> None:
        if self._sender.failure is not None:
            failed, self._sender.failure = self._sender.failure, None
            raise self._failed(failed.error, (*failed.record, None)) from kafka_client().KafkaException(failed.error)

    def _failed(self, error: Any, record: ProducerRecord | None = None) -> KafkaConnectorError:
        said = reason(kafka_client().KafkaException(error))
        if record is None:
            return KafkaConnectorError(f"Records could not be written: {said}.", where=self._where)
        message = f"A record could not be written to topic {record[0]!r}: {said}."
        if failure_of(error) is not Failure.RECORD:
            return KafkaConnectorError(message, where=self._where)
        # brokers reject a whole batch, and this may not be the record that caused it
        message += f" It is {self._limits.refused(record, said)}, or another one of its batch."
        return KafkaConnectorError(message, where=self._where, hint=HINT)
