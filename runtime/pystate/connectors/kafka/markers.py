"""Markers: which committables are in Kafka already.

A marker is a record of a topic of ours (`pystate-commits`), written in the transaction that holds a committable's records:
its key is the transactional id, its value the committable's id. So both are there or neither is.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

from pystate.connectors.kafka.client import (
    BOOTSTRAP_SERVERS,
    REQUEST_TIMEOUT_S,
    KafkaConnectorError,
    client_settings,
    kafka_client,
    new_admin,
    new_client,
    reason,
)

_LOG = logging.getLogger(__name__)

MARKER_TOPIC = "pystate-commits"
PARTITIONS = 8
"""How many partitions of the topic are used; whatever further ones somebody adds."""
CLOCK_SLACK_MS = 60 * 60 * 1000
"""By how much the clocks of slots and brokers may differ."""
_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": str(16 << 20)}
_POLL_S = 0.5


def marker_partition(transactional_id: str) -> int:
    """Return the partition with the markers of a transactional id."""
    return zlib.crc32(transactional_id.encode()) % PARTITIONS


class Markers:
    """Reads markers.

    Args:
        properties: The client's.
        topic: Where markers are.
        where: For errors.
        clock_ms: Returns ms since 1970.
    """

    def __init__(
        self,
        properties: dict[str, str],
        topic: str,
        where: str,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._properties = properties
        self._topic = topic
        self._where = where
        self._clock_ms = clock_ms

    def make_topic(self) -> None:
        """Make the topic, where it isn't there.

        Raises:
            KafkaConnectorError: It can't be made, or has too few partitions.
        """
        client, admin = kafka_client(), new_admin(self._properties, self._where)
        new = kafka_client("confluent_kafka.admin").NewTopic(self._topic, PARTITIONS, config=_CONFIG)
        try:
            known = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics.get(self._topic)
            if known is None:
                admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S)[self._topic].result(REQUEST_TIMEOUT_S)
                return
        except client.KafkaException as error:
            if error.args[0].code() == client.KafkaError.TOPIC_ALREADY_EXISTS:
                return
            message = f"The topic for markers, {self._topic!r}, can't be made: {reason(error)}."
            raise KafkaConnectorError(message, where=self._where, hint=self._hint()) from error
        if len(known.partitions) < PARTITIONS:
            message = (
                f"The topic for markers, {self._topic!r}, has {len(known.partitions)} partitions, and needs {PARTITIONS}."
            )
            raise KafkaConnectorError(message, where=self._where, hint=self._hint())

    def committed(self, transactional_id: str, since_ms: int) -> set[str]:
        """Return the ids of the committables of a transactional id that are in Kafka.

        To be asked by who holds the transactional id: then no transaction of it is open, and none can be begun.

        Args:
            transactional_id: Whose.
            since_ms: When the oldest committable was made that is asked for, ms since 1970.

        Raises:
            KafkaException: The topic can't be read to its end by now.
            KafkaConnectorError: It doesn't reach back so far, so that nobody knows.
        """
        settings = client_settings(
            self._properties,
            **{
                "group.id": transactional_id,  # the client wants one; nothing is kept under it
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            },
        )
        with closing(new_client("Consumer", settings, self._where)) as consumer:
            return self._read(consumer, transactional_id, since_ms - CLOCK_SLACK_MS)

    def _read(self, consumer: Any, transactional_id: str, since_ms: int) -> set[str]:
        client = kafka_client()
        partition = marker_partition(transactional_id)
        asked = client.TopicPartition(self._topic, partition, since_ms)
        end = self._end(partition)
        self._check_reach(since_ms)
        begin = consumer.offsets_for_times([asked], REQUEST_TIMEOUT_S)[0].offset
        if begin < 0:  # no marker is as young
            return set()
        consumer.assign([client.TopicPartition(self._topic, partition, begin)])
        found: set[str] = set()
        place, deadline, key = begin, time.monotonic() + 2 * REQUEST_TIMEOUT_S, transactional_id.encode()
        while place < end:
            if time.monotonic() > deadline:
                message = f"the markers in {self._topic!r} can't be read to their end: another transaction is open"
                raise client.KafkaException(client.KafkaError(client.KafkaError._TIMED_OUT, message))  # noqa: SLF001
            message_or_none = consumer.poll(_POLL_S)
            if message_or_none is None:
                continue
            error = message_or_none.error()
            if error is None:
                place = message_or_none.offset() + 1
                if message_or_none.key() == key:
                    found.add(message_or_none.value().decode())
            elif error.code() == client.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                place = max(place, message_or_none.offset())
            elif not error.retriable():
                raise client.KafkaException(error)
        return found

    def _check_reach(self, since_ms: int) -> None:
        """Refuse to look for a marker that the brokers may have dropped by now."""
        client, admin = kafka_client(), kafka_client("confluent_kafka.admin")
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, self._topic)
        asking = new_admin(self._properties, self._where)  # what it answers ends with it
        asked = asking.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        try:
            kept_ms = int(asked[resource].result(REQUEST_TIMEOUT_S)["retention.ms"].value)
        except client.KafkaException as error:
            if error.args[0].code() != client.KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            _LOG.warning("How long %s keeps markers can't be asked: %s", self._topic, reason(error))
            return
        if 0 <= kept_ms < self._clock_ms() - since_ms:
            message = (
                f"The topic {self._topic!r} has dropped markers of the time when a committable was made: nobody knows any "
            )
            message += "more whether its records are in Kafka."
            hint = "start from a younger savepoint, and let the topic keep markers longer than savepoints live: retention.ms"
            raise KafkaConnectorError(message, where=self._where, hint=hint)

    def _end(self, partition: int) -> int:
        """Return where the partition ends, open transactions in it counted: none of ours is open."""
        client, admin = kafka_client(), kafka_client("confluent_kafka.admin")
        where = client.TopicPartition(self._topic, partition)
        asking = new_admin(self._properties, self._where)
        asked = asking.list_offsets(
            {where: admin.OffsetSpec.latest()},
            isolation_level=client.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        return int(asked[where].result(REQUEST_TIMEOUT_S).offset)

    def _hint(self) -> str:
        config = " ".join(f"--config {key}={value}" for key, value in _CONFIG.items())
        servers = self._properties.get(BOOTSTRAP_SERVERS, "...")
        return (
            f"let the user of the job make it, or make it yourself: kafka-topics.sh --bootstrap-server {servers} --create "
            f"--topic {self._topic} --partitions {PARTITIONS} {config}"
        )
