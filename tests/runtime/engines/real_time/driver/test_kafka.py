"""Kafka's partitions as a source on the real-time engine, with a real broker: each record once, whatever fails."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from pystate.common import Duration
from pystate.common.errors import ExternalSystemError, RestoreError
from pystate.common.job_status import JobStatus
from pystate.common.watermark_strategy import WatermarkStrategy
from pystate.connectors.kafka.offsets import partition_offsets
from pystate.datastream.connectors.kafka import KafkaOffsetResetStrategy, KafkaOffsetsInitializer, KafkaTopicPartition
from pystate.ops.catalog.snapshot_sources import split_positions
from pystate.runtime.execution.restore import load_snapshot
from tests.runtime.engines.real_time.driver.jobs import RealTimeJob
from tests.runtime.engines.real_time.driver.kafka_programs import EARLIEST, LATEST, builder, counting, firing, printing
from tests.servers.kafka_broker import missing, running_broker
from tests.waiting import wait_until


@pytest.fixture
def job(tmp_path):
    made = []

    def make(program, **options):
        made.append(RealTimeJob(tmp_path / f"{len(made)}", program, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def numbered(kafka, topic, count, first=0, partitions=2):
    for partition in range(partitions):
        kafka.send(topic, [(None, f"{partition}.{number}") for number in range(first, first + count)], partition)


def printed(capsys):
    return sorted(line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines())


def test_a_bounded_source_ends_by_itself_where_it_is_told(kafka, job, capsys):
    topic = kafka.new_topic(2, retention_ms="-1")
    for partition in (0, 1):
        kafka.send(topic, [(None, f"{partition}{n}") for n in range(4)], partition, timestamp=1_000_000)
        kafka.send(topic, [(None, f"{partition}late")], partition, timestamp=2_000_000)
    kafka.send(topic, [(None, None)], 0)  # a tombstone makes no element
    all_of = {number: [f"{number}{n}" for n in range(4)] + [f"{number}late"] for number in (0, 1)}
    given = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 1): 2}, KafkaOffsetResetStrategy.LATEST)
    late = KafkaOffsetsInitializer.timestamp(1_500_000)

    def read(start, end):
        source = builder(kafka.address, start).set_topics(topic).set_bounded(end).build()
        assert job(printing(source)).end() is JobStatus.FINISHED
        return printed(capsys)

    assert read(EARLIEST, LATEST) == all_of[0] + all_of[1]
    assert read(given, LATEST) == all_of[1][2:]
    assert read(late, LATEST) == ["0late", "1late"]
    assert read(EARLIEST, late) == all_of[0][:4] + all_of[1][:4]


def positions(running):
    """What is told of partitions: {"0.currentOffset": 7}."""
    samples = [sample for task in running.master.metrics().tasks for one in task.subtasks for sample in one.samples]
    return {".".join(one.path[-2:]): one.value for one in samples if one.path[0] == "KafkaSourceReader"}


def test_a_reader_that_is_far_behind_tells_what_is_left_of_each_partition_until_it_has_read_all(kafka, job):
    topic, out = kafka.new_topic(3), kafka.new_topic(1)  # nobody writes to the last partition
    numbered(kafka, topic, 300)
    source = builder(kafka.address).set_topics(topic).build()
    running = job(counting(source, kafka.address, out, seconds=0.02))
    wait_until(lambda: (running.master.backlog(None) or 0) > 0)
    wait_until(lambda: running.master.backlog(None) == 0)
    last = {"0.currentOffset": 299, "1.currentOffset": 299, "2.currentOffset": -1}
    assert positions(running) == {**last, **{f"{number}.pendingRecords": 0 for number in range(3)}}


@pytest.mark.slow
def test_how_much_is_left_is_not_known_while_the_brokers_are_away(kafka, job):
    topic = kafka.new_topic(1)
    numbered(kafka, topic, 10, partitions=1)
    running = job(printing(builder(kafka.address).set_topics(topic).build()))
    all_read = {"0.currentOffset": 9, "0.pendingRecords": 0}
    wait_until(lambda: positions(running) == all_read)
    kafka.kill()
    wait_until(lambda: math.isnan(positions(running)["0.pendingRecords"]))
    wait_until(lambda: running.master.backlog(None) is None)
    kafka.start()
    wait_until(lambda: positions(running) == all_read)
    wait_until(lambda: running.master.backlog(None) == 0)


def counts_of(kafka, topic):
    """What a reader of committed records sees: how often each `word:count` is there."""
    return Counter(message.value().decode() for message in kafka.read(topic))


def expected(partitions, count, rounds=1):
    return {f"{p}.{n}:{r + 1}": 1 for p in range(partitions) for n in range(count) for r in range(rounds)}


@pytest.mark.slow
def test_counts_are_there_once_though_slots_are_killed_and_the_job_is_rescaled(kafka, job, capsys):
    words, out = kafka.new_topic(3), kafka.new_topic(2)
    numbered(kafka, words, 400, partitions=3)
    source = builder(kafka.address).set_topics(words).set_group_id("watched").build()
    one = job(counting(source, kafka.address, out, 0.001), parallelism=2)
    one.await_checkpoints()
    one.kill_slot(0)
    one.await_attempt(1)
    one.await_checkpoints()
    path = one.savepoint(stop=True)
    assert one.end() is JobStatus.FINISHED
    snapshot = load_snapshot(path)
    positions = split_positions(snapshot.location, snapshot.metadata.operators)["words"]
    assert partition_offsets(positions).keys() == {KafkaTopicPartition(words, number) for number in range(3)}
    assert sum(max(0, offset) for offset in partition_offsets(positions).values()) == len(counts_of(kafka, out))
    two = job(counting(source, kafka.address, out), parallelism=3, **{"execution.state-recovery.path": path})
    numbered(kafka, words, 400, partitions=3)
    wait_until(lambda: len(counts_of(kafka, out)) == 2400)
    two.kill_slot(1)
    two.await_attempt(1)
    ends = {(words, number): 800 for number in range(3)}
    wait_until(lambda: kafka.group_offsets("watched", words) == ends)
    assert counts_of(kafka, out) == expected(3, 400, 2)
    two.close()
    assert counts_of(kafka, out) == expected(3, 400, 2)


@pytest.mark.slow
def test_a_partition_is_found_while_it_runs_and_a_broker_that_comes_back_is_read_on(kafka, job):
    words, out = kafka.new_topic(1), kafka.new_topic(1)
    numbered(kafka, words, 10, partitions=1)
    source = builder(kafka.address).set_topics(words).set_property("partition.discovery.interval.ms", "200").build()
    job(counting(source, kafka.address, out), parallelism=2)
    wait_until(lambda: len(counts_of(kafka, out)) == 10)
    kafka.add_partitions(words, 2)
    kafka.send(words, [(None, f"1.{number}") for number in range(10)], 1)
    wait_until(lambda: len(counts_of(kafka, out)) == 20)
    kafka.kill()
    kafka.start()
    numbered(kafka, words, 20, first=10, partitions=2)
    wait_until(lambda: len(counts_of(kafka, out)) == 60)
    assert counts_of(kafka, out) == expected(2, 30)


def test_a_topic_that_is_made_anew_while_it_is_read_fails_the_job_for_good_before_its_records_are_committed(kafka, job):
    words, out = kafka.new_topic(1), kafka.new_topic(1)
    numbered(kafka, words, 10, partitions=1)
    one = job(counting(builder(kafka.address).set_topics(words).build(), kafka.address, out), parallelism=1)
    wait_until(lambda: len(counts_of(kafka, out)) == 10)
    kafka.remake_topic(words, 1)
    numbered(kafka, words, 30, first=100, partitions=1)
    with pytest.raises(RestoreError, match="deleted and recreated"):
        one.end()
    assert len(one.relays.made) == 1, "there was no second attempt"
    assert counts_of(kafka, out) == expected(1, 10)


def test_what_a_transaction_holds_is_seen_once_it_is_committed_and_the_end_after_it_is_reached(kafka, job, capsys):
    from confluent_kafka import Producer

    topic = kafka.new_topic(1)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": "t", "log_level": 2})
    producer.init_transactions(30)
    for value, end in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value=value)
        producer.flush(30)
        end(30)

    def read(isolation):
        made = builder(kafka.address).set_topics(topic).set_bounded(LATEST).set_property("isolation.level", isolation)
        assert job(printing(made.build()), parallelism=1).end() is JobStatus.FINISHED
        return printed(capsys)

    assert read("read_committed") == ["kept"]
    assert read("read_uncommitted") == ["dropped", "kept"]


class Fired:
    """The times at which timers have fired, as they were printed: again after a failure."""

    def __init__(self, capsys):
        self._capsys = capsys
        self._seen = ""

    def wait_for(self, *times):
        wait_until(lambda: self.look() >= set(times))
        assert self.look() == set(times)

    def look(self):
        self._seen += self._capsys.readouterr().out
        return {int(time) for time in re.findall(r"fired:(\d+)", self._seen)}


def test_each_partition_has_a_watermark_of_its_own(kafka, job, capsys):
    topic, fired = kafka.new_topic(3, retention_ms="-1"), Fired(capsys)  # the last one is empty, and holds nobody up
    kafka.send(topic, [(None, "a")], 0, timestamp=1000)
    kafka.send(topic, [(None, "b")], 0, timestamp=90_000)
    kafka.send(topic, [(None, "c")], 1, timestamp=2000)
    job(firing(builder(kafka.address).set_topics(topic).build()), parallelism=2)
    fired.wait_for(1000)
    kafka.send(topic, [(None, "d")], 1, timestamp=95_000)
    fired.wait_for(1000, 2000)
    kafka.send(topic, [(None, "e")], 0, timestamp=96_000)
    fired.wait_for(1000, 2000, 90_000)


def test_an_idle_partition_holds_nobody_up_once_its_time_is_over(kafka, job, capsys):
    topic, fired = kafka.new_topic(2, retention_ms="-1"), Fired(capsys)
    for partition, time in ((0, 1000), (0, 90_000), (1, 2000)):
        kafka.send(topic, [(None, "a")], partition, timestamp=time)
    # a partition whose first element takes as long as that would be idle before it, too
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(8))
    job(firing(builder(kafka.address).set_topics(topic).build(), strategy), parallelism=1)
    wait_until(lambda: 1000 in fired.look())
    kafka.send(topic, [(None, "b")], 0, timestamp=91_000)
    fired.wait_for(1000, 2000, 90_000)


@pytest.mark.slow
def test_a_password_is_passed_on_and_a_wrong_one_is_told_at_the_start(job, tmp_path, capsys):
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker", {}, passwords={"alice": "secret"}) as kafka:
        topic = kafka.new_topic()
        kafka.send(topic, [(None, "a")])

        def reading(password):
            plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
            made = builder(kafka.secure_address).set_topics(topic).set_bounded(LATEST)
            made.set_property("security.protocol", "SASL_PLAINTEXT").set_property("sasl.mechanism", "PLAIN")
            made.set_property("sasl.jaas.config", f'{plain} username="alice" password="{password}";')
            return printing(made.build())

        assert job(reading("secret"), parallelism=1).end() is JobStatus.FINISHED
        assert printed(capsys) == ["a"]
        refused = job(reading("wrong"), parallelism=1, **{"restart-strategy.type": "none"})
        with pytest.raises(ExternalSystemError, match="uthentication"):
            refused.end()
        assert refused.relays.made == [], "no attempt was made"
