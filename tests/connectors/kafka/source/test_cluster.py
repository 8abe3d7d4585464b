"""Where a source begins and ends, as brokers say."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from pystate.connectors.kafka.record_deserialization import KafkaRecordDeserializationSchema
from pystate.connectors.kafka.source.kafka_cluster import KafkaCluster
from pystate.connectors.kafka.source.split_settings import KafkaSplitSettings

BEGINS = {
    "latest": KafkaOffsetsInitializer.latest(),
    "timestamp": KafkaOffsetsInitializer.timestamp(1),  # of the open transaction's records, which nobody sees yet
    "a time to come": KafkaOffsetsInitializer.timestamp(4_000_000_000_000),
    "no offsets": KafkaOffsetsInitializer.offsets({}, KafkaOffsetResetStrategy.LATEST),
    "no group": KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST),
}


def cluster(kafka, topic, isolation):
    properties = {"bootstrap.servers": kafka.address, "isolation.level": isolation}
    schema = KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())
    settings = KafkaSplitSettings(schema, properties, "in", topics=(topic,), group_id="nobodys")
    return KafkaCluster(settings)


@pytest.mark.parametrize("begin", BEGINS)
def test_who_reads_committed_records_begins_before_a_transaction_that_is_open(kafka, begin):
    topic = kafka.new_topic()
    partition = KafkaTopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic, "log_level": 2})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in ("open 0", "open 1"):
        producer.produce(topic, value)
    producer.flush(30)
    begins = {
        isolation: cluster(kafka, topic, isolation).offsets(BEGINS[begin], [partition])[partition]
        for isolation in ("read_committed", "read_uncommitted")
    }
    producer.abort_transaction(30)
    assert begins["read_committed"] == 0
    assert begins["read_uncommitted"] == (0 if begin == "timestamp" else 2)


def test_a_topic_that_is_made_anew_has_another_id(kafka):
    topic = kafka.new_topic()
    before = cluster(kafka, topic, "read_committed").find_topics([topic])[topic]
    kafka.remake_topic(topic, 2)
    after = cluster(kafka, topic, "read_committed").find_topics([topic])[topic]
    assert None not in (before.topic_id, after.topic_id)
    assert before.topic_id != after.topic_id
    assert (before.partitions, after.partitions) == ({0}, {0, 1})
