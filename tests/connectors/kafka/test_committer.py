"""Transactions against a real broker, crashed at each step."""

from __future__ import annotations

import pytest

from pystate.common.errors import CommitError, PystateError
from pystate.connectors.kafka import markers as markers_module
from pystate.connectors.kafka.markers import MARKER_TOPIC, Markers, marker_partition
from pystate.testing import SinkTestHarness
from tests.connectors.kafka.sinks import builder, values

STEPS = ["taken", "begun", "produced", "marked", "flushed", "committed"]


class Crash(BaseException):
    """A process's end: nothing behind it runs."""


class Steps:
    """Crashes at one step, and does what a test wants at another."""

    def __init__(self, crash=None):
        self.crash = crash
        self.then = lambda name: None

    def __call__(self, name):
        if name == self.crash:
            raise Crash(name)
        self.then(name)


def opened(sink, snapshot=None, **options):
    harness = SinkTestHarness(sink, **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


def test_records_are_seen_once_their_checkpoint_is_complete(kafka):
    topic = kafka.new_topic(partitions=2)
    with opened(builder(kafka, topic).build()) as harness:
        harness.process_elements(["a:1", "b:1", "a:2"])
        assert values(kafka, topic, "read_uncommitted") == []
        harness.snapshot(1)
        harness.process_elements(["a:3"])
        assert values(kafka, topic, "read_uncommitted") == []
        harness.notify_of_completed_checkpoint(1)
        assert sorted(values(kafka, topic)) == ["a:1", "a:2", "b:1"]
        harness.snapshot(2)
        harness.notify_of_completed_checkpoint(2)
    of_a = [message for message in kafka.read(topic) if message.key() == b"a"]
    assert [message.value() for message in of_a] == [b"a:1", b"a:2", b"a:3"]
    assert len({message.partition() for message in of_a}) == 1


@pytest.mark.parametrize("step", STEPS)
def test_whoever_goes_on_behind_a_crash_commits_once(kafka, step):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    sink.step = steps = Steps(step)
    crashed = opened(sink)
    crashed.process_elements(["a:1", "a:2"])
    snapshot = crashed.snapshot(1)
    with pytest.raises(Crash):
        crashed.notify_of_completed_checkpoint(1)
    steps.crash = None
    for _ in range(2):  # and once more: nobody knows that it was done
        with opened(sink, snapshot) as harness:
            assert values(kafka, topic) == ["a:1", "a:2"]
            harness.process_elements(["a:3"])  # isn't in a checkpoint, and goes with the process
    assert values(kafka, topic, "read_uncommitted").count("a:3") == 0


def test_a_savepoint_that_two_jobs_start_from_is_committed_once(kafka):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    with opened(sink) as harness:
        harness.process_elements(["a:1"])
        snapshot = harness.snapshot(1)
        named = builder(kafka, topic).set_transactional_id_prefix
        forks = [opened(named(name).build(), snapshot) for name in ("one", "two")]  # as jobs of their own are
        harness.notify_of_completed_checkpoint(1)  # fenced by the forks, and finds their marker
        assert values(kafka, topic) == ["a:1"]
        for fork in forks:
            fork.process_elements(["a:2"])
            fork.snapshot(2)
            fork.notify_of_completed_checkpoint(2)
            fork.close()
    assert values(kafka, topic) == ["a:1", "a:2", "a:2"]


def test_an_older_process_that_wakes_up_is_fenced(kafka):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    asleep = []

    def successor(name):
        if name == "flushed" and not asleep:
            asleep.append(name)  # all is written but the end of the transaction; a successor takes over now
            opened(sink, snapshot).close()
            assert values(kafka, topic) == ["a:1"]

    sink.step = steps = Steps()
    steps.then = successor
    with opened(sink) as zombie:
        zombie.process_elements(["a:1"])
        snapshot = zombie.snapshot(1)
        zombie.notify_of_completed_checkpoint(1)
        assert asleep
        assert zombie.get_metrics()["retriedCommittables"] == 1
        assert zombie.get_metrics()["alreadyCommittedCommittables"] == 1
    assert values(kafka, topic) == ["a:1"]


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3), (2, 3)])
def test_what_subtasks_had_open_is_ended_by_others(kafka, before, after):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    sink.step = steps = Steps()
    snapshots = []
    for subtask in range(before):
        crashed = opened(sink, parallelism=before, subtask_index=subtask)
        crashed.process_elements([f"{subtask}:{number}" for number in range(5)])
        snapshots.append(crashed.snapshot(1))
        if subtask % 2 == 0:
            steps.crash = "flushed"
            with pytest.raises(Crash):
                crashed.notify_of_completed_checkpoint(1)
            steps.crash = None
        else:
            crashed.notify_of_completed_checkpoint(1)
    resumed = builder(kafka, topic).set_transactional_id_prefix("another-job").build()
    for share in SinkTestHarness.repartition(snapshots, before, after, 128):
        opened(resumed, share, parallelism=after, subtask_index=share.subtask_index).close()
    expected = [f"{subtask}:{number}" for subtask in range(before) for number in range(5)]
    assert sorted(values(kafka, topic)) == expected
    assert kafka.open_transactions(topic) == []


