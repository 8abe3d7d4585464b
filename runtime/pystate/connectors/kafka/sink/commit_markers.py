"""Commit markers: which committables are already in Kafka.

A marker is a record in a topic of pystate's (`pystate-commits`), written in the transaction that holds a committable's
records: its key is the transactional id, its value the committable's id. So either both exist or neither. Markers are kept
    for ever, and read if the id's register (`commit_register.py`) doesn't know. Reading waits for other ids' transactions in
    the same partition.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

from pystate.connectors.kafka.kafka_client import (
    BOOTSTRAP_SERVERS,
    REQUEST_TIMEOUT_S,
    KafkaConnectorError,
    answer_of,
    client_settings,
    kafka_client,
    new_admin,
    new_client,
    reason,
    topic_id_of,
)

_LOG = logging.getLogger(__name__)

MARKER_TOPIC = "pystate-commits"
PARTITIONS = 8
"""How many partitions of the topic are used; whatever further ones somebody adds."""
CLOCK_SLACK_MS = 60 * 60 * 1000
"""By how much the clocks of slots and brokers may differ."""
_CONFIG = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "segment.bytes": str(16 << 20)}
_POLL_S = 0.5
UNKNOWN_HINT = (
    "look whether the newest records are in the topic, and say it: pystate run -s ... "
    "-D pystate.sink.unknown-commits=WRITE (they aren't) or LEAVE_OUT (they are); and let the topic of markers be, with "
    "retention.ms longer than savepoints live"
)


class UnknownCommitError(KafkaConnectorError):
    """It can't be known whether a committable is in Kafka."""


def marker_partition(transactional_id: str) -> int:
    """Return the partition with the markers of a transactional id."""
    return zlib.crc32(transactional_id.encode()) % PARTITIONS


