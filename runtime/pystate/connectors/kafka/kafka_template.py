"""From Kafka to Kafka, exactly once: words, counted."""

from __future__ import annotations

from pystate.common.distribution import pip_install
from pystate.connectors.project_template import ProjectTemplate

_JOB = '''
"""Counts words from a topic of Kafka into another one, exactly once.

    pystate run {module}.py [--servers localhost:9092] [--words words] [--counts counts]

Each record of the topic of words is a word; each of the topic of counts is JSON, a word and how often it has come, in the
partition of its word. A reader of committed records (isolation.level = read_committed) sees each count once, however often
the job fails.
"""

import argparse

from pystate.common import Row, Types, WatermarkStrategy
from pystate.common.serialization import SerializationSchema, SimpleStringSchema
from pystate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors import DeliveryGuarantee
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pystate.datastream.formats.json import JsonRowSerializationSchema

COUNTED = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])


class CountWords(KeyedProcessFunction):
    """Emits each word with how often it was seen so far."""

    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(word=value, count=count)


class WordAsKey(SerializationSchema):
    """The key of a record: all counts of a word are in one partition, in their order."""

    def serialize(self, element):
        return element.word.encode()


def words_source(servers, topic):
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


def counts_sink(servers, topic):
    records = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_serialization_schema(WordAsKey())
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(COUNTED).build())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("{name}")
        .set_record_serializer(records)
        .build()
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--words", default="words")
    parser.add_argument("--counts", default="counts")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    source = words_source(arguments.servers, arguments.words)
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "words")
        .uid("words")
        .key_by(lambda word: word, key_type=Types.STRING())
        .process(CountWords(), output_type=COUNTED)
        .name("count words")
        .uid("count-words")  # the state is found by it in the next version of the program: keep it, and that of the sink
        .sink_to(counts_sink(arguments.servers, arguments.counts))
        .name("counts")
        .uid("counts")
    )
    env.execute("{name}")


if __name__ == "__main__":
    main()
'''

_TEST = '''
"""Tests of the job's function and of the records it writes, without Spark and without a broker: python -m pytest"""

import json

from pystate.common import Row, Types
from pystate.datastream.formats.json import JsonRowSerializationSchema
from pystate.testing import ProcessFunctionTestHarnesses

from {module} import COUNTED, CountWords, WordAsKey


def test_each_word_has_a_count_of_its_own():
    counting = ProcessFunctionTestHarnesses.for_keyed_process_function(CountWords(), lambda word: word, Types.STRING())

    counting.process_elements(["a", "b", "a"])

    assert counting.extract_output() == [Row(word="a", count=1), Row(word="b", count=1), Row(word="a", count=2)]


def test_a_record_is_json_under_its_word():
    row = Row(word="a", count=2)

    value = JsonRowSerializationSchema.builder().with_type_info(COUNTED).build().serialize(row)

    assert json.loads(value) == {"word": "a", "count": 2}
    assert WordAsKey().serialize(row) == b"a"
'''

_SETTINGS = """
# Spark reads Kafka by a package of its own, which it fetches at the first start (`pystate doctor` looks for it).
"spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}"
"""

TEMPLATE = ProjectTemplate(
    about="counts the words of one topic of Kafka into another one, exactly once",
    job=_JOB,
    test=_TEST,
    files={},
    commands=(
        (pip_install("kafka"), "the client that writes"),
        ("pystate run {module}.py --servers localhost:9092", "the topics are words and counts"),
        ("pystate run -d {module}.py --servers localhost:9092", "the same, detached"),
    ),
    settings=_SETTINGS,
    first_run=f"{pip_install('kafka')}\npystate run {{module}}.py --servers localhost:9092",
)
