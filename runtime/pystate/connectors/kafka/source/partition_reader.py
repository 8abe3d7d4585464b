"""Reads the Kafka partitions of one subtask."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pystate.common.errors import ExternalSystemError
from pystate.common.time import current_time_ms
from pystate.connectors.bad_records import Refused, RefusedRecords
from pystate.connectors.kafka.kafka_client import KafkaConnectorError, kafka_client, reason
from pystate.connectors.kafka.offsets import EARLIEST, KafkaTopicPartition
from pystate.connectors.kafka.record_deserialization import ConsumerRecord, RecordReading
from pystate.connectors.kafka.source.fetcher import MOST_MESSAGES
from pystate.connectors.kafka.source.partition_metrics import CURRENT_OFFSET, partition_groups
from pystate.connectors.kafka.source.partition_split import ASSIGNED, KafkaPartitionSplit
from pystate.connectors.kafka.source.split_settings import KafkaSplitSettings
from pystate.connectors.kafka.source.topic_identity import NEVER, FindTopics, FoundTopic, MadeAnew, TopicProof, made_anew
from pystate.connectors.poll_size import PollSize
from pystate.connectors.source import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from pystate.core.metrics.metric_catalog import PENDING_RECORDS

_LOG = logging.getLogger(__name__)

_LOOK_AGAIN_MS = 1000
"""So long after a request for new partitions the brokers have answered."""
_LONGEST_SLEEP_MS = 3_600_000
_ANSWER_MS = 20
_MOST_KEPT = 100


class Fetcher(Protocol):
    """The interface of `PartitionFetcher`."""

    is_away: bool

    def start(self) -> None:
        """Start to fetch."""

    def assign(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        """Also fetch these partitions."""

    def release(self, partition: KafkaTopicPartition) -> None:
        """Stop fetching a partition."""

    def take(self) -> list[Any]:
        """Return the next messages."""

    def sleep(self) -> bool:
        """Have the reader woken for the next message; return whether there is none yet."""

    def end_of(self, partition: KafkaTopicPartition) -> int | None:
        """Return the offset after a partition's last record; None before it is known."""

    def commit(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """Commit offsets to the group."""

    def close(self) -> None:
        """Stop."""


class KafkaPartitionReader(SourceReader[Any, KafkaPartitionSplit]):
    """The reader of a source of Kafka partitions.

    Args:
        context: Of the reader.
        settings: The settings of the source.
        fetcher: Fetches records.
        find_topics: Asks brokers for topics.
        clock: Returns the time, ms since 1970.
        close: Closes the connections that topics are asked for over.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        settings: KafkaSplitSettings,
        fetcher: Fetcher,
        find_topics: FindTopics,
        clock: Callable[[], int] = current_time_ms,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self._settings = settings
        self._fetcher = fetcher
        self._clock = clock
        self._find_topics = find_topics
        self._close = close
        self._reading = RecordReading(settings.schema, settings.bad_records)
        self._refused = RefusedRecords(settings.bad_records, context)
        self._proof = TopicProof(find_topics, settings.name, clock)
        self._splits: dict[KafkaTopicPartition, KafkaPartitionSplit] = {}
        self._read_up: set[KafkaTopicPartition] = set()  # partitions whose end was seen
        self._absent: set[KafkaTopicPartition] = set()  # those that a topic that was recreated has lacked so far
        self._told: dict[str, bool] | None = None
        self._batch: list[Any] = []
        self._next = 0
        self._size = PollSize(MOST_MESSAGES)
        self._ask_at = 0
        self._asks_again = False
        self._no_more = False
        self._knows_its_own = False
        self._failed_at: Any = None
        self._ended: dict[KafkaTopicPartition, int] = {}
        self._at_checkpoint: dict[int, dict[KafkaTopicPartition, int]] = {}
        self._committed: dict[KafkaTopicPartition, int] = {}

    def start(self) -> None:
        """Start to fetch."""
        self._context.metric_group().gauge(PENDING_RECORDS, self._pending)
        self._fetcher.start()

    def add_splits(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        """Add partitions to read.

        Raises:
            ExternalSystemError: The brokers don't answer, or don't know a topic or a partition.
            RecreatedTopicError: A topic is another one than that of the offsets.
        """
        topics = {split.partition.topic for split in splits}
        found = self._find_topics(topics)
        if missing := topics - found.keys():
            message = f"Kafka has no topic {min(missing)!r}, or doesn't show it."
            raise ExternalSystemError(message, where=self._settings.name)
        splits = [split for split in splits if self._check_topic(split, found[split.partition.topic])]
        left = []
        for split in splits:
            if split.is_at_end:
                self._ended[split.partition] = split.offset
            else:
                self._splits[split.partition] = split
                self._measure(split.partition)
                left.append(split)
        if left:
            self._fetcher.assign(left)

    def notify_no_more_splits(self) -> None:
        """End the input after the current partitions, if these are bounded."""
        self._no_more = True

    def handle_source_events(self, source_event: Any) -> None:
        """Handle the enumerator's notice that all partitions of this reader are assigned; event time waits for them."""
        self._knows_its_own |= source_event == ASSIGNED

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        """Emit the next elements."""
        if self._clock() >= self._ask_at:
            self._ask()
        self._proof.look()
        if not self._knows_its_own:
            return InputStatus.NOTHING_AVAILABLE
        self._tell_splits(output)
        if self._next >= len(self._batch):
            self._batch, self._next = self._fetcher.take(), 0
        if not self._batch:
            ended = self._no_more and not self._splits and self._settings.stopping is not None
            if ended:  # no checkpoint may follow
                self._proof.prove()
            return InputStatus.END_OF_INPUT if ended else InputStatus.NOTHING_AVAILABLE
        count = max(1, min(self._size.count, output.room()))
        messages = self._batch[self._next : self._next + count]
        self._size.begin()
        try:
            self._hand_on(messages, output)
        except Exception:
            self._failed_at = next((one for one in messages if self._is_next(one)), None)
            raise
        self._size.end(len(messages))
        self._next += len(messages)
        self._tell_splits(output)
        return InputStatus.MORE_AVAILABLE

    def describe_position(self) -> str | None:
        """Return topic, partition and offset of the record that can't be emitted."""
        message = self._failed_at
        if message is None:
            return None
        return f"topic {message.topic()!r}, partition {message.partition()}, offset {message.offset()}"

    def _is_next(self, message: Any) -> bool:
        """Return whether a message is the next one of its partition to emit."""
        split = self._splits.get(KafkaTopicPartition(message.topic() or "", message.partition() or 0))
        return message.error() is None and split is not None and message.offset() >= split.offset

    def available_at(self) -> int | None:
        """Return when to request new partitions; for records the fetcher wakes the job."""
        now = self._clock()
        if not self._knows_its_own:
            return now + _ANSWER_MS
        if self._next < len(self._batch) or not self._fetcher.sleep():
            return now
        return min(self._ask_at, self._proof.look_at(), now + _LONGEST_SLEEP_MS)

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaPartitionSplit]:
        """Return the partitions that aren't at their end, each as far as it is read.

        Raises:
            RecreatedTopicError: Some of what was handed on is of another topic than that of the offsets.
        """
        self._proof.prove()
        splits = list(self._splits.values())
        if self._settings.commits_to is not None:
            offsets = {split.partition: split.offset for split in splits if split.offset != EARLIEST}
            self._at_checkpoint[checkpoint_id] = {**self._ended, **offsets}
            while len(self._at_checkpoint) > _MOST_KEPT:
                del self._at_checkpoint[next(iter(self._at_checkpoint))]
        return [KafkaPartitionSplit.of(split.to_plain()) for split in splits]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the offsets of the checkpoint to the group, except those that haven't changed."""
        offsets = self._at_checkpoint.pop(checkpoint_id, None)
        self._at_checkpoint = {number: kept for number, kept in self._at_checkpoint.items() if number > checkpoint_id}
        changed = {place: offset for place, offset in (offsets or {}).items() if self._committed.get(place) != offset}
        if changed:
            self._fetcher.commit(changed)
            self._committed.update(changed)

    def close(self) -> None:
        """Close the connections."""
        try:
            self._fetcher.close()
        finally:
            self._close()

    def _measure(self, partition: KafkaTopicPartition) -> None:
        """Register what Flink's reader tells of a partition, and how many of its records have not been read."""
        group = self._context.metric_group()
        for key, value in partition_groups(partition.topic, str(partition.partition)):
            group = group.add_group(key) if value is None else group.add_group(key, value)
        group.gauge(CURRENT_OFFSET, lambda: self._current_offset(partition))
        group.gauge(PENDING_RECORDS, lambda: self._as_known(self._pending_of(partition)))

    def _current_offset(self, partition: KafkaTopicPartition) -> int:
        split = self._splits.get(partition)
        read = self._ended.get(partition, 0) if split is None else split.offset
        return max(0, read) - 1

    def _pending_of(self, partition: KafkaTopicPartition) -> int:
        split = self._splits.get(partition)
        end = self._fetcher.end_of(partition)
        if split is None or end is None:
            return 0
        return max(0, (end if split.stop is None else min(end, split.stop)) - max(0, split.offset))

    def _pending(self) -> float:
        return self._as_known(sum(map(self._pending_of, self._splits)))

    def _as_known(self, pending: int) -> float:
        """Return what is left as far as known: brokers that are away may have got records since all was read of a split."""
        return math.nan if pending == 0 and self._splits and self._fetcher.is_away else pending

    def _ask(self) -> None:
        """Request partitions: at the start, and with discovery twice in each interval."""
        self._context.send_split_request()
        interval = None if self._settings.stopping is not None else self._settings.discovery_interval_ms
        if interval is None:
            self._ask_at = NEVER
            return
        pause = min(interval, _LOOK_AGAIN_MS) if self._asks_again else interval
        self._asks_again = not self._asks_again
        self._ask_at = self._clock() + pause

    def _hand_on(self, messages: list[Any], output: ReaderOutput[Any]) -> None:
        deserialize, collect, timed = self._reading.of_value, output.collect, self._settings.timed

        def refuse(refused: Refused) -> None:
            self._refused.take(refused, output.collect_side)

        topic, number, split, stop = "", -1, None, None
        topics = set()
        for message in messages:
            if message.error() is not None:
                self._take_event(message)
                number = -1  # its split may have ended, or started over
                continue
            if message.partition() != number or message.topic() != topic:
                topic, number = message.topic(), message.partition()
                topics.add(topic)
                split = self._splits.get(KafkaTopicPartition(topic, number))
                if split is not None:
                    self._absent.discard(split.partition)
                    stop = split.stop
                    output.begin_split(split.split_id())
            if split is None:  # it has reached its end, and records after that were fetched
                continue
            offset = message.offset()
            if stop is not None and offset >= stop:
                self._end(split, stop)
                split = None
                continue
            if deserialize is None:
                for element in self._reading.elements(_record_of(message), refuse):
                    collect(element, message.timestamp()[1] if timed else None)
                    split.has_records = True
            else:
                value = message.value()
                element = None if value is None else deserialize(value)
                if element is not None:
                    collect(element, message.timestamp()[1] if timed else None)
                    split.has_records = True
            split.offset = offset + 1
            if split.offset == stop:
                self._end(split, stop)
                split = None
        self._proof.handed_on(topics)

    def _take_event(self, message: Any) -> None:
        """Handle the event of a partition's current end: everything before it is read, including transaction markers.

        Raises:
            KafkaConnectorError: A partition can't be read.
        """
        if isinstance(message, MadeAnew):
            self._begin_anew(*message)
            return
        error, errors = message.error(), kafka_client().KafkaError
        partition = KafkaTopicPartition(message.topic() or "", message.partition() or 0)
        split = self._splits.get(partition)
        if error.code() == errors._PARTITION_EOF:  # noqa: SLF001 - its public name
            self._read_up.add(partition)
            self._absent.discard(partition)
            self._proof.handed_on([partition.topic])
            if split is not None:
                split.offset = max(split.offset, message.offset())
                if split.stop is None and self._settings.stopping is not None:
                    split.stop = split.offset  # of a topic that was recreated
                if split.is_at_end:
                    self._end(split, split.offset)
            return
        if partition in self._absent and error.code() in (errors.UNKNOWN_TOPIC_OR_PART, errors._UNKNOWN_PARTITION):  # noqa: SLF001 - the same
            return
        self._proof.suspect(partition.topic)
        if split is None or (error.retriable() and error.code() != errors._AUTO_OFFSET_RESET):  # noqa: SLF001 - the same
            return
        self._proof.prove()  # a topic that was recreated may be the reason
        if error.code() == errors._AUTO_OFFSET_RESET:  # noqa: SLF001 - the same
            raise self._lost(split, error)
        message_ = f"Partition {partition.partition} of {partition.topic!r} can't be read: {_said(error)}."
        raise KafkaConnectorError(message_, where=self._settings.name)

    def _check_topic(self, split: KafkaPartitionSplit, found: FoundTopic) -> bool:
        """Check that the topic wasn't recreated under the same name: offsets of the old one are invalid in it.

        Returns:
            Whether to read the partition: not if a source with an end takes losses, and the topic was recreated without it.
        """
        known, split.topic_id = split.topic_id, found.topic_id or split.topic_id
        topic, number = split.partition
        is_there, takes_losses = number in found.partitions, self._settings.takes_losses
        is_anew = None not in (known, found.topic_id) and known != found.topic_id
        if not is_there and known is None and (split.offset != EARLIEST or split.has_records):
            is_anew = True  # partitions that were read don't vanish but with their topic
        if is_anew and not takes_losses:
            what = f"offset {split.offset} of partition {number} and others"
            raise made_anew(topic, known, found.topic_id, self._settings.name, what)
        if is_anew:
            return self._begin_split_anew(split, found.topic_id, is_there)
        if not is_there and (not takes_losses or self._settings.stopping is not None):  # brokers may not know it yet
            message = f"Kafka has no partition {number} of {topic!r}."
            raise ExternalSystemError(message, where=self._settings.name)
        if not is_there:
            self._absent.add(split.partition)
        if found.topic_id is not None and not takes_losses:  # else the fetcher proves all that it brings
            self._proof.know(topic, found.topic_id)
        return True

    def _begin_anew(self, topic: str, topic_id: str, partitions: frozenset[int]) -> None:
        """Take note that what follows of a topic is another one's, from its beginning."""
        for split in [split for split in self._splits.values() if split.partition.topic == topic]:
            if not self._begin_split_anew(split, topic_id, split.partition.partition in partitions):
                del self._splits[split.partition]
                self._fetcher.release(split.partition)

    def _begin_split_anew(self, split: KafkaPartitionSplit, topic_id: str | None, is_there: bool) -> bool:
        """Let a split be of a new topic, and return whether to read it: a source with an end doesn't wait for partitions."""
        topic, number = split.partition
        text = "%s: %r was recreated; partition %d is read from its beginning."
        if not is_there:
            text = "%s: %r was recreated without partition %d: what wasn't read of that is lost."
            self._absent.add(split.partition)
        _LOG.warning(text, self._settings.name, topic, number)
        split.offset, split.topic_id = EARLIEST, topic_id
        split.stop = None  # it was an offset of the old topic: a source with an end reads up to the end it finds
        return is_there or self._settings.stopping is None

    def _lost(self, split: KafkaPartitionSplit, error: Any) -> KafkaConnectorError:
        topic, number = split.partition
        message = (
            f"Offset {split.offset} of partition {number} of {topic!r} is not there: Kafka has deleted it, or the topic is "
            f"another one. {_said(error)}."
        )
        hint = "set_property('failOnDataLoss', 'false') goes on with what is there; or start from another offset"
        return KafkaConnectorError(message, where=self._settings.name, hint=hint)

    def _end(self, split: KafkaPartitionSplit, offset: int) -> None:
        del self._splits[split.partition]
        self._ended[split.partition] = offset
        self._fetcher.release(split.partition)

    def _tell_splits(self, output: ReaderOutput[Any]) -> None:
        """Report the splits that event time waits for: a partition that never had a record only if some may be ready."""
        splits = {
            split.split_id(): split.partition not in self._absent
            and (split.has_records or split.partition not in self._read_up)
            for split in self._splits.values()
        }
        if splits != self._told:
            self._told = splits
            output.set_splits(splits)


def _record_of(message: Any) -> ConsumerRecord:
    kind, time = message.timestamp()
    return ConsumerRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        time if kind else None,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def _said(error: Any) -> str:
    return reason(Exception(error))
