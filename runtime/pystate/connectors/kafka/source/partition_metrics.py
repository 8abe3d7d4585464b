"""The names of what is measured of Kafka partitions that are read, as Flink's reader has them."""

from __future__ import annotations

from pystate.core.metrics.sample import Groups

CURRENT_OFFSET = "currentOffset"
"""The offset that was read last; -1 before the first."""


def partition_groups(topic: str, partition: str) -> Groups:
    """Return the groups of a partition's metrics."""
    return ("KafkaSourceReader", None), ("topic", topic), ("partition", partition)
