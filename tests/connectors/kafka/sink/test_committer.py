"""Transactions against a real broker, crashed at each step."""

from __future__ import annotations

import pytest

from pystate.common.errors import CommitError, PystateError
from pystate.connectors.kafka.sink.commit_markers import MARKER_TOPIC
from pystate.testing import SinkTestHarness
from tests.connectors.kafka.sink.sinks import Crash, Steps, builder, opened, values
from tests.waiting import LONGEST_S

STEPS = ["taken", "begun", "produced", "marked", "flushed", "noted", "committed"]


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
def test_whoever_goes_on_after_a_crash_commits_once(kafka, step):
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


@pytest.mark.slow
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


def test_a_topic_that_is_not_there_fails_the_job(kafka):
    sink = builder(kafka, "nowhere").set_property("topic.metadata.propagation.max.ms", "100").build()
    with opened(sink) as harness:
        harness.process_elements(["a:1"])
        harness.snapshot(1)
        with pytest.raises(CommitError, match="Kafka doesn't take the records: .*[Uu]nknown topic"):
            harness.notify_of_completed_checkpoint(1)


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
    config = admin.describe_configs([resource])[resource].result(LONGEST_S)
    assert {key: config[key].value for key in ("cleanup.policy", "retention.ms", "retention.bytes")} == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }
