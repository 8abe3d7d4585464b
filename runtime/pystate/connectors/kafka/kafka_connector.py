"""Kafka, for what knows no system by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pystate.common.overrides import override
from pystate.connectors.connector import Connector

if TYPE_CHECKING:
    from pystate.common.configuration.configuration import Configuration
    from pystate.connectors.finding import Finding
    from pystate.connectors.project_template import ProjectTemplate
    from pystate.connectors.spark_format import SparkFormat


class KafkaConnector(Connector):
    """Kafka."""

    @override
    def spark_formats(self) -> Sequence[SparkFormat]:
        from pystate.connectors.kafka.spark.kafka_format import KafkaFormat

        return (KafkaFormat(),)

    @override
    def position_of_splits(self, splits: Sequence[Any]) -> str | None:
        from pystate.connectors.kafka.source.partition_split import KafkaPartitionSplit

        if not all(map(KafkaPartitionSplit.is_plain, splits)):
            return None
        by_topic: dict[str, dict[str, int]] = {}
        for split in sorted(map(KafkaPartitionSplit.of, splits), key=lambda split: split.partition):
            by_topic.setdefault(split.partition.topic, {})[str(split.partition.partition)] = split.offset
        return json.dumps(by_topic, separators=(",", ":"))

    @override
    def check(self, configuration: Configuration) -> Iterable[Finding]:
        from pystate.connectors.kafka.kafka_check import check_kafka

        yield check_kafka(configuration)

    @override
    def templates(self) -> Mapping[str, ProjectTemplate]:
        from pystate.connectors.kafka.kafka_template import TEMPLATE

        return {"kafka": TEMPLATE}
