"""Discovers partitions and assigns each to a reader; the assignment is stable at a given parallelism."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from pystate.common.errors import PystateError
from pystate.common.time import current_time_ms
from pystate.connectors.kafka.offsets import EARLIEST, KafkaOffsetsInitializer, KafkaTopicPartition
from pystate.connectors.kafka.source.partition_split import ASSIGNED, KafkaPartitionSplit
from pystate.connectors.kafka.source.split_settings import KafkaSplitSettings
from pystate.connectors.kafka.source.topic_identity import FoundTopic
from pystate.connectors.source import SplitEnumerator, SplitEnumeratorContext

_LOG = logging.getLogger(__name__)


class Cluster(Protocol):
    """What an enumerator needs of the brokers; see `KafkaCluster`."""

    def partitions(self) -> list[KafkaTopicPartition]:
        """Return the partitions that the source reads."""

    def offsets(
        self, initializer: KafkaOffsetsInitializer, partitions: list[KafkaTopicPartition]
    ) -> dict[KafkaTopicPartition, int]:
        """Return the offset of each partition."""

    def find_topics(self, topics: Iterable[str]) -> Mapping[str, FoundTopic]:
        """Return topics by their names."""

    def close(self) -> None:
        """Close the connection."""


class KafkaPartitionEnumerator(SplitEnumerator[KafkaPartitionSplit]):
    """The enumerator of a source of Kafka partitions.

    Discovery runs synchronously at the start; later on the thread `kafka-discovery`, since an answer may take long.

    Args:
        context: Of the enumerator.
        settings: The settings of the source.
        cluster: The brokers.
        known: The partitions that were assigned; None in a job that starts from no state.
        waiting: The unassigned partitions.
        begin: The start offsets of partitions that Spark has read, in a job that starts from no state.
        ends: The end offsets in a snapshot of the micro-batch engine.
        clock: Returns the time, ms since 1970.
        ids: The ids of the topics that Spark has read.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[KafkaPartitionSplit],
        settings: KafkaSplitSettings,
        cluster: Cluster,
        known: list[KafkaTopicPartition] | None = None,
        waiting: list[KafkaPartitionSplit] | None = None,
        begin: Mapping[KafkaTopicPartition, int] | None = None,
        ends: Mapping[KafkaTopicPartition, int] | None = None,
        clock: Callable[[], int] = current_time_ms,
        ids: Mapping[str, str] | None = None,
    ) -> None:
        self._context = context
        self._settings = settings
        self._cluster = cluster
        self._restored = known is not None
        self._known = dict.fromkeys(known or [])
        self._waiting = {split.partition: split for split in waiting or []}
        self._begin = begin
        self._ends = ends or {}
        self._ids: dict[str, str | None] = {**(ids or {})}
        self._clock = clock
        self._look_at = 0
        self._lock = threading.Lock()
        self._found: tuple[list[KafkaTopicPartition], Mapping[str, str | None]] = ([], {})
        self._looking: threading.Thread | None = None
        self._fails = False

    def start(self) -> None:
        """Discover the partitions, and their start and end offsets.

        Raises:
            ExternalSystemError: The brokers don't answer.
        """
        found = self._cluster.partitions()
        if not self._restored:
            self._begin_with(found)
        elif self._interval_ms is not None:
            self._add(found, self._new_ids(found))
        self._look_at = self._clock() + (self._interval_ms or 0)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        """Assign a reader its partitions; readers of a source with discovery send requests repeatedly."""
        del requester_hostname
        with self._lock:
            found, self._found = self._found, ([], {})
        self._add(*found)
        mine = [partition for partition in self._waiting if self._reader_of(partition) == subtask_id]
        for partition in mine:
            self._known[partition] = None
            self._context.assign_split(self._waiting.pop(partition), subtask_id)
        self._context.send_event_to_source_reader(subtask_id, ASSIGNED)
        if self._interval_ms is None:
            self._context.signal_no_more_splits(subtask_id)
        elif self._clock() >= self._look_at:
            self._look()

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the assigned and the unassigned partitions."""
        del checkpoint_id
        return [[list(partition) for partition in self._known], [split.to_plain() for split in self._waiting.values()]]

    def close(self) -> None:
        """Close the connection."""
        self._cluster.close()

    @property
    def _interval_ms(self) -> int | None:
        """The discovery interval; None for a bounded source, which knows its partitions from the start."""
        return None if self._settings.stopping is not None else self._settings.discovery_interval_ms

    def _reader_of(self, partition: KafkaTopicPartition) -> int:
        first = zlib.crc32(partition.topic.encode())
        return (first + partition.partition) % self._context.current_parallelism()

    def _begin_with(self, partitions: list[KafkaTopicPartition]) -> None:
        settings, begin, ends = self._settings, self._begin, dict(self._ends)
        if begin is None or self._interval_ms is not None:
            self._ids.update(self._new_ids(partitions))
        if begin is None:  # after the ids: readers refuse offsets where the topic is recreated in between
            starts = self._cluster.offsets(settings.starting, partitions)
        else:
            starts = {partition: begin.get(partition, EARLIEST) for partition in partitions}
        if settings.stopping is not None:
            new = [partition for partition in partitions if partition not in ends]
            ends.update(self._cluster.offsets(settings.stopping, new))
        for partition in partitions:
            read = begin is not None and begin.get(partition, 0) > 0
            self._waiting[partition] = KafkaPartitionSplit(
                partition,
                starts[partition],
                ends.get(partition),
                has_records=read,
                topic_id=self._ids.get(partition.topic) if starts[partition] != EARLIEST else None,
            )

    def _add(self, partitions: list[KafkaTopicPartition], new_ids: Mapping[str, str | None]) -> None:
        """Have new partitions read: readers refuse one that a topic has got by being recreated."""
        for partition in partitions:
            if partition not in self._known and partition not in self._waiting:
                known = self._ids.get(partition.topic)
                self._waiting[partition] = KafkaPartitionSplit(partition, EARLIEST, topic_id=known)
        self._ids.update(new_ids)

    def _new_ids(self, partitions: list[KafkaTopicPartition]) -> dict[str, str | None]:
        """Ask for the ids of topics that are seen for the first time."""
        topics = {partition.topic for partition in partitions} - self._ids.keys()
        return {topic: found.topic_id for topic, found in self._cluster.find_topics(topics).items()} if topics else {}

    def _look(self) -> None:
        if self._looking is None or not self._looking.is_alive():
            self._look_at = self._clock() + (self._interval_ms or 0)
            self._looking = threading.Thread(target=self._ask, name="kafka-discovery", daemon=True)
            self._looking.start()

    def _ask(self) -> None:
        try:
            partitions = self._cluster.partitions()
            found = partitions, self._new_ids(partitions)
        except PystateError as error:  # the next discovery replaces this one
            if not self._fails:
                _LOG.warning("%s: new partitions can't be looked for: %s", self._settings.name, error.message)
            self._fails = True
            return
        self._fails = False
        with self._lock:
            self._found = found
