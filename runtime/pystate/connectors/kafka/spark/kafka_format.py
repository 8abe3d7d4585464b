"""What the micro-batch engine has to know about Spark's source of Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pystate.common.overrides import override
from pystate.connectors.kafka.offsets import EARLIEST
from pystate.connectors.kafka.source.partition_metrics import CURRENT_OFFSET, partition_groups
from pystate.connectors.kafka.spark.kafka_starts import FROM_THE_END, FROM_THE_GROUP, STARTS
from pystate.connectors.source import StartsAt
from pystate.connectors.spark_format import ReadLimit, ReadUnit, SparkFormat
from pystate.core.metrics.metric_catalog import PENDING_RECORDS
from pystate.core.metrics.sample import MetricSample, gauge


class KafkaFormat(SparkFormat):
    """The format `kafka`; its offsets are `{"topic": {"0": 17}}`."""

    names = ("kafka",)
    implementation = "KafkaSourceProvider"
    limit = ReadLimit("maxOffsetsPerTrigger", ReadUnit.ROWS)
    partition_columns = ("topic", "partition")
    # a warning for each record that a Python stage reads, since Spark reads for it on a plain thread: hundreds an epoch
    quiet_loggers = ("org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer",)
    outages = (r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect)Exception",)

    @override
    def starts_at(self, options: Mapping[str, str]) -> StartsAt:
        starts = options.get(STARTS)
        if FROM_THE_END in (starts, options.get("startingoffsets", FROM_THE_END)):
            return StartsAt.THE_END
        return StartsAt.THE_GROUPS_OFFSETS if starts == FROM_THE_GROUP else StartsAt.THE_BEGINNING

    @override
    def describe_offset(self, offset: Any, log: Mapping[str, bytes]) -> str | None:
        if _by_partition(offset) is None:
            return None
        return "; ".join(_topic_words(topic, partitions) for topic, partitions in sorted(offset.items()))

    @override
    def rows_between(self, read: Any, latest: Any) -> int | None:
        ends, latest_offsets = _by_partition(read), _by_partition(latest)
        if ends is None or latest_offsets is None:
            return None
        return sum(max(0, offset - ends.get(partition, offset)) for partition, offset in latest_offsets.items())

    @override
    def position_samples(self, read: Any, latest: Any) -> list[MetricSample]:
        latest_offsets = _by_partition(latest) or {}
        samples = []
        for (topic, number), offset in (_by_partition(read) or {}).items():
            of_partition = partition_groups(topic, number)
            samples.append(replace(gauge(CURRENT_OFFSET, offset - 1), groups=of_partition))
            if (end := latest_offsets.get((topic, number))) is not None:
                samples.append(replace(gauge(PENDING_RECORDS, max(0, end - offset)), groups=of_partition))
        return samples


def _by_partition(offset: Any) -> dict[tuple[str, str], int] | None:
    """Return {(topic, partition): offset}; None for offsets of another kind."""
    if not isinstance(offset, dict) or not offset:
        return None
    found: dict[tuple[str, str], int] = {}
    for topic, partitions in offset.items():
        if not isinstance(partitions, dict) or not partitions:
            return None
        for number, at in partitions.items():
            if not (number.isdigit() and type(at) is int):
                return None
            found[topic, number] = at
    return found


def _topic_words(topic: str, partitions: Mapping[str, int]) -> str:
    at = ", ".join(f"{number} at {_at(partitions[number])}" for number in sorted(partitions, key=int))
    return f"topic {topic}: partition{'' if len(partitions) == 1 else 's'} {at}"


def _at(offset: int) -> str:
    return "its beginning" if offset == EARLIEST else f"{offset:,}"
