"""The splits of a Kafka source: a partition, the next offset to read, and the end."""

from __future__ import annotations

from typing import Any

from pystate.connectors.kafka.offsets import KafkaTopicPartition
from pystate.connectors.source import SourceSplit

ASSIGNED = "assigned"
"""What a reader hears after the partitions that are its: others don't follow but new ones."""

_KEYS = ("topic", "partition", "offset", "stop", "has-records")
_TOPIC_ID = "topic-id"
"""Not in snapshots of older versions."""


class KafkaPartitionSplit(SourceSplit):
    """A partition from an offset on.

    Attributes:
        partition: The partition.
        offset: The next one to read; `EARLIEST` for the beginning of the partition.
        stop: The offset to stop at, exclusive; None for unbounded, and in a source with an end for the end that is found.
        has_records: Whether a record of it has been read, so that event time waits for it.
        topic_id: The id of the topic that the offset belongs to; None if unknown.
    """

    def __init__(
        self,
        partition: KafkaTopicPartition,
        offset: int,
        stop: int | None = None,
        *,
        has_records: bool = False,
        topic_id: str | None = None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.stop = stop
        self.has_records = has_records
        self.topic_id = topic_id

    @property
    def is_at_end(self) -> bool:
        """Return whether nothing of it is left to read."""
        return self.stop is not None and (self.offset >= self.stop or self.stop <= 0)

    def split_id(self) -> str:
        """Return topic and number."""
        return f"{self.partition.topic}:{self.partition.partition}"

    def to_plain(self) -> dict[str, Any]:
        """Return partition, offset and end in plain form."""
        topic, number = self.partition
        plain = dict(zip(_KEYS, (topic, number, self.offset, self.stop, self.has_records), strict=True))
        return plain if self.topic_id is None else {**plain, _TOPIC_ID: self.topic_id}

    @staticmethod
    def is_plain(value: Any) -> bool:
        """Return whether a value has the plain form of a split, for snapshots whose sources are unknown."""
        return isinstance(value, dict) and value.keys() - {_TOPIC_ID} == set(_KEYS)

    @staticmethod
    def of(plain: Any) -> KafkaPartitionSplit:
        """Return the split from its plain form."""
        topic, number, offset, stop, has_records = (plain[key] for key in _KEYS)
        end = None if stop is None else int(stop)
        return KafkaPartitionSplit(
            KafkaTopicPartition(str(topic), int(number)),
            int(offset),
            end,
            has_records=bool(has_records),
            topic_id=plain.get(_TOPIC_ID),
        )
