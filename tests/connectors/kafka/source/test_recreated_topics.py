"""A topic that is deleted and recreated while the job runs: no record of the new one is taken for one of the old one's."""

from __future__ import annotations

import pytest

from pystate.common import Types
from pystate.common.serialization import SimpleStringSchema
from pystate.connectors.kafka.source import topic_identity
from pystate.connectors.kafka.source.partition_split import KafkaPartitionSplit
from pystate.connectors.kafka.source.topic_identity import RecreatedTopicError
from pystate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pystate.runtime.job_folder.restart_strategies import is_fatal
from pystate.testing import SourceTestHarness
from tests.waiting import wait_until


@pytest.fixture
def reading(kafka):
    made = []

    def make(topic, snapshots=None, end=None, rows_per_epoch=None, **properties):
        builder = KafkaSource.builder().set_bootstrap_servers(kafka.address).set_topics(topic)
        builder.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(SimpleStringSchema())
        if end is not None:
            builder.set_bounded(end)
        for key, value in properties.items():
            builder.set_property(key, value)
        source, _ = builder.build().in_slots("words", timed=False)
        made.append(SourceTestHarness(lambda: source, snapshots, output_type=Types.STRING(), rows_per_epoch=rows_per_epoch))
        return made[-1]

    yield make
    for harness in made:
        harness.close()


def send(kafka, topic, name, count):
    kafka.send(topic, [(None, f"{name}{number}") for number in range(count)])


def names(name, count):
    return [f"{name}{number}" for number in range(count)]


def read_all(harness, count):
    got = []
    wait_until(lambda: len(got.extend(harness.run_epoch()) or got) >= count)
    return got


def half_read(kafka, reading, **properties):
    """Return a job that has read a topic of ten records to its end, which another one of twenty has replaced."""
    topic = kafka.new_topic(1)
    send(kafka, topic, "old", 10)
    harness = reading(topic, **properties)
    assert read_all(harness, 10) == names("old", 10)
    kafka.remake_topic(topic, 1)
    send(kafka, topic, "new", 20)
    return topic, harness


def test_a_job_with_checkpoints_fails_for_good_before_one_holds_a_record_of_the_new_topic(kafka, reading):
    _, harness = half_read(kafka, reading)
    in_snapshots, numbers = [], iter(range(2, 10_000))

    def run():
        elements = harness.run_epoch()
        harness.snapshot(next(numbers))
        in_snapshots.extend(elements)

    with pytest.raises(RecreatedTopicError, match="deleted and recreated") as refused:
        wait_until(run)
    assert in_snapshots == []
    assert is_fatal(refused.value), "no restart brings the old topic back"
    assert "failOnDataLoss" in refused.value.hint


def test_a_job_without_checkpoints_fails_a_little_later(kafka, reading, monkeypatch):
    monkeypatch.setattr(topic_identity, "_LOOK_EACH_MS", 100)
    _, harness = half_read(kafka, reading)
    with pytest.raises(RecreatedTopicError):
        wait_until(lambda: harness.run_epoch() and False)


def test_who_takes_losses_reads_the_new_topic_from_its_beginning_once(kafka, reading):
    takes_losses = {"failOnDataLoss": "false"}
    topic, harness = half_read(kafka, reading, **takes_losses)
    assert read_all(harness, 20) == names("new", 20)
    snapshots = harness.snapshot(2)
    harness.close()
    send(kafka, topic, "newest", 3)
    for properties in (takes_losses, {}):
        assert read_all(reading(topic, snapshots, **properties), 3) == names("newest", 3), "the snapshot has the new id"


@pytest.mark.parametrize("count", [2, 20])
def test_who_takes_losses_ends_where_the_new_topic_does(kafka, reading, count):
    topic = kafka.new_topic(1)
    send(kafka, topic, "old", 10)
    harness = reading(topic, end=KafkaOffsetsInitializer.latest(), rows_per_epoch=4, failOnDataLoss="false")
    snapshots = []
    wait_until(lambda: harness.run_epoch() and snapshots.append(harness.snapshot(2)) is None)
    harness.close()
    kafka.remake_topic(topic, 1)
    send(kafka, topic, "new", count)
    resumed = reading(topic, snapshots[0], end=KafkaOffsetsInitializer.latest(), failOnDataLoss="false")
    got = []
    wait_until(lambda: got.extend(resumed.run_epoch()) or resumed.ended)
    assert got == names("new", count)


@pytest.mark.parametrize("when", ["while it runs", "while it is down"])
def test_who_takes_losses_ends_where_the_new_topic_has_fewer_partitions(kafka, reading, when):
    topic, latest = kafka.new_topic(2), KafkaOffsetsInitializer.latest()
    kafka.send(topic, [(None, "old" + "x" * 4000)] * 10_000, 1)
    how = {"end": latest, "rows_per_epoch": 100, "failOnDataLoss": "false"}
    harness, snapshots = reading(topic, **how), []
    wait_until(lambda: harness.run_epoch() and snapshots.append(harness.snapshot(2)) is None)
    if when == "while it is down":
        harness.close()
    kafka.remake_topic(topic, 1)
    if when == "while it is down":
        harness = reading(topic, snapshots[0], **how)
    wait_until(lambda: harness.run_epoch() is None or harness.ended)


def test_a_topic_is_known_from_the_first_start_on_after_a_snapshot_without_ids(kafka, reading, monkeypatch):
    topic = kafka.new_topic(1)
    send(kafka, topic, "old", 10)
    first = reading(topic)
    assert read_all(first, 10) == names("old", 10)
    whole = KafkaPartitionSplit.to_plain
    with monkeypatch.context() as older:
        older.setattr(KafkaPartitionSplit, "to_plain", lambda split: {**whole(split), "topic-id": None})
        without_ids = first.snapshot(2)
    first.close()
    again = reading(topic, without_ids)
    send(kafka, topic, "old1", 1)
    assert read_all(again, 1) == ["old10"]
    snapshots = again.snapshot(3)
    again.close()
    kafka.remake_topic(topic, 1)
    with pytest.raises(RecreatedTopicError):
        reading(topic, snapshots)
