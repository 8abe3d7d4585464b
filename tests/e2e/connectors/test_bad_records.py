"""Records that can't be read go to a side output of their source, on both engines, by Spark's connector and in slots."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from pystate.common import Row, Types
from pystate.common.row import RowKind
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.bad_records import BAD_RECORD, BadRecords
from pystate.core.api.output_tag import OutputTag
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.file_system import FileSource
from pystate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordDeserializationSchema, KafkaSource
from pystate.datastream.formats.avro import AvroBulkFormat, AvroRowDeserializationSchema, AvroRowSerializationSchema
from pystate.datastream.formats.change_data import DebeziumJsonDeserializationSchema
from pystate.datastream.functions import KeyedProcessFunction
from pystate.datastream.state import ValueStateDescriptor
from tests.datastream.formats.test_avro import PAIR, schema, written
from tests.servers.kafka_broker import spark_jars

ENGINES = pytest.mark.parametrize("engine", ["micro-batch", "real-time"])
NEEDS_KAFKA = pytest.mark.skipif(not spark_jars(), reason="there is no connector of Spark's to Kafka: run `make servers`")
ORDER = schema({"name": "n", "type": "int"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}})
TAG = OutputTag("bad", BAD_RECORD)


class Whole(KafkaRecordDeserializationSchema):
    produced_type = Types.STRING()

    def deserialize(self, record):
        headers = [(name, value) for name, value in record.headers]
        yield f"{record.partition} {record.offset} {record.timestamp} {record.key} {record.value} {headers}"


def kafka_source(kafka, topic):
    made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(topic)
    return made.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_bounded(KafkaOffsetsInitializer.latest())


def outputs(run_job, engine, build):
    """Run a job of one stream, and return its elements and those of its side output."""
    found = []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        stream, side = build(env)
        texts = stream.map(lambda element: f"main {element}", Types.STRING())
        found.extend(texts.union(side.map(lambda row: f"side {row}", Types.STRING())).execute_and_collect())

    job = run_job(program, {"parallelism.default": "2", "execution.engine": engine})
    job.result()
    job.wait_for(lambda: counted(job) == 1)
    return sorted(found)


def counted(job):
    """Return how many records the job's sources have refused."""
    samples = [sample for task in job.master.metrics().tasks for subtask in task.subtasks for sample in subtask.samples]
    return sum(sample.value for sample in samples if sample.name == "numRecordsInErrors")


@NEEDS_KAFKA
@pytest.mark.slow
@ENGINES
def test_records_of_kafka(kafka, run_job, engine):
    topic = kafka.new_topic(1, retention_ms="-1")  # times long ago
    orders = [Row(n=number, at=dt.datetime(2026, 1, 1)) for number in range(3)]  # noqa: DTZ001 - ours have no zone
    good = list(map(AvroRowSerializationSchema(avro_schema_string=ORDER).serialize, orders))
    kafka.send(topic, [(b"a", good[0]), (b"k", b"\x01"), (None, None), (None, good[1])], timestamp=1000)
    kafka.send(topic, [(None, good[2])], timestamp=2000)
    avro = AvroRowDeserializationSchema(avro_schema_string=ORDER)

    def build(env):
        source = kafka_source(kafka, topic).set_value_only_deserializer(avro)
        made = source.set_bad_records(BadRecords.to_side_output(TAG)).build()
        stream = env.from_source(made, WatermarkStrategy.for_monotonous_timestamps(), "orders").uid("orders")
        return stream, stream.get_side_output(TAG)

    *main, side = outputs(run_job, engine, build)

    assert main == [f"main {order}" for order in orders]
    where = f"value=b'\\x01', key=b'k', source='{topic}', partition=0, position=1, timestamp=1000, reason="
    assert side.startswith(f'side Row({where}"A message is no Avro of ROW<n INT, at SQL_TIMESTAMP>: EOFError'), side


@NEEDS_KAFKA
@pytest.mark.slow
@ENGINES
def test_whole_records_of_kafka(kafka, run_job, engine):
    topic = kafka.new_topic(1, retention_ms="-1")  # times long ago
    kafka.send(topic, [(b"k", None), (None, b"v")], timestamp=1000)
    found = []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        made = kafka_source(kafka, topic).set_deserializer(Whole()).build()
        found.extend(env.from_source(made, None, "records").execute_and_collect())

    run_job(program, {"parallelism.default": "1", "execution.engine": engine}).result()

    assert sorted(found) == ["0 0 1000 b'k' None []", "0 1 1000 None b'v' []"]


class Balance(KeyedProcessFunction):
    """Counts what is there of a key, by kinds."""

    def open(self, runtime_context):
        self.there = runtime_context.get_state(ValueStateDescriptor("there", Types.LONG()))

    def process_element(self, value, ctx):
        step = 1 if value.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
        self.there.update((self.there.value() or 0) + step)
        yield f"{value['id']} {value.get_row_kind()} {self.there.value()}"


@NEEDS_KAFKA
@pytest.mark.slow
@ENGINES
def test_kinds_of_changes_reach_functions_after_a_shuffle(kafka, run_job, engine):
    topic, row_type = kafka.new_topic(1), Types.ROW_NAMED(["id"], [Types.LONG()])
    changes = [
        (number, {"op": op, "before": {"id": number}, "after": {"id": number}})
        for number, ops in ((1, "cu"), (2, "cd"))
        for op in ops
    ]
    kafka.send(topic, [(str(number).encode(), json.dumps(change).encode()) for number, change in changes])
    found = []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        made = kafka_source(kafka, topic).set_value_only_deserializer(DebeziumJsonDeserializationSchema(row_type)).build()
        rows = env.from_source(made, None, "changes").key_by(lambda row: row["id"], Types.LONG())
        found.extend(rows.process(Balance(), Types.STRING()).execute_and_collect())

    run_job(program, {"parallelism.default": "2", "execution.engine": engine}).result()

    assert [text for text in found if text[0] == "1"] == ["1 +I 1", "1 -U 0", "1 +U 1"]
    assert [text for text in found if text[0] == "2"] == ["2 +I 1", "2 -D 0"]


@pytest.mark.slow
@ENGINES
def test_records_of_files(run_job, tmp_path, engine):
    rows = [Row(n=number, s=f"s{number}") for number in range(15)]
    folder = tmp_path / "pairs"
    folder.mkdir()
    (folder / "a.avro").write_bytes(written(rows).replace(b"s7", b"\xff7"))

    def build(env):
        made = FileSource.for_bulk_file_format(AvroBulkFormat.for_rows(PAIR), str(folder))
        stream = env.from_source(made.set_bad_records(BadRecords.to_side_output(TAG)).build(), None, "pairs")
        return stream, stream.get_side_output(TAG)

    *main, side = outputs(run_job, engine, build)

    assert sorted(main) == sorted(f"main {row}" for row in rows[:7] + rows[10:])
    assert f"source='file:{folder}/a.avro', partition=None, position=7" in side
