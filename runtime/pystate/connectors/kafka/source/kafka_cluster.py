"""Queries brokers for the partitions and offsets that a source in slots needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import TimeoutError as AnswerTimeoutError
from contextlib import closing, contextmanager
from typing import Any

from pystate.common.errors import ExternalSystemError
from pystate.connectors.kafka.kafka_client import (
    BOOTSTRAP_SERVERS,
    REQUEST_TIMEOUT_S,
    kafka_client,
    new_admin,
    new_client,
    reason,
    topic_id_of,
)
from pystate.connectors.kafka.kafka_failures import answered
from pystate.connectors.kafka.offsets import (
    EARLIEST,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
    OffsetsKind,
)
from pystate.connectors.kafka.source.split_settings import KafkaSplitSettings
from pystate.connectors.kafka.source.topic_identity import FoundTopic

Offsets = dict[KafkaTopicPartition, int]


class KafkaCluster:
    """The brokers, from a source's point of view.

    Args:
        settings: The settings of the source.
        timeout_s: The timeout of an answer.
    """

    def __init__(self, settings: KafkaSplitSettings, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._admin: Any = None
        self._told: list[Any] = []

    def partitions(self) -> list[KafkaTopicPartition]:
        """Return the partitions that the source reads.

        Raises:
            JobGraphError: The client isn't installed.
            ExternalSystemError: The brokers don't answer, or don't know a topic or a partition.
        """
        settings = self._settings
        with self._asking() as admin:
            known = admin.list_topics(timeout=self._timeout_s).topics
        if settings.pattern is not None:
            topics = tuple(topic for topic in known if re.fullmatch(settings.pattern, topic))
        else:
            topics = settings.topics or tuple(dict.fromkeys(topic for topic, _ in settings.partitions))
        for topic in topics:
            if topic not in known or known[topic].error is not None:
                message = f"Kafka has no topic {topic!r}, or doesn't show it."
                raise ExternalSystemError(
                    message, where=settings.name, hint=f"make the topic, or look at its name; {self._look}"
                )
        there = sorted(KafkaTopicPartition(topic, number) for topic in topics for number in known[topic].partitions)
        for partition in settings.partitions:
            if partition not in there:
                message = f"Kafka has no partition {partition.partition} of {partition.topic!r}."
                raise ExternalSystemError(message, where=settings.name)
        return list(settings.partitions) or there

    def find_topics(self, topics: Iterable[str]) -> dict[str, FoundTopic]:
        """Return topics by their names; those that aren't there are left out.

        Raises:
            ExternalSystemError: The brokers don't answer.
        """
        wanted = sorted(set(topics))
        found: dict[str, FoundTopic] = {}
        if not wanted:
            return {}
        client = kafka_client()
        with self._asking() as admin:
            asked = admin.describe_topics(client.TopicCollection(wanted), request_timeout=self._timeout_s)
            for topic, answer in asked.items():
                try:
                    described = answer.result(self._timeout_s + 1)
                except client.KafkaException as error:
                    if error.args[0].code() != client.KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                else:
                    numbers = frozenset(partition.id for partition in described.partitions)
                    found[topic] = FoundTopic(topic_id_of(described), numbers)
        return found

    def offsets(self, initializer: KafkaOffsetsInitializer, partitions: Sequence[KafkaTopicPartition]) -> Offsets:
        """Return the start or end offset of each partition; `EARLIEST` stands for its beginning.

        Raises:
            JobGraphError: The client isn't installed.
            ExternalSystemError: The brokers don't answer, or an offset is missing.
        """
        if initializer.kind is OffsetsKind.EARLIEST:
            return dict.fromkeys(partitions, EARLIEST)
        if initializer.kind is OffsetsKind.LATEST:
            return self._listed(partitions, lambda spec: spec.latest())
        if initializer.kind is OffsetsKind.TIMESTAMP:
            found = self._listed(partitions, lambda spec: spec.for_timestamp(initializer.timestamp_ms))
            late = [partition for partition, offset in found.items() if offset < 0]
            return {**found, **self._listed(late, lambda spec: spec.latest())}
        given = initializer.kind is OffsetsKind.GIVEN
        known = initializer.given if given else self._committed(partitions)
        found = {partition: known[partition] for partition in partitions if partition in known}
        missing = [partition for partition in partitions if partition not in found]
        if not missing:
            return found
        if initializer.reset is KafkaOffsetResetStrategy.NONE:
            topic, number = missing[0]
            message = f"There is no offset for partition {number} of {topic!r}, and no strategy for such partitions."
            hint = "name a KafkaOffsetResetStrategy: EARLIEST or LATEST"
            raise ExternalSystemError(message, where=self._settings.name, hint=hint)
        if initializer.reset is KafkaOffsetResetStrategy.EARLIEST:
            return {**found, **dict.fromkeys(missing, EARLIEST)}
        return {**found, **self._listed(missing, lambda spec: spec.latest())}

    def close(self) -> None:
        """Close the connection."""
        self._admin = None

    @property
    def _look(self) -> str:
        return f"look at {BOOTSTRAP_SERVERS} ({self._settings.properties.get(BOOTSTRAP_SERVERS)}) and the permissions"

    def _listed(self, partitions: Sequence[KafkaTopicPartition], spec: Callable[[Any], Any]) -> Offsets:
        if not partitions:
            return {}
        wanted = spec(kafka_client("confluent_kafka.admin").OffsetSpec)
        with self._asking() as admin:
            client = kafka_client()
            committed = self._settings.reads_committed
            isolation = client.IsolationLevel.READ_COMMITTED if committed else client.IsolationLevel.READ_UNCOMMITTED
            answers = admin.list_offsets(
                {client.TopicPartition(*partition): wanted for partition in partitions},
                isolation_level=isolation,  # with an open transaction, reading begins, or ends, before it
                request_timeout=self._timeout_s,
            )
            found = {place: answer.result(self._timeout_s + 1).offset for place, answer in answers.items()}
        return {KafkaTopicPartition(place.topic, place.partition): int(offset) for place, offset in found.items()}

    def _committed(self, partitions: Sequence[KafkaTopicPartition]) -> Offsets:
        """Use a consumer: an admin client crashes if the group's coordinator isn't ready."""
        client = kafka_client()
        with self._asking():
            asked = [client.TopicPartition(*partition) for partition in partitions]
            with closing(new_client("Consumer", self._settings.consumer(), self._settings.name)) as consumer:
                places = answered(lambda: consumer.committed(asked, self._timeout_s), self._timeout_s)
            for place in places:
                if place.error is not None:
                    raise client.KafkaException(place.error)
        return {KafkaTopicPartition(place.topic, place.partition): place.offset for place in places if place.offset >= 0}

    def _refusal(self) -> str | None:
        """Return why brokers reject the client, if they do: a request itself only times out."""
        admin = self._admin  # another thread may let go of it
        if admin is not None:
            admin.poll(0)
        refused = {kafka_client().KafkaError._AUTHENTICATION, kafka_client().KafkaError._SSL}  # noqa: SLF001 - public names
        return next((error.str().strip().rstrip(".") for error in self._told if error.code() in refused), None)

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        client = kafka_client()
        try:
            admin = self._admin  # another thread may let go of it
            if admin is None:
                self._told = []
                listening: dict[str, Any] = {**self._settings.properties, "error_cb": self._told.append}
                admin = self._admin = new_admin(listening, self._settings.name)
            yield admin
        except (client.KafkaException, AnswerTimeoutError, TimeoutError) as error:
            said = self._refusal() or reason(error) or f"no answer within {self._timeout_s:g} s"
            self.close()
            message = f"Kafka's brokers don't say what the source needs to know: {said}."
            raise ExternalSystemError(message, where=self._settings.name, hint=self._look) from error
