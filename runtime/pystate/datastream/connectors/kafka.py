"""Kafka's names. The connector isn't there yet; Spark's own reads and writes Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

from pystate.common.not_there import not_there

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]

_WHY = "the Kafka connector comes later."
_READ = 'read Kafka with Spark: env.from_data_frame(env.spark.readStream.format("kafka")...load())'
_WRITE = 'write Kafka with Spark: for_each_batch(lambda frame, epoch: frame.write.format("kafka")...save())'


class Semantic(Enum):
    """How often an element gets to Kafka."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class KafkaOffsetResetStrategy(Enum):
    """Where to begin where no offset is known."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class KafkaTopicSelector(ABC):
    """Says to which topic an element goes."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of an element."""


FlinkKafkaConsumer = not_there("FlinkKafkaConsumer", _WHY, _READ)
KafkaSource = not_there("KafkaSource", _WHY, _READ)
KafkaSourceBuilder = not_there("KafkaSourceBuilder", _WHY, _READ)
KafkaTopicPartition = not_there("KafkaTopicPartition", _WHY, _READ)
KafkaOffsetsInitializer = not_there("KafkaOffsetsInitializer", _WHY, _READ)
FlinkKafkaProducer = not_there("FlinkKafkaProducer", _WHY, _WRITE)
KafkaSink = not_there("KafkaSink", _WHY, _WRITE)
KafkaSinkBuilder = not_there("KafkaSinkBuilder", _WHY, _WRITE)
KafkaRecordSerializationSchema = not_there("KafkaRecordSerializationSchema", _WHY, _WRITE)
KafkaRecordSerializationSchemaBuilder = not_there("KafkaRecordSerializationSchemaBuilder", _WHY, _WRITE)
