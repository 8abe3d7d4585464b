"""How a repeated commit knows that it was done, whatever hides, drops or holds up the answer: against a real broker."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from pystate.common.configuration.groups.sink_options import SinkOptions, UnknownCommits
from pystate.common.errors import CommitError, PystateError
from pystate.connectors.kafka import kafka_client as client
from pystate.connectors.kafka.kafka_failures import Failure, failure_of
from pystate.connectors.kafka.sink import commit_markers as markers_module
from pystate.connectors.kafka.sink import commit_register
from pystate.connectors.kafka.sink import kafka_sink as sink_module
from pystate.connectors.kafka.sink.commit_markers import CLOCK_SLACK_MS, MARKER_TOPIC, PARTITIONS, Markers, marker_partition
from pystate.connectors.kafka.sink.commit_register import MOST_KEPT, CommitRegister, CommitRegisters
from tests.connectors.kafka.sink.sinks import builder, opened, values

MINE = f"kafka-sink-{'0' * 32}-operator-0"


def committed(sink, *elements):
    """Write elements, and return the snapshot of their checkpoint, which is committed."""
    with opened(sink) as harness:
        harness.process_elements(list(elements))
        snapshot = harness.snapshot(1)
        harness.notify_of_completed_checkpoint(1)
    return snapshot


def send_older_marker(kafka, markers):
    """Let the topic of markers have been there for some hours."""
    before = int(time.time() * 1000) - 3 * CLOCK_SLACK_MS
    kafka.send(markers, [("another id", "older")], marker_partition(MINE), timestamp=before)


def already(harness):
    return harness.get_metrics()["alreadyCommittedCommittables"]


@pytest.fixture
def of_an_old_version(monkeypatch):
    """Let committables be as they were before they said anything of their markers."""
    monkeypatch.setattr(sink_module, "stamp_of", lambda *_: None)


def test_transactions_of_others_neither_hide_what_is_committed_nor_hold_it_up(kafka):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    with opened(sink):  # makes the topic of markers
        pass
    with kafka.open_transaction(MARKER_TOPIC, marker_partition(MINE)):
        snapshot = committed(sink, "a:1", "a:2")
        with opened(sink, snapshot) as harness:
            assert already(harness) == 1
            harness.process_elements(["a:3"])
            harness.snapshot(2)
            harness.notify_of_completed_checkpoint(2)
        assert values(kafka, topic) == ["a:1", "a:2", "a:3"]


def test_a_crash_before_the_commit_is_known_after_the_transaction_of_another(kafka):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    with opened(sink) as harness:
        harness.process_elements(["a:1"])
        snapshot = harness.snapshot(1)
    with kafka.open_transaction(MARKER_TOPIC, marker_partition(MINE)), opened(sink, snapshot) as harness:
        assert already(harness) == 0
        assert values(kafka, topic) == ["a:1"]


@pytest.mark.usefixtures("of_an_old_version")
def test_markers_of_an_old_version_are_found_once_the_transaction_of_another_ends(kafka, monkeypatch):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    snapshot = committed(sink, "a:1")
    kafka.forget_group(MINE)
    asked, listed = [], Markers._listed
    with kafka.open_transaction(MARKER_TOPIC, marker_partition(MINE)) as other:

        def lists(self, *place):
            asked.append(place)
            if len(asked) == 4:  # each look asks for three offsets: this is the second look
                other.abort_transaction(30)
            return listed(self, *place)

        monkeypatch.setattr(Markers, "_listed", lists)
        monkeypatch.setattr(markers_module, "REQUEST_TIMEOUT_S", 1.0)
        with opened(sink, snapshot) as harness:
            assert len(asked) >= 4
            assert harness.get_metrics()["retriedCommittables"] >= 1
            assert already(harness) == 1
    assert values(kafka, topic) == ["a:1"]


@pytest.mark.slow
@pytest.mark.usefixtures("of_an_old_version")
def test_the_first_young_marker_after_the_transaction_of_another_is_not_taken_for_missing(kafka, monkeypatch):
    topic, markers = kafka.new_topic(), kafka.new_topic(PARTITIONS, "markers")
    sink = builder(kafka, topic).set_marker_topic(markers).build()
    send_older_marker(kafka, markers)
    parameters = {SinkOptions.COMMITTER_RETRIES.key: 0}
    with kafka.open_transaction(markers, marker_partition(MINE)):
        monkeypatch.setattr(markers_module, "REQUEST_TIMEOUT_S", 6.0)
        with opened(sink, job_parameters=parameters) as harness:
            harness.process_elements(["a:1"])
            snapshot = harness.snapshot(1)
            with pytest.raises(CommitError, match="another transaction is open"):
                harness.notify_of_completed_checkpoint(1)
        with pytest.raises(CommitError, match="another transaction is open"):
            opened(sink, snapshot, job_parameters=parameters)
        assert values(kafka, topic) == []
    with opened(sink, snapshot):
        assert values(kafka, topic) == ["a:1"]


@pytest.mark.usefixtures("of_an_old_version")
def test_markers_of_an_old_version_are_missing_only_in_a_topic_that_is_older(kafka):
    topic, markers = kafka.new_topic(), kafka.new_topic(PARTITIONS, "markers")
    sink = builder(kafka, topic).set_marker_topic(markers).build()
    send_older_marker(kafka, markers)
    snapshot = committed(sink, "a:1")
    kafka.remake_topic(markers, PARTITIONS)  # brokers drop the registers of a topic with it
    with pytest.raises(PystateError, match="may have been recreated since: nobody knows any more"):
        opened(sink, snapshot)
    assert values(kafka, topic) == ["a:1"]


@pytest.mark.usefixtures("of_an_old_version")
def test_an_earlier_marker_of_the_same_id_tells_how_old_the_topic_is(kafka):
    topic, markers = kafka.new_topic(), kafka.new_topic(PARTITIONS, "markers")
    sink = builder(kafka, topic).set_marker_topic(markers).build()
    with opened(sink, job_parameters={SinkOptions.UNKNOWN_COMMITS.key: "WRITE"}) as harness:
        for number in (1, 2):
            harness.process_elements([f"a:{number}"])
            snapshot = harness.snapshot(number)
            if number == 1:
                harness.notify_of_completed_checkpoint(number)
    kafka.forget_group(MINE)
    opened(sink, snapshot).close()
    assert values(kafka, topic) == ["a:1", "a:2"]


def test_what_was_committed_before_a_long_pause_is_found_among_the_markers(kafka):
    topic = kafka.new_topic()
    sink = builder(kafka, topic).build()
    snapshot = committed(sink, "a:1")
    kafka.forget_group(MINE)
    with opened(sink, snapshot) as harness:
        assert already(harness) == 1
    assert values(kafka, topic) == ["a:1"]


def test_without_the_right_to_groups_markers_alone_tell(kafka, monkeypatch):
    from confluent_kafka import KafkaError, KafkaException

    def refuses(self, *_):
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no"))

    monkeypatch.setattr(CommitRegisters, "write", refuses)
    topic = kafka.new_topic()
    sink = builder(kafka, topic).set_transactional_id_prefix("no-groups").build()
    snapshot = committed(sink, "a:1")
    with opened(sink, snapshot) as harness:
        assert already(harness) == 1
    assert values(kafka, topic) == ["a:1"]


@pytest.mark.parametrize("how", UnknownCommits)
@pytest.mark.parametrize("lost", ["dropped", "recreated"])
def test_who_runs_the_job_says_what_becomes_of_commits_nobody_knows_of(kafka, how, lost):
    topic, markers = kafka.new_topic(), kafka.new_topic(PARTITIONS, "markers")
    sink = builder(kafka, topic).set_marker_topic(markers).build()
    with opened(sink) as harness:
        harness.process_elements(["a:1"])
        snapshot = harness.snapshot(1)
    kafka.forget_group(MINE)
    if lost == "dropped":
        kafka.alter_topic(markers, {"retention.ms": "1"})
    else:
        kafka.remake_topic(markers, PARTITIONS)
    parameters = {SinkOptions.UNKNOWN_COMMITS.key: how.value}
    if how is UnknownCommits.FAIL:
        with pytest.raises(PystateError, match=f"(?s){lost}.*nobody knows any more") as failed:
            opened(sink, snapshot, job_parameters=parameters)
        assert SinkOptions.UNKNOWN_COMMITS.key in str(failed.value.hint)
        assert values(kafka, topic) == []
        return
    for _ in range(2):  # and once more: the marker is in the new topic now, and in the register
        with opened(sink, snapshot, job_parameters=parameters):
            pass
    assert values(kafka, topic) == (["a:1"] if how is UnknownCommits.WRITE else [])


def test_a_commit_is_looked_for_where_its_marker_is_though_the_sink_names_another_topic(kafka):
    topic, old, new = kafka.new_topic(), kafka.new_topic(PARTITIONS, "markers"), kafka.new_topic(PARTITIONS, "markers")
    snapshot = committed(builder(kafka, topic).set_marker_topic(old).build(), "a:1")
    kafka.forget_group(MINE)
    for _ in range(2):
        with opened(builder(kafka, topic).set_marker_topic(new).build(), snapshot) as harness:
            assert already(harness) == 1
    assert values(kafka, topic) == ["a:1"]


def test_a_register_knows_only_what_was_made_while_it_was_there():
    register = CommitRegister.begun()
    assert register.has("one", 10, register.generation) is False
    assert register.has("one", 10, None) is None
    assert register.has("one", 10, CommitRegister.begun().generation) is None
    assert register.with_commit("one", 10).has("one", 10, None) is True


def test_a_register_that_dropped_some_says_nothing_of_those_that_are_as_old():
    register = CommitRegister.begun()
    for number in range(MOST_KEPT + 5):
        register = register.with_commit(str(number), 100 + number)
    assert len(register.committed) == MOST_KEPT
    assert register.has("4", 104, register.generation) is None
    assert register.has("other", 104, register.generation) is None
    assert register.has("other", 105, register.generation) is False
    assert register.has("5", 105, register.generation) is True
    assert CommitRegister.of_text(register.to_text()) == register
    assert len(register.to_text()) < 4096


@pytest.mark.parametrize("text", [None, "", "abc", "[2,3]", '["x"]', "{}", '[9,"g",-1,[]]'])
def test_what_others_wrote_is_no_register(text):
    assert CommitRegister.of_text(text) is None


def test_a_client_that_outlasts_its_timeout_is_left_behind(kafka, monkeypatch):
    topic = kafka.new_topic()
    registers = CommitRegisters({"bootstrap.servers": kafka.address}, "sink")
    hanging = threading.Event()
    producer = SimpleNamespace(send_offsets_to_transaction=lambda *_: hanging.wait())
    monkeypatch.setattr(commit_register, "_ANSWER_S", 0.01)
    monkeypatch.setattr(commit_register, "_SLACK_S", 0.01)
    with pytest.raises(client.kafka_client().KafkaException) as told:
        registers.write(producer, MINE, (topic, 0), CommitRegister.begun())
    assert failure_of(told.value.args[0]) is Failure.PASSING
    hanging.set()


def test_brokers_that_do_not_answer_are_not_taken_for_some_without_the_topic(monkeypatch):
    monkeypatch.setattr(markers_module, "REQUEST_TIMEOUT_S", 0.5)
    markers = Markers({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, MARKER_TOPIC, "here")
    with pytest.raises(client.KafkaConnectorError, match="don't say whether the topic for markers") as refused:
        markers.make_topic()
    assert "127.0.0.1:1" in refused.value.hint