def test_a_broker_that_dies_in_a_transaction_is_waited_for(kafka):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    killed = []

    def kill(name):
        if name == "flushed" and not killed:
            killed.append(name)
            kafka.kill()
            kafka.start()

    sink.step = steps = Steps()
    steps.then = kill
    with opened(sink) as harness:
        for number in (1, 2):
            harness.process_elements([f"a:{number}"])
            harness.snapshot(number)
            harness.notify_of_completed_checkpoint(number)
    assert killed
    assert values(kafka, topic) == ["a:1", "a:2"]


def test_markers_behind_a_transaction_of_another_are_waited_for(kafka, monkeypatch):
    from confluent_kafka import Producer

    topic, asked, end = kafka.new_topic(), [], Markers._end
    with opened(builder(kafka, topic).build()) as harness:
        harness.process_elements(["a:1"])
        snapshot = harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    mine = f"kafka-sink-{'0' * 32}-operator-0"
    assert {message.key() for message in kafka.read(MARKER_TOPIC)} >= {mine.encode()}
    other = Producer({"bootstrap.servers": kafka.address, "transactional.id": "other", "log_level": 2})
    other.init_transactions(30)
    other.begin_transaction()
    other.produce(MARKER_TOPIC, key="other", value="0", partition=marker_partition(mine))
    other.flush(30)

    def ends(self, partition):
        asked.append(partition)
        if len(asked) == 2:
            other.abort_transaction(30)
        return end(self, partition)

    monkeypatch.setattr(Markers, "_end", ends)
    monkeypatch.setattr(markers_module, "REQUEST_TIMEOUT_S", 1.0)
    with opened(builder(kafka, topic).build(), snapshot) as harness:
        assert len(asked) >= 2
        assert harness.get_metrics()["alreadyCommittedCommittables"] == 1
    assert values(kafka, topic) == ["a:1"]


def test_a_topic_that_is_not_there_fails_the_job(kafka):
    sink = builder(kafka, "nowhere").set_property("topic.metadata.propagation.max.ms", "100").build()
    with opened(sink) as harness:
        harness.process_elements(["a:1"])
        harness.snapshot(1)
        with pytest.raises(CommitError, match="Kafka doesn't take the records: .*[Uu]nknown topic"):
            harness.notify_of_completed_checkpoint(1)


def test_markers_that_the_topic_has_dropped_are_not_taken_for_missing(kafka):
    topic, markers = kafka.new_topic(), kafka.new_topic(8, "markers", retention_ms="1")
    sink = builder(kafka, topic).set_marker_topic(markers).build()
    with opened(sink) as harness:
        harness.process_elements(["a:1"])
        harness.snapshot(1)
        with pytest.raises(PystateError, match="has dropped markers"):
            harness.notify_of_completed_checkpoint(1)
    assert values(kafka, topic) == []


def test_a_topic_for_markers_with_too_few_partitions_is_refused(kafka):
    markers = kafka.new_topic(1, "markers")
    with pytest.raises(PystateError, match="has 1 partitions, and needs 8") as refused:
        opened(builder(kafka, kafka.new_topic()).set_marker_topic(markers).build())
    assert "kafka-topics.sh" in refused.value.hint


def test_markers_are_kept_for_ever(kafka):
    from confluent_kafka.admin import ConfigResource, ResourceType

    with opened(builder(kafka, kafka.new_topic()).build()):
        pass
    resource = ConfigResource(ResourceType.TOPIC, MARKER_TOPIC)
    admin = kafka.admin()
    config = admin.describe_configs([resource])[resource].result(30)
    assert {key: config[key].value for key in ("cleanup.policy", "retention.ms", "retention.bytes")} == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
