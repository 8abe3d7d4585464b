"""Queries brokers through the Java client that comes with Spark's connector.

So pystate's requests and Spark's reads use the same properties, those of the Java client.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pystate.common.errors import ExternalSystemError, JobGraphError
from pystate.connectors.kafka.offsets import (
    EARLIEST,
    LATEST,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetsKind,
)
from pystate.connectors.kafka.source.split_settings import ISOLATION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_UNKNOWN_TOPIC = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
_RESET = {KafkaOffsetResetStrategy.EARLIEST: EARLIEST, KafkaOffsetResetStrategy.LATEST: LATEST}


def connector_package() -> str:
    """Return the Maven coordinates of Spark's Kafka connector."""
    import pyspark

    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def check_connector(spark: SparkSession, where: str) -> None:
    """Check that a Spark session has the Kafka connector.

    Raises:
        JobGraphError: The session lacks it.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no public way to Java's classes
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(_CONNECTOR.replace(".", "/") + ".class") is None:
        message = "Spark's connector to Kafka is not here."
        hint = f"add the package: pystate run -Dspark.jars.packages={connector_package()} ..., or its files: spark.jars"
        raise JobGraphError(message, where=where, hint=hint)


class KafkaBrokers:
    """The brokers, from a source's point of view. The connection is kept until it is closed or a request fails.

    Args:
        spark: A session with the connector.
        properties: The properties of the Java client.
        where: For errors.
    """

    def __init__(self, spark: SparkSession, properties: Mapping[str, str], where: str) -> None:
        self._jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the same
        self._properties = properties
        self._where = where
        self._client: Any = None

    def __enter__(self) -> KafkaBrokers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # of py4j, where the JVM is gone
                client.close(self._jvm.java.time.Duration.ZERO)  # nobody waits for an answer that is still missing

    def partitions(self, topics: tuple[str, ...], pattern: str | None) -> list[KafkaTopicPartition]:
        """Return all partitions of topics, or of those whose whole name a pattern matches.

        Raises:
            ExternalSystemError: The brokers don't answer, or don't know a topic.
        """
        with self._admin() as admin:
            if pattern is not None:
                names = [str(name) for name in admin.listTopics().names().get()]
                topics = tuple(name for name in names if re.fullmatch(pattern, name))
            described = admin.describeTopics(self._list(topics)).allTopicNames().get()
            found = []
            for topic in topics:
                for info in described.get(topic).partitions():
                    found.append(KafkaTopicPartition(topic, int(info.partition())))
        return sorted(found)

    def topic_ids(self, topics: tuple[str, ...], pattern: str | None, timeout_ms: int | None = None) -> dict[str, str]:
        """Return the ids of topics, or of those whose whole name a pattern matches; none where brokers are too old.

        Topics that aren't there are left out.

        Args:
            topics: As said.
            pattern: The same.
            timeout_ms: How long each answer may take; None for what the client allows.

        Raises:
            ExternalSystemError: The brokers don't answer.
        """
        from py4j.protocol import Py4JJavaError

        unit = self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS  # the client's own options don't bound all it asks

        def answer(future: Any) -> Any:
            return future.get() if timeout_ms is None else future.get(timeout_ms, unit)

        with self._admin() as admin:
            if pattern is not None:
                names = [str(name) for name in answer(admin.listTopics().names())]
                topics = tuple(name for name in names if re.fullmatch(pattern, name))
            found = {}
            for entry in admin.describeTopics(self._list(topics)).topicNameValues().entrySet():
                try:
                    found[str(entry.getKey())] = str(answer(entry.getValue()).topicId().toString())
                except Py4JJavaError as error:
                    if not _is_unknown_topic(error):
                        raise
        return {topic: topic_id for topic, topic_id in found.items() if topic_id.strip("A=")}

    def offsets(
        self, initializer: KafkaOffsetsInitializer, partitions: list[KafkaTopicPartition], group: str | None
    ) -> dict[KafkaTopicPartition, int]:
        """Return the start or end offset of each partition.

        Raises:
            ExternalSystemError: The brokers don't answer, or an offset is missing.
        """
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        with self._admin() as admin:
            if initializer.kind is OffsetsKind.EARLIEST:
                return self._listed(admin, partitions, spec.earliest())
            if initializer.kind is OffsetsKind.LATEST:
                return self._listed(admin, partitions, spec.latest())
            if initializer.kind is OffsetsKind.TIMESTAMP:
                found = self._listed(admin, partitions, spec.forTimestamp(initializer.timestamp_ms))
                late = [partition for partition, offset in found.items() if offset < 0]
                return {**found, **(self._listed(admin, late, spec.latest()) if late else {})}
            known = initializer.given if initializer.kind is OffsetsKind.GIVEN else self._committed(admin, group)
            found = {partition: known[partition] for partition in partitions if partition in known}
            missing = [partition for partition in partitions if partition not in found]
            if not missing:
                return found
            reset = _RESET.get(initializer.reset)
            if reset is None:
                topic, number = missing[0]
                message = f"There is no offset for partition {number} of {topic!r}, and no strategy for such partitions."
                hint = "name a KafkaOffsetResetStrategy: EARLIEST or LATEST"
                raise ExternalSystemError(message, where=self._where, hint=hint)
            return {**found, **self._listed(admin, missing, spec.earliest() if reset == EARLIEST else spec.latest())}

    def commit(self, group: str, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """Commit offsets to a group without members.

        Raises:
            ExternalSystemError: The brokers reject them.
        """
        kafka = self._jvm.org.apache.kafka
        with self._admin("don't take the group's offsets") as admin:
            committed = self._jvm.java.util.HashMap()
            for (topic, number), offset in offsets.items():
                place = kafka.common.TopicPartition(topic, number)
                committed.put(place, kafka.clients.consumer.OffsetAndMetadata(offset))
            admin.alterConsumerGroupOffsets(group, committed).all().get()

    def _committed(self, admin: Any, group: str | None) -> dict[KafkaTopicPartition, int]:
        if group is None:
            message = "Offsets that a group has committed are asked for, and there is no group."
            raise JobGraphError(message, where=self._where, hint="call set_group_id(...)")
        found = {}
        for entry in admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet():
            place, offset = entry.getKey(), entry.getValue()
            if offset is not None:
                found[KafkaTopicPartition(str(place.topic()), int(place.partition()))] = int(offset.offset())
        return found

    def _listed(self, admin: Any, partitions: list[KafkaTopicPartition], spec: Any) -> dict[KafkaTopicPartition, int]:
        asked = self._jvm.java.util.HashMap()
        for topic, number in partitions:
            asked.put(self._jvm.org.apache.kafka.common.TopicPartition(topic, number), spec)
        level = self._jvm.org.apache.kafka.common.IsolationLevel
        committed = self._properties.get(ISOLATION) == "read_committed"
        # with an open transaction, a source of committed records begins, or ends, before it
        isolation = level.READ_COMMITTED if committed else level.READ_UNCOMMITTED
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(isolation)
        answers = admin.listOffsets(asked, options).all().get()
        found = {}
        for entry in answers.entrySet():
            place = entry.getKey()
            found[KafkaTopicPartition(str(place.topic()), int(place.partition()))] = int(entry.getValue().offset())
        return found

    def _list(self, values: tuple[str, ...]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return made

    @contextmanager
    def _admin(self, failing: str = "don't say what the source needs to know") -> Iterator[Any]:
        from py4j.protocol import Py4JJavaError

        try:
            if self._client is None:
                settings = self._jvm.java.util.Properties()
                for key, value in self._properties.items():
                    settings.setProperty(key, value)
                self._client = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
            yield self._client
        except Py4JJavaError as error:
            self.close()
            cause = error.java_exception.getCause() or error.java_exception
            message = f"Kafka's brokers {failing}: {cause.getMessage() or 'no answer in time'}"
            hint = f"look at bootstrap.servers ({self._properties.get('bootstrap.servers')}), the topics and the permissions"
            raise ExternalSystemError(message, where=self._where, hint=hint) from error


def _is_unknown_topic(error: Any) -> bool:
    cause = error.java_exception.getCause()
    return cause is not None and str(cause.getClass().getName()) == _UNKNOWN_TOPIC
