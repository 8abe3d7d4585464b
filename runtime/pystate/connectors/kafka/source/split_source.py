"""The split-based Kafka source, which `KafkaSource` uses in slots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pystate.common.errors import RestoreError
from pystate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaTopicPartition, OffsetsKind, partition_offsets
from pystate.connectors.kafka.source.fetcher import PartitionFetcher
from pystate.connectors.kafka.source.kafka_cluster import KafkaCluster
from pystate.connectors.kafka.source.partition_enumerator import KafkaPartitionEnumerator
from pystate.connectors.kafka.source.partition_reader import KafkaPartitionReader
from pystate.connectors.kafka.source.partition_split import KafkaPartitionSplit
from pystate.connectors.kafka.source.split_settings import KafkaSplitSettings
from pystate.connectors.read_by_spark import GoesOnAfterSpark
from pystate.connectors.source import Boundedness, Source, SourceReaderContext, SplitEnumeratorContext, StartsAt

_CHECK_TIMEOUT_S = 15.0
_PROOF_TIMEOUT_S = 4.0
"""Less than a fetcher takes to end."""
_ENDS = "pystate-stopping"
"""The file beside Spark's log of a source that says where it ends."""
_IDS = "pystate-identity"
"""The one with the ids of its topics."""


class KafkaSplitSource(Source[Any, KafkaPartitionSplit], GoesOnAfterSpark):
    """Reads the records of Kafka partitions.

    Args:
        settings: The settings of the source.
    """

    def __init__(self, settings: KafkaSplitSettings) -> None:
        self._settings = settings
        self._begin: dict[KafkaTopicPartition, int] | None = None
        self._ends: dict[KafkaTopicPartition, int] = {}
        self._ids: dict[str, str] = {}

    @property
    def starts_at(self) -> StartsAt:
        """Where the source starts in a job without a snapshot."""
        starting = self._settings.starting
        falls_back = starting.kind in (OffsetsKind.COMMITTED, OffsetsKind.GIVEN)
        if starting.kind is OffsetsKind.LATEST or (falls_back and starting.reset is KafkaOffsetResetStrategy.LATEST):
            return StartsAt.THE_END
        if starting.kind is OffsetsKind.COMMITTED and self._settings.commits_offsets:
            return StartsAt.THE_GROUPS_OFFSETS
        return StartsAt.THE_BEGINNING

    def check_start(self) -> None:
        """Check that the brokers answer and the topics exist."""
        cluster = KafkaCluster(self._settings, _CHECK_TIMEOUT_S)
        try:
            cluster.partitions()
        finally:
            cluster.close()

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED if the source has an end."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self._settings.stopping is None else Boundedness.BOUNDED

    def go_on_after(self, offset: str, log: Mapping[str, bytes]) -> None:
        """Start at Spark's offsets, and stop where Spark would have stopped."""
        try:
            self._begin = partition_offsets(offset)
            self._ends = partition_offsets(log[_ENDS].decode()) if _ENDS in log else {}
            self._ids = dict(json.loads(log[_IDS])) if _IDS in log else {}
        except (ValueError, TypeError, AttributeError) as error:
            message = "The snapshot was written with another kind of source in the place of this one of Kafka."
            raise RestoreError(message, where=self._settings.name, hint="give the new source another uid") from error

    def begin_anew(self) -> None:
        """Start at the program's start offsets."""
        self._begin, self._ends, self._ids = None, {}, {}

    def create_enumerator(self, context: SplitEnumeratorContext[KafkaPartitionSplit]) -> KafkaPartitionEnumerator:
        """Return the enumerator, which discovers the partitions."""
        cluster = KafkaCluster(self._settings)
        return KafkaPartitionEnumerator(context, self._settings, cluster, begin=self._begin, ends=self._ends, ids=self._ids)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[KafkaPartitionSplit], checkpoint: Any
    ) -> KafkaPartitionEnumerator:
        """Return an enumerator of the unassigned and the new partitions."""
        known, waiting = checkpoint
        partitions = [KafkaTopicPartition(str(topic), int(number)) for topic, number in known]
        splits = [self.restore_split(plain) for plain in waiting]
        return KafkaPartitionEnumerator(context, self._settings, KafkaCluster(self._settings), partitions, splits)

    def create_reader(self, context: SourceReaderContext) -> KafkaPartitionReader:
        """Return the reader."""
        settings = self._settings
        cluster, proving = KafkaCluster(settings), KafkaCluster(settings, _PROOF_TIMEOUT_S)
        proves_fetched = proving.find_topics if settings.takes_losses else None
        fetcher = PartitionFetcher(settings, context.notify_available, find_topics=proves_fetched)

        def close() -> None:
            cluster.close()
            proving.close()

        return KafkaPartitionReader(context, settings, fetcher, find_topics=cluster.find_topics, close=close)

    def restore_split(self, plain: Any) -> KafkaPartitionSplit:
        """Return the split from its plain form."""
        return KafkaPartitionSplit.of(plain)
