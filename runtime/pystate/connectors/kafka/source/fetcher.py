"""Prefetches records of Kafka partitions for a reader, on a thread of its own."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pystate.common.errors import PystateError
from pystate.connectors.kafka.kafka_client import KafkaConnectorError, kafka_client, new_client, reason
from pystate.connectors.kafka.offsets import EARLIEST, KafkaTopicPartition
from pystate.connectors.kafka.source.partition_split import KafkaPartitionSplit
from pystate.connectors.kafka.source.split_settings import KafkaSplitSettings
from pystate.connectors.kafka.source.topic_identity import FindTopics, FoundTopic, MadeAnew

MOST_MESSAGES = 1000
"""What is fetched at once: a batch."""
_MOST_BATCHES = 2
_POLL_S = 0.1
_TELL_EACH_S = 60.0
_CLOSE_S = 5.0
_ENDS_EACH_S = 1.0
_ASK_EACH_S = 0.02
"""The brokers are asked no more often for the ids of topics, but where there is much to read."""
_QUIET_S = 5.0
"""After so long without a record they are asked, too: nothing comes of a partition that a recreated topic lacks, and the
client itself looks after minutes."""

_LOG = logging.getLogger(__name__)


class PartitionFetcher:
    """A Kafka consumer with manually assigned partitions, without group rebalancing.

    Only its thread uses the consumer: the consumer's calls wait for each other while they hold the GIL.

    Args:
        settings: How to read.
        wake: Called from the thread where something has come and the reader sleeps.
        consumer: Returns the consumer, given its settings.
        find_topics: Asks for topics, of whose records none is handed on before the brokers have named the same id
            again; the partitions of a topic with another one are read from their beginning. None for no such question.

    Attributes:
        is_away: Whether the brokers gave no answer when they were last asked.

    Raises:
        JobGraphError: The client isn't installed, or doesn't know a property.
    """

    def __init__(
        self,
        settings: KafkaSplitSettings,
        wake: Callable[[], object],
        consumer: Callable[[Mapping[str, Any]], Any] | None = None,
        find_topics: FindTopics | None = None,
    ) -> None:
        self._settings = settings
        self._wake = wake
        client = kafka_client()
        self._client = client
        self._hopeless = {client.KafkaError._AUTHENTICATION, client.KafkaError._FATAL}  # noqa: SLF001 - its public names
        own = {**settings.consumer(), "error_cb": self._on_error, "on_commit": self._on_commit}
        self._consumer = new_client("Consumer", own, settings.name) if consumer is None else consumer(own)
        self._batches: deque[list[Any]] = deque()
        self._orders: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._asleep = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._commit_fails = False
        self._find_topics = find_topics
        self._ids: dict[str, str] = {}
        self._read: dict[str, set[int]] = {}
        self._asked_at = time.monotonic()
        self._ask_fails = False
        self.is_away = False
        self._away_told_at = -math.inf
        self._ends: dict[KafkaTopicPartition, int] = {}
        self._ends_at = -math.inf

    def start(self) -> None:
        """Start to fetch."""
        self._thread = threading.Thread(target=self._run, name="kafka-fetcher", daemon=True)
        self._thread.start()

    # -- the reader's side

    def assign(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        """Also fetch these partitions, from their offsets on."""
        places = [self._place(split.partition, split.offset) for split in splits]
        self._orders.append(partial(self._assign, places, {one.partition.topic: one.topic_id for one in splits}))

    def release(self, partition: KafkaTopicPartition) -> None:
        """Fetch a partition no more."""
        self._orders.append(partial(self._unassign, partition))

    def take(self) -> list[Any]:
        """Return the next messages, in order per partition; none if none have arrived.

        Raises:
            KafkaConnectorError: The brokers refuse this client.
            Exception: The error that ended the thread.
        """
        with self._changed:
            if self._batches:
                self._changed.notify_all()
                return self._batches.popleft()
            if self._error is not None:
                raise self._error
            return []

    def sleep(self) -> bool:
        """Have the reader woken for the next message; return whether there is none yet."""
        with self._changed:
            self._asleep = not self._batches and self._error is None
            return self._asleep

    def end_of(self, partition: KafkaTopicPartition) -> int | None:
        """Return the offset after the last record that a partition was seen to have; None before it is known."""
        return self._ends.get(partition)

    def commit(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """Commit offsets to the group asynchronously; failures are logged."""
        places = [self._place(partition, offset) for partition, offset in offsets.items()]
        self._orders.append(partial(self._commit, places))

    def close(self) -> None:
        """End the thread and close the connection, after pending commits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
            if self._thread.is_alive():
                _LOG.warning("%s: Kafka's client doesn't end; it is left behind.", self._settings.name)
                return
        try:
            self._run_orders()
        except self._client.KafkaException as error:
            _LOG.warning("%s: %s", self._settings.name, reason(error))
        self._consumer.close()

    # -- the thread

    def _run(self) -> None:
        try:
            while not self._closed:
                self._run_orders()
                first = self._consumer.poll(_POLL_S)
                if time.monotonic() >= self._ends_at + _ENDS_EACH_S:
                    self._note_ends()
                if first is not None:  # to ask for many at once waits until there are so many
                    self.is_away = self.is_away and first.error() is not None
                    batch = [first, *self._consumer.consume(MOST_MESSAGES - 1, 0)]
                    self._put(batch if self._find_topics is None else self._proven(batch, self._find_topics))
                elif self._find_topics is not None and time.monotonic() >= self._asked_at + _QUIET_S:
                    self._look(self._find_topics)
        except BaseException as error:  # told on the reader's thread
            self._fail(error)

    def _note_ends(self) -> None:
        """Note where the partitions end by what the brokers have said with the records; none is asked that answers."""
        self._ends_at = time.monotonic()
        if self.is_away:
            self._ask_again()
        for topic, numbers in self._read.items():
            for number in numbers:
                partition = KafkaTopicPartition(topic, number)
                _, end = self._consumer.get_watermark_offsets(self._place(partition), cached=True)
                if end >= 0:  # else none has been said
                    self._ends[partition] = end

    def _ask_again(self) -> None:
        """Ask brokers that gave no answer whether they are there again: of a topic without new records nothing says so."""
        partition = next((KafkaTopicPartition(topic, min(read)) for topic, read in self._read.items() if read), None)
        if partition is None:
            return
        try:
            self._consumer.get_watermark_offsets(self._place(partition), timeout=_ENDS_EACH_S)
        except self._client.KafkaException:
            return
        self.is_away = False

    def _run_orders(self) -> None:
        while self._orders:
            self._orders.popleft()()

    def _assign(self, places: list[Any], ids: Mapping[str, str | None]) -> None:
        for place in places:
            self._read.setdefault(place.topic, set()).add(place.partition)
        for topic, topic_id in ids.items():
            if topic_id is not None:  # a known one stays, so that all partitions are reread where this is another
                self._ids.setdefault(topic, topic_id)
        self._consumer.incremental_assign(places)

    def _unassign(self, partition: KafkaTopicPartition) -> None:
        self._read[partition.topic].discard(partition.partition)
        self._consumer.incremental_unassign([self._place(partition)])

    def _proven(self, batch: list[Any], find_topics: FindTopics) -> list[Any]:
        """Return what is of the topics that are known, and a mark for each other one, which is reread from here on."""
        more = MOST_MESSAGES - len(batch)
        if more > 0 and (pause := self._asked_at + _ASK_EACH_S - time.monotonic()) > 0:
            time.sleep(pause)
            batch += self._consumer.consume(more, 0)
        topics = self._ids.keys() & {message.topic() for message in batch}
        return self._marked(batch, self._found(topics, find_topics)) if topics else batch

    def _look(self, find_topics: FindTopics) -> None:
        """Mark the topics that were recreated, though nothing has come of them; brokers that are away are asked later."""
        self._asked_at = time.monotonic()
        topics = {topic for topic, numbers in self._read.items() if numbers} & self._ids.keys()
        if not topics:
            return
        try:
            found = find_topics(topics)
        except PystateError:
            self.is_away = True
            return
        self.is_away = False
        if marks := self._marked([], found):
            self._put(marks)

    def _marked(self, batch: list[Any], found: Mapping[str, FoundTopic]) -> list[Any]:
        """Return a batch without what is of topics that aren't those that are known, with a mark for each of them."""
        for topic, (topic_id, there) in found.items():
            if topic_id is None or topic_id == self._ids[topic]:
                continue
            self._ids[topic] = topic_id
            partitions = [KafkaTopicPartition(topic, number) for number in sorted(self._read[topic])]
            self._consumer.incremental_unassign([self._place(one) for one in partitions])
            self._consumer.incremental_assign([self._place(one, EARLIEST) for one in partitions])
            batch = [MadeAnew(topic, topic_id, there), *(one for one in batch if one.topic() != topic)]
        return batch

    def _found(self, topics: set[str], find_topics: FindTopics) -> Mapping[str, FoundTopic]:
        """Return topics; brokers that are away are waited for."""
        while not self._closed:
            try:
                found = find_topics(topics)
            except PystateError as error:
                if not self._ask_fails:
                    text = "%s: records wait for the ids of their topics: %s"
                    _LOG.warning(text, self._settings.name, error.message)
                self._ask_fails = True
                time.sleep(_POLL_S)
            else:
                self._ask_fails, self._asked_at = False, time.monotonic()
                return found
        return {}

    def _commit(self, places: list[Any]) -> None:
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except self._client.KafkaException as error:
            self._tell_commit(error)

    def _put(self, batch: list[Any]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._batches) < _MOST_BATCHES or self._closed)
            self._batches.append(batch)
            asleep, self._asleep = self._asleep, False
        if asleep:
            self._wake()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            asleep, self._asleep = self._asleep, False
        if asleep:
            self._wake()

    def _on_error(self, error: Any) -> None:
        """Handle an error that concerns no partition: unavailable brokers are transient, other errors are fatal."""
        if error.code() in self._hopeless or error.fatal():
            message = f"Kafka's brokers refuse the source's client: {error.str().rstrip('.')}."
            self._fail(KafkaConnectorError(message, where=self._settings.name))
        elif error.code() == self._client.KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its public name
            self.is_away = True
            if time.monotonic() >= self._away_told_at + _TELL_EACH_S:  # the client says so at each try, each other second
                self._away_told_at = time.monotonic()
                _LOG.warning("%s: Kafka is away, and waited for: %s", self._settings.name, error.str())

    def _on_commit(self, error: Any, places: list[Any]) -> None:
        failed = error or next((place.error for place in places if place.error is not None), None)
        if failed is not None:
            self._tell_commit(self._client.KafkaException(failed))
            return
        if self._commit_fails:
            _LOG.warning("%s: offsets are committed to the group %r again.", self._settings.name, self._settings.group_id)
        self._commit_fails = False

    def _tell_commit(self, error: BaseException) -> None:
        if not self._commit_fails:
            name, group = self._settings.name, self._settings.group_id
            _LOG.warning("%s: offsets are not committed to the group %r: %s", name, group, reason(error))
        self._commit_fails = True

    def _place(self, partition: KafkaTopicPartition, offset: int | None = None) -> Any:
        place = self._client.TopicPartition
        return place(*partition) if offset is None else place(*partition, offset)
