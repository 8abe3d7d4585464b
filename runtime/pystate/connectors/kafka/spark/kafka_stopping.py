"""Where a bounded `KafkaSource` ends: offsets that are found when the job begins, and kept in its snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pystate.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition, partition_offsets
from pystate.connectors.kafka.spark.kafka_brokers import KafkaBrokers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class KafkaStoppingOffsets:
    """The end of one source.

    Args:
        initializer: Finds it.
        brokers: Returns the brokers, with a connection of its own.
        partitions: Returns the partitions that the source reads.
        group: The consumer group, where there is one.
        frame: Returns what the source reads, of which records behind the end don't meet a condition.
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
        """Return the end of each partition; of those that a snapshot knows, what it says."""
        ends = {} if known is None else partition_offsets(known.decode())
        new = [partition for partition in self._partitions(self._brokers) if partition not in ends]
        found = self._brokers.offsets(self._initializer, new, self._group) if new else {}
        return _written({**ends, **found})

    def frame(self, end: bytes) -> DataFrame:
        """Return the records in front of an end; those of partitions that it doesn't know are behind it."""
        from pyspark.sql import functions as F

        condition = F.lit(False)  # noqa: FBT003 - Spark's own
        for (topic, number), offset in partition_offsets(end.decode()).items():
            one = (F.col("topic") == topic) & (F.col("partition") == number) & (F.col("offset") < offset)
            condition = condition | one
        return self._frame(condition)

    def latest(self) -> bytes:
        """Return where partitions end by now."""
        return _written(self._brokers.offsets(KafkaOffsetsInitializer.latest(), self._partitions(self._brokers), None))

    def missing(self, end: bytes, latest: bytes) -> str | None:
        """Say which partition had not come to its end at `latest`; None where all had."""
        there = partition_offsets(latest.decode())
        for (topic, number), offset in partition_offsets(end.decode()).items():
            last = there.get(KafkaTopicPartition(topic, number), 0)
            if last < offset:
                return f"partition {number} of {topic!r} is to be read to offset {offset}, and ends at {last} by now"
        return None

    def close(self) -> None:
        """Let go of the connection."""
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
