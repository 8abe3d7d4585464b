"""Jobs that read and write a real Kafka."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pystate.common.errors import ExternalSystemError, PystateError
from pystate.common.serialization import SimpleStringSchema
from pystate.common.time import Duration
from pystate.common.type_info import Types
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.delivery_guarantee import DeliveryGuarantee
from pystate.connectors.kafka.spark.kafka_brokers import KafkaBrokers
from pystate.datastream import StreamExecutionEnvironment
from pystate.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from pystate.datastream.formats.json import JsonRowDeserializationSchema
from pystate.datastream.functions import KeyedProcessFunction
from pystate.datastream.state import ValueStateDescriptor
from tests.servers.kafka_broker import running_broker, spark_jars

pytestmark = pytest.mark.skipif(
    not spark_jars(), reason="there is no connector of Spark's to Kafka here: run `make servers`"
)

EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def builder(kafka, start=EARLIEST, schema=None):
    made = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_group_id("readers")
    return made.set_starting_offsets(start).set_value_only_deserializer(schema or SimpleStringSchema())


def source(kafka, *topics, start=EARLIEST, end=LATEST, schema=None):
    made = builder(kafka, start, schema).set_topics(*topics)
    return (made if end is None else made.set_bounded(end)).build()


class Key(SimpleStringSchema):
    def serialize(self, element):
        return super().serialize(element.partition(":")[0])


def sink(kafka, topic, guarantee=DeliveryGuarantee.EXACTLY_ONCE):
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_key_serialization_schema(Key())
    schema = schema.set_value_serialization_schema(SimpleStringSchema()).build()
    made = KafkaSink.builder().set_bootstrap_servers(kafka.address).set_delivery_guarantee(guarantee)
    return made.set_record_serializer(schema).build()


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{value}:{count}"


def inspected(path):
    """What `pystate savepoints inspect` prints."""
    command = [sys.executable, "-m", "pystate_cli", "savepoints", "inspect", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_all(run_job, reading, strategy=None):
    found = []

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        found.extend(env.from_source(reading, strategy, "in").execute_and_collect())

    run_job(program, {"parallelism.default": "1"}).result()
    return sorted(found)


@pytest.mark.slow
def test_sources_begin_and_end_where_they_are_told(kafka, run_job):
    from confluent_kafka import Consumer, TopicPartition

    topic = kafka.new_topic(2, retention_ms="-1")  # times long ago
    for partition in (0, 1):
        kafka.send(topic, [(None, f"{partition}{n}") for n in range(4)], partition, timestamp=1_000_000)
        kafka.send(topic, [(None, f"{partition}late")], partition, timestamp=2_000_000)
    kafka.send(topic, [(None, None)], 0)  # a tombstone makes no element
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    consumer.close()
    all_of = {number: [f"{number}{n}" for n in range(4)] + [f"{number}late"] for number in (0, 1)}
    given = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 1): 2}, KafkaOffsetResetStrategy.LATEST)
    committed = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    late = KafkaOffsetsInitializer.timestamp(1_500_000)
    assert read_all(run_job, source(kafka, topic)) == all_of[0] + all_of[1]
    assert read_all(run_job, source(kafka, topic, start=given)) == all_of[1][2:]
    assert read_all(run_job, source(kafka, topic, start=committed)) == all_of[0][3:] + all_of[1]
    assert read_all(run_job, source(kafka, topic, start=late, end=LATEST)) == ["0late", "1late"]
    assert read_all(run_job, source(kafka, topic, end=late)) == all_of[0][:4] + all_of[1][:4]


def test_counts_of_one_topic_go_to_another_and_on_after_a_savepoint(kafka, run_job, tmp_path):
    words, counts = kafka.new_topic(2), kafka.new_topic(2)
    kafka.send(words, [(None, "a"), (None, "a")], 0)
    kafka.send(words, [(None, "b")], 1)

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_source(source(kafka, words, end=None), None, "words").uid("words")
        stream.key_by(lambda word: word, key_type=Types.STRING()).process(Count(), Types.STRING()).uid("count").sink_to(
            sink(kafka, counts)
        ).uid("out")
        env.execute()

    def seen():
        return sorted(message.value().decode() for message in kafka.read(counts))

    options = {"execution.checkpointing.interval": "300 ms"}
    job = run_job(program, options)
    job.wait_for(lambda: seen() == ["a:1", "a:2", "b:1"])
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    assert f"topic {words}: partitions 0 at 2, 1 at 1" in inspected(path)
    kafka.add_partitions(words, 3)
    kafka.send(words, [(None, "a"), (None, "c")], 2)
    kafka.kill()
    kafka.start()
    resumed = run_job(program, {**options, "execution.state-recovery.path": path, "parallelism.default": "1"})
    resumed.wait_for(lambda: seen() == ["a:1", "a:2", "a:3", "b:1", "c:1"])


def identity(kafka, reading, topic):
    """The program of a job that copies what it reads to a topic."""

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_source(reading, None, "in").uid("in").sink_to(sink(kafka, topic)).uid("out")
        env.execute()

    return program


def copied(kafka, topic):
    return sorted(message.value().decode() for message in kafka.read(topic))


OFTEN = {"execution.checkpointing.interval": "300 ms", "parallelism.default": "1"}


@pytest.mark.slow  # tests/connectors/kafka/source/test_partition_enumerator.py has the rules
def test_topics_of_a_pattern_are_found_while_it_runs_and_their_offsets_go_to_the_group(kafka, run_job):
    out, first = kafka.new_topic(), kafka.new_topic(1, "seen-by-pattern")
    kafka.new_topic(1, "not-seen-by-pattern")
    kafka.send(first, [(None, "a")])
    reading = builder(kafka).set_group_id("watched").set_topic_pattern("seen-by-.*").build()
    job = run_job(identity(kafka, reading, out), OFTEN)
    job.wait_for(lambda: kafka.group_offsets("watched", first) == {(first, 0): 1})
    kafka.add_partitions(first, 2)
    second = kafka.new_topic(1, "seen-by-pattern")
    kafka.send(first, [(None, "b"), (None, "c")], 1)
    kafka.send(second, [(None, "d")])
    ends = {(first, 0): 1, (first, 1): 2, (second, 0): 1}
    job.wait_for(lambda: kafka.group_offsets("watched", first, second) == ends)
    job.wait_for(lambda: copied(kafka, out) == ["a", "b", "c", "d"])


def left_of(job):
    """What the job's metrics tell of each partition of the source "in": {number: (offset read now, records left)}."""
    found = {}
    for task in job.master.metrics().tasks:
        for sample in (sample for one in task.subtasks for sample in one.samples if sample.operator is not None):
            if sample.path[0] == "KafkaSourceReader":
                found.setdefault(int(sample.path[-2]), {})[sample.path[-1]] = sample.value
    return {number: (told["currentOffset"], told.get("pendingRecords")) for number, told in found.items()}


