"""Reads Kafka and writes Kafka and Parquet, exactly once: numbers the records of each key.

    pip install 'pystate-spark[kafka]'
    pystate run -Dspark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION \
        examples/kafka_pipeline.py localhost:9092 words counts [/data/counts]

VERSION is that of the installed Spark; `pystate doctor` prints it. To feed and watch it:

    kafka-console-producer.sh --bootstrap-server localhost:9092 --topic words
    kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic counts --isolation-level read_committed

Each line of `counts` is JSON: a word and its count so far. However often the job fails, is rescaled, stopped and
resumed: a reader of committed records sees 1, 2, 3, ... of each word, in this order. With a folder after the topics, the
    same rows also go to Parquet files there, which appear when their checkpoint completes.
"""

import sys

from pystate.common import Row, Types, WatermarkStrategy
from pystate.common.serialization import SerializationSchema, SimpleStringSchema
from pystate.datastream import KeyedProcessFunction, StreamExecutionEnvironment, ValueStateDescriptor
from pystate.datastream.connectors import DeliveryGuarantee
from pystate.datastream.connectors.file_system import FileSink
from pystate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pystate.datastream.formats.json import JsonRowSerializationSchema
from pystate.datastream.formats.parquet import ParquetBulkWriters

COUNTED = Types.ROW_NAMED(["word", "count"], [Types.STRING(), Types.LONG()])


class CountWords(KeyedProcessFunction):
    """Counts each word."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(word=value, count=count)


class WordAsKey(SerializationSchema):
    """The key of a record, so that all counts of a word are in one partition, in order."""

    def serialize(self, element):
        return element.word.encode()


def main(servers: str, words: str, counts: str, folder: str | None = None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(words)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    records = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(counts)
        .set_key_serialization_schema(WordAsKey())
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(COUNTED).build())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("kafka-pipeline")
        .set_record_serializer(records)
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "words").uid("words")
    counted = stream.key_by(lambda word: word, key_type=Types.STRING()).process(CountWords(), COUNTED).uid("count")
    counted.sink_to(sink).uid("counts")
    if folder is not None:
        files = FileSink.for_bulk_format(folder, ParquetBulkWriters.for_row_type(COUNTED)).build()
        counted.sink_to(files).uid("files")
    env.execute("kafka pipeline")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: kafka_pipeline.py BROKERS TOPIC_OF_WORDS TOPIC_OF_COUNTS [FOLDER]")
    main(*sys.argv[1:])
