"""What Kafka's builders take and refuse; no broker is needed."""

import pickle

import pytest

from pystate.common.errors import JobGraphError
from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.kafka.record_serialization import KafkaRecordSerializationSchema, KafkaTopicSelector
from pystate.connectors.kafka.sink.commit_markers import PARTITIONS, marker_partition
from pystate.connectors.kafka.sink.kafka_sink import KafkaSink
from pystate.connectors.sink import SupportsCommitter
from pystate.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)


class ByLetter(KafkaTopicSelector):
    def apply(self, data):
        return f"topic-{data[0]}"


def schema():
    return KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema())


def sink():
    return KafkaSink.builder().set_bootstrap_servers("here:1").set_record_serializer(schema().build())


def source():
    return KafkaSource.builder().set_bootstrap_servers("here:1").set_value_only_deserializer(SimpleStringSchema())


def test_records_have_topic_key_value_and_time():
    assert schema().build().record_of("a", None) == ("t", None, b"a", None)
    keyed = schema().set_key_serialization_schema(SimpleStringSchema("latin-1")).build()
    assert pickle.loads(pickle.dumps(keyed)).record_of("ä", 5) == ("t", b"\xe4", "ä".encode(), 5)
    assert keyed.record_of("a", -1)[3] is None, "Kafka takes no times before 1970"
    by_letter = KafkaRecordSerializationSchema.builder().set_topic_selector(ByLetter())
    assert by_letter.set_value_serialization_schema(SimpleStringSchema()).build().record_of("xy", None)[0] == "topic-x"


def test_a_topic_that_is_no_text_is_refused():
    odd = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda element: None)
    with pytest.raises(JobGraphError, match="must be a text, not None"):
        odd.set_value_serialization_schema(SimpleStringSchema()).build().record_of("a", None)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: KafkaRecordSerializationSchema.builder().set_topic("t").build(), "needs a value"),
        (
            lambda: KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema()).build(),
            "needs a topic",
        ),
        (lambda: schema().set_topic_selector(ByLetter()), "set already"),
        (lambda: schema().set_value_serialization_schema("text"), "takes a SerializationSchema"),
        (lambda: KafkaSink.builder().set_record_serializer(schema().build()).build(), "where brokers are"),
        (lambda: KafkaSink.builder().set_bootstrap_servers("h:1").build(), "how elements become records"),
        (lambda: sink().set_property("transactional.id", "x"), "not for authors"),
        (lambda: sink().set_delivery_guarantee("EXACTLY_ONCE"), "takes a DeliveryGuarantee"),
        (lambda: KafkaSink(), "made by its builder"),
        (lambda: source().build(), "what to read"),
        (lambda: source().set_topics("a").set_topic_pattern("b"), "set already"),
        (lambda: source().set_topic_pattern("("), "set_topic_pattern"),
        (lambda: source().set_topics("a").set_bounded(KafkaOffsetsInitializer.earliest()), "reads nothing"),
        (lambda: source().set_topics("a").set_starting_offsets("earliest"), "takes a KafkaOffsetsInitializer"),
        (
            lambda: source().set_topics("a").set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(),
            "there is no group",
        ),
        (lambda: KafkaOffsetsInitializer.offsets({("a", 0): -1}), "numbers from 0 on"),
        (lambda: KafkaOffsetsInitializer.timestamp("now"), "takes ms since 1970"),
        (lambda: KafkaOffsetsInitializer.committed_offsets("EARLIEST"), "no KafkaOffsetResetStrategy"),
    ],
)
def test_what_makes_no_sense_is_refused(made, message):
    with pytest.raises(JobGraphError, match=message):
        made()


def test_a_sink_says_its_guarantee():
    reasons = set()
    for guarantee in DeliveryGuarantee:
        made = pickle.loads(pickle.dumps(sink().set_delivery_guarantee(guarantee).build()))
        assert made.delivery_guarantee is guarantee
        assert isinstance(made, SupportsCommitter) is (guarantee is DeliveryGuarantee.EXACTLY_ONCE)
        reasons.add(made.guarantee_reason)
    assert len(reasons) == 3
    assert sink().build().delivery_guarantee is DeliveryGuarantee.NONE


def test_properties_reach_the_client_or_spark_or_nobody():
    made = source().set_topics("a", "b").set_client_id_prefix("me")
    made.set_properties({"security.protocol": "SSL", "auto.offset.reset": "latest", "group.id": "g"})
    settings = (
        made.set_property("maxOffsetsPerTrigger", "7").set_property("partition.discovery.interval.ms", "1").build().settings
    )
    assert settings.properties == {"bootstrap.servers": "here:1", "client.id": "me", "security.protocol": "SSL"}
    assert settings.options == {"maxOffsetsPerTrigger": "7"}
    assert (settings.topics, settings.group_id) == (("a", "b"), "g")


def test_offsets_and_partitions_are_taken_in_any_order():
    given = KafkaOffsetsInitializer.offsets({KafkaTopicPartition("a", 1): 3}, KafkaOffsetResetStrategy.NONE)
    assert given.given == {("a", 1): 3}
    settings = source().set_partitions({KafkaTopicPartition("b", 1), KafkaTopicPartition("a", 2)}).build().settings
    assert settings.partitions == (("a", 2), ("b", 1))


def test_the_partition_of_a_marker_is_the_same_for_ever():
    names = [f"kafka-sink-{number}" for number in range(100)]
    assert {marker_partition(name) for name in names} == set(range(PARTITIONS))
    assert marker_partition("kafka-sink-0") == 7