@pytest.mark.slow
def test_how_far_each_partition_is_read_and_what_is_left_is_told_while_epochs_go_on(kafka, run_job):
    words, out = kafka.new_topic(3), kafka.new_topic()
    kafka.send(words, [(None, f"{number}") for number in range(200)], 0)
    kafka.send(words, [(None, f"{number}") for number in range(10)], 1)
    slowly = builder(kafka).set_topics(words).set_property("maxOffsetsPerTrigger", "30").build()
    job = run_job(identity(kafka, slowly, out))
    job.wait_for(lambda: (left_of(job).get(0) or (0, 0))[1])
    offset, left = left_of(job)[0]
    assert offset + 1 + left == 200
    job.wait_for(lambda: left_of(job) == {0: (199, 0), 1: (9, 0), 2: (-1, 0)})


@pytest.mark.slow
def test_a_source_waits_for_its_end_and_keeps_it_in_a_savepoint(kafka, run_job, tmp_path):
    words, out = kafka.new_topic(3), kafka.new_topic()
    kafka.send(words, [(None, "a"), (None, "b")], 0)
    kafka.send(words, [(None, "of another partition")], 2)

    def to_offset_4(end):
        reading = builder(kafka).set_partitions({KafkaTopicPartition(words, 0), KafkaTopicPartition(words, 1)})
        return identity(kafka, reading.set_bounded(end).build(), out)

    end = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(words, 0): 4}, KafkaOffsetResetStrategy.LATEST)
    job = run_job(to_offset_4(end), OFTEN)
    job.wait_for(lambda: copied(kafka, out) == ["a", "b"])
    kafka.send(words, [(None, "c")], 0)
    job.wait_for(lambda: copied(kafka, out) == ["a", "b", "c"])
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    kafka.send(words, [(None, text) for text in ("d", "after the end", "far after it")], 0)
    kafka.send(words, [(None, "after the end of partition 1")], 1)
    run_job(to_offset_4(LATEST), {**OFTEN, "execution.state-recovery.path": path}).result()
    assert copied(kafka, out) == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_a_job_reads_and_writes_with_a_password(run_job, tmp_path):
    with running_broker(tmp_path, {}, passwords={"alice": "secret"}) as kafka:
        words, out = kafka.new_topic(), kafka.new_topic()
        kafka.send(words, [(None, "a")])
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        made = KafkaSource.builder().set_bootstrap_servers(kafka.secure_address).set_topics(words).set_bounded(LATEST)
        made.set_property("security.protocol", "SASL_PLAINTEXT").set_property("sasl.mechanism", "PLAIN")
        made.set_property("sasl.jaas.config", f'{plain} username="alice" password="secret";')
        made.set_value_only_deserializer(SimpleStringSchema())
        schema = KafkaRecordSerializationSchema.builder().set_topic(out)
        schema.set_value_serialization_schema(SimpleStringSchema())
        writing = KafkaSink.builder().set_bootstrap_servers(kafka.secure_address).set_record_serializer(schema.build())
        writing.set_property("security.protocol", "SASL_PLAINTEXT").set_property("sasl.mechanism", "PLAIN")
        writing.set_property("sasl.username", "alice").set_property("sasl.password", "secret")
        writing.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)

        def program():
            env = StreamExecutionEnvironment.get_execution_environment()
            env.from_source(made.build(), None, "in").uid("in").sink_to(writing.build()).uid("out")
            env.execute()

        run_job(program, OFTEN).result()
        assert copied(kafka, out) == ["a"]


