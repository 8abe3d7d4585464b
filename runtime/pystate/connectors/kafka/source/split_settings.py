"""The settings of a Kafka source in slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystate.common.user_code.taken import SendsTaken, Taken
from pystate.connectors.bad_records import BadRecords
from pystate.connectors.kafka.kafka_client import client_settings
from pystate.connectors.kafka.offsets import KafkaOffsetsInitializer, KafkaTopicPartition
from pystate.connectors.kafka.record_deserialization import KafkaRecordDeserializationSchema

DISCOVERY_INTERVAL_MS = 300_000
"""Flink's default of `partition.discovery.interval.ms`."""

ISOLATION = "isolation.level"
_NO_GROUP = "pystate-source"
"""librdkafka wants a name even where nothing is committed."""
_OURS = {
    ISOLATION: "read_uncommitted",  # the default of the Java client; librdkafka's differs
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 10,  # a second by default: too long for a reader that empties the queue in less
    "fetch.error.backoff.ms": 100,
}
_SOURCES_OWN = ("auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof")


@dataclass(frozen=True)
class KafkaSplitSettings(SendsTaken):
    """The settings of a Kafka source in slots. Exactly one of topics, pattern and partitions is set.

    Attributes:
        schema: Makes elements from records.
        starting: The start offsets, in a job that starts from no snapshot.
        stopping: The end offsets; None for unbounded.
        group_id: The consumer group; None for no group.
        commits_offsets: Whether the offsets of completed checkpoints are committed to the group.
        discovery_interval_ms: How often to look for new partitions; None for discovery at the start only.
        takes_losses: Whether to skip records that Kafka deleted before they were read; else they fail the job.
        timed: Whether elements get the timestamps of their records.
        properties: The properties of librdkafka.
        name: The name of the source, for errors.
        bad_records: What is done with records that the schema refuses.
        taken: The schema as the program passed it.
    """

    schema: KafkaRecordDeserializationSchema
    properties: Mapping[str, str]
    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()
    starting: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stopping: KafkaOffsetsInitializer | None = None
    group_id: str | None = None
    commits_offsets: bool = True
    discovery_interval_ms: int | None = DISCOVERY_INTERVAL_MS
    takes_losses: bool = False
    timed: bool = False
    bad_records: BadRecords = field(default_factory=BadRecords.fail)
    taken: dict[str, Taken] = field(default_factory=dict, repr=False, compare=False)

    @property
    def commits_to(self) -> str | None:
        """The group that offsets are committed to; None for none."""
        return self.group_id if self.commits_offsets else None

    @property
    def reads_committed(self) -> bool:
        """Whether only committed records of transactions are read."""
        return self.properties.get(ISOLATION, _OURS[ISOLATION]) == "read_committed"

    def consumer(self) -> dict[str, Any]:
        """Return the settings of a consumer."""
        wanted = {key: value for key, value in self.properties.items() if key not in _SOURCES_OWN}
        reset = "earliest" if self.takes_losses else "error"
        group = self.group_id or _NO_GROUP
        return {**client_settings(wanted, **_OURS), "group.id": group, "auto.offset.reset": reset}