class Markers:
    """Reads markers.

    Args:
        properties: The properties of the client.
        topic: The topic of markers, unless a committable names another.
        where: For errors.
        clock_ms: Returns ms since 1970.

    Attributes:
        topic: As given.
    """

    def __init__(
        self,
        properties: dict[str, str],
        topic: str,
        where: str,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._properties = properties
        self.topic = topic
        self._where = where
        self._clock_ms = clock_ms

    def make_topic(self) -> None:
        """Create the topic if it doesn't exist.

        Raises:
            KafkaConnectorError: It can't be created, or has too few partitions.
        """
        client, admin = kafka_client(), new_admin(self._properties, self._where)
        new = kafka_client("confluent_kafka.admin").NewTopic(self.topic, PARTITIONS, config=_CONFIG)
        try:
            known = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics.get(self.topic)
        except client.KafkaException as error:
            servers = self._properties.get(BOOTSTRAP_SERVERS)
            message = f"Kafka's brokers don't say whether the topic for markers, {self.topic!r}, is there: {reason(error)}."
            hint = f"look at {BOOTSTRAP_SERVERS} ({servers}), and whether they are busy"
            raise KafkaConnectorError(message, where=self._where, hint=hint) from error
        try:
            if known is None:
                answer_of(admin.create_topics([new], request_timeout=REQUEST_TIMEOUT_S)[self.topic])
                return
        except client.KafkaException as error:
            if error.args[0].code() == client.KafkaError.TOPIC_ALREADY_EXISTS:
                return
            message = f"The topic for markers, {self.topic!r}, can't be made: {reason(error)}."
            raise KafkaConnectorError(message, where=self._where, hint=self._hint()) from error
        if len(known.partitions) < PARTITIONS:
            message = (
                f"The topic for markers, {self.topic!r}, has {len(known.partitions)} partitions, and needs {PARTITIONS}."
            )
            raise KafkaConnectorError(message, where=self._where, hint=self._hint())

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic, which changes when the topic is recreated; None if brokers have no ids.

        Raises:
            KafkaException: The request fails.
        """
        client, asking = kafka_client(), new_admin(self._properties, self._where)  # what it answers ends with it
        asked = asking.describe_topics(client.TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)[topic]
        return topic_id_of(answer_of(asked))

    def committed(
        self,
        transactional_id: str,
        since_ms: int,
        topic: str | None = None,
        topic_id: str | None = None,
        *,
        proven: bool = True,
        unstamped: str | None = None,
    ) -> set[str]:
        """Return the ids of the committables of a transactional id that are in Kafka.

        The caller has to hold the transactional id: then no transaction of it is open, and none can begin.

        Args:
            transactional_id: The id.
            since_ms: When the oldest of these committables was made, ms since 1970.
            topic: The topic of the markers; None for that of the sink.
            topic_id: The topic's id when the committable was made; None if unknown.
            proven: Whether all others have to be proven not to be in Kafka.
            unstamped: The id of the committable if it is of an older version, and doesn't say where its marker is.

        Raises:
            KafkaException: The topic can't be read to its end yet.
            UnknownCommitError: The topic doesn't reach back that far, or was recreated, so the answer is unknown.
        """
        topic = topic or self.topic
        settings = {
            **client_settings(self._properties),
            "group.id": transactional_id,  # the client wants one
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
        topic_id = topic_id if proven else None
        self._check_identity(topic, topic_id)
        with closing(new_client("Consumer", settings, self._where)) as consumer:
            found, is_older = self._read(consumer, topic, transactional_id, since_ms, proven=proven)
        self._check_identity(topic, topic_id)
        if proven and unstamped is not None and unstamped not in found and not is_older:
            message = (
                f"The topic for markers, {topic!r}, has none that is older than a committable of an older version, and may "
                "have been recreated since: nobody knows any more whether its records are in Kafka."
            )
            raise UnknownCommitError(message, where=self._where, hint=UNKNOWN_HINT)
        return found

    def _read(
        self, consumer: Any, topic: str, transactional_id: str, made_ms: int, *, proven: bool
    ) -> tuple[set[str], bool]:
        """Return the markers of an id since a time, and whether the topic is seen to be older than that."""
        client, since_ms = kafka_client(), made_ms - CLOCK_SLACK_MS
        partition = marker_partition(transactional_id)
        spec = kafka_client("confluent_kafka.admin").OffsetSpec
        end = self._listed(topic, partition, spec.latest())
        # Asked with `read_uncommitted`, up to the high watermark: a consumer of committed records would answer "no record is
        # as young" if the first such record comes after the open transaction of another id.
        begin = self._listed(topic, partition, spec.for_timestamp(max(0, since_ms)))
        first = self._listed(topic, partition, spec.earliest())
        if proven:
            self._check_reach(topic, since_ms, dropped=first > 0 and begin in (-1, first))
        is_older = first < (end if begin < 0 else begin)
        if begin < 0:  # no record is as young, open transactions counted
            return set(), is_older
        consumer.assign([client.TopicPartition(topic, partition, begin)])
        found: set[str] = set()
        place, deadline, key = begin, time.monotonic() + 2 * REQUEST_TIMEOUT_S, transactional_id.encode()
        while place < end:
            if time.monotonic() > deadline:
                message = f"the markers in {topic!r} can't be read to their end: another transaction is open"
                raise client.KafkaException(client.KafkaError(client.KafkaError._TIMED_OUT, message))  # noqa: SLF001
            message_or_none = consumer.poll(_POLL_S)
            if message_or_none is None:
                continue
            error = message_or_none.error()
            if error is None:
                place = message_or_none.offset() + 1
                if message_or_none.key() == key:
                    found.add(message_or_none.value().decode())
                    is_older |= message_or_none.timestamp()[1] < made_ms  # by the clock of the same subtask
            elif error.code() == client.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                place = max(place, message_or_none.offset())
            elif not error.retriable():
                raise client.KafkaException(error)
        return found, is_older

    def _check_identity(self, topic: str, topic_id: str | None) -> None:
        """Check that the topic is the one that would contain the marker."""
        if topic_id is None:
            return
        client = kafka_client()
        try:
            there = self.topic_id(topic)
        except client.KafkaException as error:
            if error.args[0].code() != client.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            there = None  # it was deleted
        if there != topic_id:
            message = (
                f"The topic for markers, {topic!r}, was recreated since a committable was made ({topic_id}, now {there}): "
                "nobody knows any more whether its records are in Kafka."
            )
            raise UnknownCommitError(message, where=self._where, hint=UNKNOWN_HINT)

    def _check_reach(self, topic: str, since_ms: int, *, dropped: bool) -> None:
        """Check that the brokers can't have deleted the marker.

        Args:
            topic: The topic.
            since_ms: How far back it has to reach, ms since 1970.
            dropped: Whether it has deleted records, and no record is left that is older.
        """
        client, admin = kafka_client(), kafka_client("confluent_kafka.admin")
        resource = admin.ConfigResource(admin.ResourceType.TOPIC, topic)
        # The topic's current retention proves nothing: it may have been shorter, or records were deleted. The oldest go
        # first, so a record older than the marker shows that the marker can't have been deleted.
        asking = new_admin(self._properties, self._where)  # what it answers ends with it
        asked = asking.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        try:
            config = answer_of(asked[resource])
        except client.KafkaException as error:
            if error.args[0].code() != client.KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            _LOG.warning("How long %s keeps markers can't be asked: %s", topic, reason(error))
        else:
            kept_ms = int(config["retention.ms"].value)
            dropped |= 0 <= kept_ms < self._clock_ms() - since_ms or "compact" in config["cleanup.policy"].value
        if dropped:
            message = (
                f"The topic {topic!r} has dropped markers of the time when a committable was made: nobody knows any "
                "more whether its records are in Kafka."
            )
            raise UnknownCommitError(message, where=self._where, hint=UNKNOWN_HINT)

    def _listed(self, topic: str, partition: int, spec: Any) -> int:
        """Return an offset of a partition, including open transactions: none of ours is open."""
        client = kafka_client()
        where = client.TopicPartition(topic, partition)
        asking = new_admin(self._properties, self._where)
        asked = asking.list_offsets(
            {where: spec}, isolation_level=client.IsolationLevel.READ_UNCOMMITTED, request_timeout=REQUEST_TIMEOUT_S
        )
        return int(answer_of(asked[where]).offset)

    def _hint(self) -> str:
        config = " ".join(f"--config {key}={value}" for key, value in _CONFIG.items())
        servers = self._properties.get(BOOTSTRAP_SERVERS, "...")
        return (
            f"let the user of the job make it, or make it yourself: kafka-topics.sh --bootstrap-server {servers} --create "
            f"--topic {self.topic} --partitions {PARTITIONS} {config}"
        )