class Timers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        yield from ()

    def on_timer(self, timestamp, ctx):
        yield f"fired:{timestamp}"


@pytest.mark.slow
def test_each_partition_has_a_watermark_of_its_own(kafka, run_job):
    topic, fired = kafka.new_topic(2, retention_ms="-1"), kafka.new_topic()
    kafka.send(topic, [(None, '{"n":1}')], 0, timestamp=1000)
    kafka.send(topic, [(None, '{"n":2}')], 0, timestamp=90_000)
    kafka.send(topic, [(None, '{"n":3}')], 1, timestamp=2000)
    rows = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["n"], [Types.LONG()])).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(1))

    def program():
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_source(source(kafka, topic, end=None, schema=rows), strategy, "timed")
        stream.key_by(lambda row: "one", key_type=Types.STRING()).process(Timers(), Types.STRING()).sink_to(
            sink(kafka, fired, DeliveryGuarantee.AT_LEAST_ONCE)
        )
        env.execute()

    def seen():
        return [message.value().decode() for message in kafka.read(fired)]

    run_job(program, {"execution.checkpointing.interval": "200 ms", "parallelism.default": "1"})
    deadline = time.monotonic() + 120
    moment = 90_000
    while "fired:90000" not in seen():  # partition 1 is idle by now, 0 is not
        assert time.monotonic() < deadline, seen()
        moment += 1
        kafka.send(topic, [(None, '{"n":4}')], 0, timestamp=moment)
    order = [int(text.partition(":")[2]) for text in seen()]
    assert order[:2] == [1000, 2000], "timers fire in the order of time, whichever partition brought them"
    assert order == sorted(order)


def test_a_topic_that_was_made_anew_is_refused_after_a_savepoint(kafka, run_job, tmp_path):
    topic, out = kafka.new_topic(), kafka.new_topic()
    kafka.send(topic, [(None, text) for text in "ab"])
    job = run_job(identity(kafka, source(kafka, topic, end=None), out), OFTEN)
    job.wait_for(lambda: copied(kafka, out) == ["a", "b"])
    path = job.savepoint(tmp_path / "savepoints", stop=True)
    job.result()
    kafka.remake_topic(topic, 1)
    kafka.send(topic, [(None, text) for text in "cdefg"])
    options = {**OFTEN, "execution.state-recovery.path": path, "restart-strategy.type": "none"}
    with pytest.raises(PystateError, match="deleted and recreated"):
        run_job(identity(kafka, source(kafka, topic), out), options).result()
    assert copied(kafka, out) == ["a", "b"]


def test_a_topic_that_is_made_anew_while_it_is_read_fails_the_job_before_its_records_go_out(kafka, run_job):
    topic, out = kafka.new_topic(), kafka.new_topic()
    kafka.send(topic, [(None, text) for text in "ab"])
    job = run_job(identity(kafka, source(kafka, topic, end=None), out), OFTEN)
    job.wait_for(lambda: copied(kafka, out) == ["a", "b"])
    kafka.remake_topic(topic, 1)
    kafka.send(topic, [(None, text) for text in "cdefg"])
    with pytest.raises(PystateError, match="deleted and recreated"):
        job.result()
    assert copied(kafka, out) == ["a", "b"]


@pytest.mark.slow
def test_brokers_that_are_away_are_waited_for_no_longer_than_an_epoch_can(kafka, spark):
    topic = kafka.new_topic()
    with KafkaBrokers(spark, {"bootstrap.servers": kafka.address}, "words") as brokers:
        assert brokers.topic_ids((topic, "not-there"), None, 30_000).keys() == {topic}
        kafka.kill()
        try:
            with pytest.raises(ExternalSystemError, match="no answer in time"):
                brokers.topic_ids((topic,), None, 100)
        finally:
            kafka.start()
