"""The end offsets of a bounded `KafkaSource`, determined when the job starts and kept in its snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pystate.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition, partition_offsets
from pystate.connectors.kafka.spark.kafka_brokers import KafkaBrokers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class KafkaStoppingOffsets:
    """The end offsets of one source.

    Args:
        initializer: Determines them.
        brokers: Returns the brokers, with a connection of its own.
        partitions: Returns the partitions that the source reads.
        group: The consumer group, if there is one.
        frame: Returns the source's records that meet a condition, which excludes records after the end.
    """

    def __init__(
        self,
        initializer: KafkaOffsetsInitializer,
        brokers: Callable[[], KafkaBrokers],
        partitions: Callable[[KafkaBrokers], list[KafkaTopicPartition]],
        group: str | None,
        frame: Callable[[Column], DataFrame],
    ) -> None:
        self._initializer = initializer
        self._make_brokers = brokers
        self._connected: KafkaBrokers | None = None
        self._partitions = partitions
        self._group = group
        self._frame = frame

    def find(self, known: bytes | None = None) -> bytes:
        """Return the end of each partition, from the snapshot if that has it."""
        ends = {} if known is None else partition_offsets(known.decode())
        new = [partition for partition in self._partitions(self._brokers) if partition not in ends]
        found = self._brokers.offsets(self._initializer, new, self._group) if new else {}
        return _written({**ends, **found})

    def frame(self, end: bytes) -> DataFrame:
        """Return the records before an end; records of partitions without an end are excluded."""
        from pyspark.sql import functions as F

        condition = F.lit(False)  # noqa: FBT003 - Spark's own
        for (topic, number), offset in partition_offsets(end.decode()).items():
            one = (F.col("topic") == topic) & (F.col("partition") == number) & (F.col("offset") < offset)
            condition = condition | one
        return self._frame(condition)

    def latest(self) -> bytes:
        """Return the current end offsets of partitions."""
        return _written(self._brokers.offsets(KafkaOffsetsInitializer.latest(), self._partitions(self._brokers), None))

    def missing(self, end: bytes, latest: bytes) -> str | None:
        """Return a partition that had not reached its end at `latest`; None if all had."""
        there = partition_offsets(latest.decode())
        for (topic, number), offset in partition_offsets(end.decode()).items():
            last = there.get(KafkaTopicPartition(topic, number), 0)
            if last < offset:
                return f"partition {number} of {topic!r} is to be read to offset {offset}, and ends at {last} by now"
        return None

    def close(self) -> None:
        """Close the connection."""
        brokers, self._connected = self._connected, None
        if brokers is not None:
            brokers.close()

    @property
    def _brokers(self) -> KafkaBrokers:
        if self._connected is None:
            self._connected = self._make_brokers()
        return self._connected


def _written(offsets: Mapping[KafkaTopicPartition, int]) -> bytes:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(number)] = offset
    return json.dumps(by_topic).encode()
