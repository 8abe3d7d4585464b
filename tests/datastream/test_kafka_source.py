"""What a `KafkaSource` makes of records, and of a Spark that can't read them; no broker is needed."""

import pyarrow as pa
import pyspark
import pytest

from pystate.common.errors import JobGraphError
from pystate.common.serialization import DeserializationSchema, SimpleStringSchema
from pystate.common.type_info import Types
from pystate.connectors.bad_records import BadRecords
from pystate.connectors.kafka.record_deserialization import KafkaRecordDeserializationSchema
from pystate.connectors.kafka.spark.kafka_brokers import check_connector
from pystate.connectors.kafka.spark.kafka_decoder import KafkaDecoder
from pystate.connectors.kafka.spark.kafka_starts import FROM_THE_END, FROM_THE_GROUP, STARTS
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.kafka import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaSource


class Evens(DeserializationSchema):
    def deserialize(self, message):
        number = int(message)
        return number if number % 2 == 0 else None


def source(schema):
    made = KafkaSource.builder().set_bootstrap_servers("here:1").set_topics("t").set_value_only_deserializer(schema)
    return made.set_bounded(KafkaOffsetsInitializer.latest()).build()


def decoder(schema):
    return KafkaDecoder(KafkaRecordDeserializationSchema.value_only(schema), BadRecords.fail())


def test_values_become_elements_with_their_times():
    values = pa.array([b"2", b"3", None, b"4"], pa.binary())
    timed = pa.RecordBatch.from_arrays([values, pa.array([10, 20, 30, 40])], ["value", "timestamp"])
    assert list(decoder(Evens()).decode(timed, None)) == [(2, 10), (None, 20), (None, 30), (4, 40)]
    plain = pa.RecordBatch.from_arrays([values], ["value"])
    assert list(decoder(SimpleStringSchema()).decode(plain, None)) == [
        ("2", None),
        ("3", None),
        (None, None),
        ("4", None),
    ]


def test_a_source_says_what_it_gives_and_whether_it_ends():
    env = StreamExecutionEnvironment.get_execution_environment()
    for schema, expected in ((SimpleStringSchema(), Types.STRING()), (Evens(), None)):
        env.from_source(source(schema), None, "in")
        step = env._sources[-1]
        assert (step.output_type, step.bounded, step.name) == (expected, True, "in")
    env.from_source(source(Evens()), None, "in", Types.LONG())
    assert env._sources[-1].output_type == Types.LONG()


class SparkWithoutConnector:
    """A session whose class path has nothing."""

    def __getattr__(self, name):
        return self if name != "getResource" else lambda path: None

    def __call__(self):
        return self


def test_a_spark_without_the_connector_is_refused_with_the_package_to_add():
    with pytest.raises(JobGraphError, match="Spark's connector to Kafka is not here") as refused:
        check_connector(SparkWithoutConnector(), "words")
    assert f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}" in refused.value.hint
    assert refused.value.where == "words"


class Broker:
    """Knows where a group of one partition is."""

    def partitions(self, topics, pattern):
        return [("t", 0)]

    def offsets(self, starting, partitions, group):
        return dict.fromkeys(partitions, 7)


@pytest.mark.parametrize(
    ("start", "commits", "told"),
    [
        (KafkaOffsetsInitializer.committed_offsets(), "true", FROM_THE_GROUP),
        (KafkaOffsetsInitializer.committed_offsets(), "false", None),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), "true", FROM_THE_END),
        (KafkaOffsetsInitializer.offsets({}, KafkaOffsetResetStrategy.LATEST), "true", FROM_THE_END),
        (KafkaOffsetsInitializer.offsets({}), "true", None),
        (KafkaOffsetsInitializer.timestamp(5), "true", None),
    ],
)
def test_a_start_is_told_where_numbers_do_not_say_what_they_leave_out(start, commits, told):
    made = KafkaSource.builder().set_bootstrap_servers("here:1").set_topics("t").set_group_id("g")
    made = made.set_property("commit.offsets.on.checkpoint", commits).set_starting_offsets(start)
    options = made.set_value_only_deserializer(SimpleStringSchema()).build()._starting(Broker())
    assert options.pop("startingOffsets") == '{"t": {"0": 7}}'
    assert options == ({} if told is None else {STARTS: told})
