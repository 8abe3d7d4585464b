"""Kafka source and sink, with the names of `pyflink.datastream.connectors.kafka`."""

from enum import Enum

from pystate.common.not_there import not_there
from pystate.connectors.kafka.offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from pystate.connectors.kafka.record_deserialization import ConsumerRecord, KafkaRecordDeserializationSchema
from pystate.connectors.kafka.record_serialization import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from pystate.connectors.kafka.sink.kafka_sink import KafkaSink, KafkaSinkBuilder
from pystate.connectors.kafka.spark.kafka_source import KafkaSource, KafkaSourceBuilder
from pystate.connectors.kafka.upserts import (
    UpsertKafkaRecordDeserializationSchema,
    UpsertKafkaRecordSerializationSchema,
    ValueFieldsStrategy,
)

__all__ = [
    "ConsumerRecord",
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordDeserializationSchema",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
    "UpsertKafkaRecordDeserializationSchema",
    "UpsertKafkaRecordSerializationSchema",
    "ValueFieldsStrategy",
]

_WHY = "Flink 2 has it no more, and PyFlink's wraps a Java class that is gone."


class Semantic(Enum):
    """The delivery guarantees of Flink's old producer."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


FlinkKafkaConsumer = not_there("FlinkKafkaConsumer", _WHY, "read with KafkaSource.builder()")
FlinkKafkaProducer = not_there("FlinkKafkaProducer", _WHY, "write with KafkaSink.builder()")
