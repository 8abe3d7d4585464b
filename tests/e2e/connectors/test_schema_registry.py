"""A job reads Avro of a registry from Kafka and writes it back, on both engines; schemas go to where messages are."""

from __future__ import annotations

import struct

import pytest

from pystate.common import Row
from pystate.connectors.bad_records import BAD_RECORD, BadRecords
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.core.api.output_tag import OutputTag
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pystate.datastream.formats.schema_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    Subject,
)
from tests.datastream.formats.test_schema_registry import NEW, OLD
from tests.servers.kafka_broker import spark_jars
from tests.servers.schema_registry import registry  # noqa: F401 - a fixture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not spark_jars(), reason="there is no connector of Spark's to Kafka here: run `make servers`"),
]
BAD = OutputTag("bad", BAD_RECORD)


@pytest.mark.parametrize("engine", ["micro-batch", "real-time"])
def test_old_messages_become_new_ones_and_strange_ones_are_put_aside(kafka, registry, run_job, engine):  # noqa: F811
    source, target = kafka.new_topic(1), kafka.new_topic(1)
    old = ConfluentRegistryAvroSerializationSchema.for_rows(Subject.of_topic(source), OLD, registry)
    strange = [b"plain", b"\x00" + struct.pack(">I", 999_999) + b"abc"]
    kafka.send(source, [(None, old.serialize(Row(id=number, w="a"))) for number in range(5)])
    kafka.send(source, [(None, value) for value in strange])
    found = []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(source)
        made = made.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_bounded(KafkaOffsetsInitializer.latest())
        made.set_value_only_deserializer(ConfluentRegistryAvroDeserializationSchema.for_rows(NEW, registry))
        rows = env.from_source(made.set_bad_records(BadRecords.to_side_output(BAD)).build(), None, "in").uid("in")
        new = ConfluentRegistryAvroSerializationSchema.for_rows(Subject.of_topic(target), NEW, registry)
        schema = KafkaRecordSerializationSchema.builder().set_topic(target).set_value_serialization_schema(new).build()
        sink = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_record_serializer(schema)
        rows.sink_to(sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()).uid("out")
        found.extend(rows.get_side_output(BAD).map(lambda bad: bad["value"]).execute_and_collect())

    run_job(program, {"parallelism.default": "1", "execution.engine": engine}).result()

    assert found == strange
    reads = ConfluentRegistryAvroDeserializationSchema.for_generic(NEW, registry)
    written = [reads.deserialize(message.value()) for message in kafka.read(target)]
    assert written == [{"more": "d", "id": number} for number in range(5)]
